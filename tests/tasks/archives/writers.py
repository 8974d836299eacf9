"""Series written as the archives write them, and small series to write."""

from pathlib import Path

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from slicekit.tasks.archives import Series

quick = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def number(value: float) -> str:
    return "?" if value != value else repr(float(value))


def cases(series: Series) -> list[np.ndarray]:
    """Each (length, channels), without padding."""
    return [x.numpy() for x in series.cases()]


def answers(series: Series) -> list[str]:
    if series.classes:
        return [series.classes[x] for x in series.answers.tolist()]
    return [repr(x) for x in series.answers.tolist()]


def ts_text(series: Series, *, declare: bool = True) -> str:
    """As a `.ts` file; with few or with all the promises in its head."""
    lengths = set(series.lengths.tolist())
    head = [
        "# written by a test",
        f"@problemName {series.name}",
        f"@timeStamps {str(series.times is not None).lower()}",
    ]
    if declare:
        head += [
            f"@missing {str(bool(series.observations.isnan().any())).lower()}",
            f"@univariate {str(series.channels == 1).lower()}",
            f"@dimensions {series.channels}",
            f"@equalLength {str(len(lengths) == 1).lower()}",
        ]
        head += [f"@seriesLength {min(lengths)}"] if len(lengths) == 1 else []
    label = (
        f"@classLabel true {' '.join(series.classes)}" if series.classes else "@targetLabel true"
    )
    lines = []
    clocks = None if series.times is None else series.times.split(series.lengths.tolist())
    for row, (case, answer) in enumerate(zip(cases(series), answers(series), strict=True)):
        channels = []
        for channel in case.T:
            written = [number(x) for x in channel]
            if clocks is not None:
                clock = clocks[row].tolist()
                written = [f"({t!r},{x})" for t, x in zip(clock, written, strict=True)]
            channels.append(",".join(written))
        lines.append(":".join([*channels, answer]))
    return "\n".join([*head, label, "@data", *lines]) + "\n"


def arff_text(series: Series) -> str:
    """As an `.arff` file, relational if it has several channels; padded with question marks."""
    length = int(series.lengths.max())
    positions = [f"@attribute t{i} numeric" for i in range(length)]
    if series.channels > 1:
        positions = ["@attribute walk relational", *positions, "@end walk"]
    kind = f"{{{','.join(series.classes)}}}" if series.classes else "numeric"
    lines = []
    for case, answer in zip(cases(series), answers(series), strict=True):
        rows = [",".join([*map(number, x), *["?"] * (length - len(case))]) for x in case.T]
        values = rows[0] if series.channels == 1 else '"' + r"\n".join(rows) + '"'
        lines.append(f"{values},{answer}")
    head = ["% written by a test", f"@relation {series.name}", *positions]
    return "\n".join([*head, f"@attribute side {kind}", "@data", *lines]) + "\n"


def write(folder: Path, name: str, text: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def same(one: Series, other: Series) -> bool:
    """Whether two sets hold the same; NaN equals NaN."""
    times = one.times is None and other.times is None
    if one.times is not None and other.times is not None:
        times = torch.equal(one.times, other.times)
    return (
        one.classes == other.classes
        and torch.equal(one.lengths, other.lengths)
        and torch.equal(one.answers, other.answers)
        and times
        and torch.equal(
            one.observations.nan_to_num(nan=1e30), other.observations.nan_to_num(nan=1e30)
        )
    )


@st.composite
def small_series(draw: st.DrawFn, *, timed: bool | None = None) -> Series:
    """A few short series, of equal or unequal lengths, with gaps or without."""
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    count, channels = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    equal, gaps = draw(st.booleans()), draw(st.booleans())
    longest = draw(st.integers(1, 6))
    lengths = [longest if equal else int(generator.integers(1, longest + 1)) for _ in range(count)]
    made = [generator.normal(size=(n, channels)).astype(np.float32) for n in lengths]
    if gaps:
        for case in made:
            # The last position is seen, since some formats pad with gaps.
            case[:-1][generator.random(case[:-1].shape) < 0.3] = np.nan
    times = None
    if draw(st.booleans()) if timed is None else timed:
        times = [np.sort(generator.random(n)).cumsum() for n in lengths]
    if draw(st.booleans()):
        names = ("ash", "birch", "oak")
        labels = generator.integers(0, 3, size=count).tolist()
        return Series.of(made, labels, names, times, "Woods")
    return Series.of(made, generator.normal(size=count).tolist(), (), times, "Woods")
