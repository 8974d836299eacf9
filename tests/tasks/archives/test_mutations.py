"""Files that were damaged at random are read as what they now say, or refused: nothing between."""

import math
import re
from pathlib import Path

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from slicekit.tasks.archives import ArchiveError, Series, read, read_archive
from tests.tasks.archives.writers import arff_text, quick, small_series, ts_text, write

INSERTED = st.sampled_from(
    [
        b"?",
        b",",
        b":",
        b"\n",
        b" ",
        b"@data",
        b"nan",
        b"1e999",
        b"\xff",
        b"\0",
        b"-",
        b"(",
        b'"',
        b"@",
    ]
)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """One to three changes anywhere."""
    for _ in range(draw(st.integers(1, 3))):
        lines = content.split(b"\n")
        place = draw(st.integers(0, max(len(content) - 1, 0)))
        row = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(["flip", "cut", "insert", "drop", "repeat", "swap", "move"]))
        if kind == "flip" and content:
            flipped = content[place] ^ (1 << draw(st.integers(0, 7)))
            content = content[:place] + bytes([flipped]) + content[place + 1 :]
        elif kind == "cut":
            content = content[:place]
        elif kind == "insert":
            content = content[:place] + draw(INSERTED) + content[place:]
        elif kind == "drop":
            content = b"\n".join(lines[:row] + lines[row + 1 :])
        elif kind == "repeat":
            content = b"\n".join(lines[: row + 1] + lines[row:])
        elif kind == "move":
            content = b"\n".join(lines[:row] + lines[row + 1 :] + [lines[row]])
        else:
            tokens = re.split(rb"([,:\s])", content)
            one, other = (draw(st.integers(0, len(tokens) - 1)) for _ in range(2))
            tokens[one], tokens[other] = tokens[other], tokens[one]
            content = b"".join(tokens)
    return content


def is_consistent(series: Series) -> bool:
    """Whether a set keeps the promises of its class."""
    clean = not series.observations.isinf().any()
    ordered = series.times is None or bool(
        ((series.times.diff() > 0) | (series.positions[1:] == 0)).all()
    )
    return clean and ordered and bool(series.answers.isfinite().all())


def numbers(text: str) -> list[float]:
    return [math.nan if x.strip() == "?" else float(x) for x in text.split(",")]


def plain_cases(content: bytes) -> list[tuple[list[list[float]], str]]:
    """The lines after @data by the definition of `.ts`, in plain Python, without timestamps."""
    found, started = [], False
    for raw in content.split(b"\n"):
        line = raw.strip()
        if not line or line.startswith((b"#", b"%")):
            continue
        if started:
            *channels, answer = line.decode().split(":")
            found.append(([numbers(channel) for channel in channels], answer.strip()))
        started = started or line.split()[0].lower() == b"@data"
    return found


def says(series: Series, cases: list[tuple[list[list[float]], str]]) -> bool:
    if len(series) != len(cases):
        return False
    for row, (channels, answer) in enumerate(cases):
        expected = torch.from_numpy(np.array(channels, dtype=np.float32).T)
        length = int(series.lengths[row])
        told = int(series.answers[row]) if series.classes else float(series.answers[row])
        wanted = series.classes.index(answer) if series.classes else np.float32(float(answer))
        if told != wanted or expected.shape != (length, series.channels):
            return False
        if not torch.equal(series.case(row).nan_to_num(7), expected.nan_to_num(7)):
            return False
    return True


def read_or_refuse(file: Path) -> Series | None:
    try:
        return read(file)
    except ArchiveError as error:
        assert re.match(
            rf"{re.escape(str(file))}, line \d+: .+; expected .+", str(error), re.DOTALL
        )
        return None


@quick
@given(small_series(timed=False), st.booleans(), st.data())
def test_damaged_ts_is_what_it_says_or_an_error(
    tmp_path: Path, series: Series, declare: bool, data: st.DataObject
) -> None:
    content = data.draw(damaged(ts_text(series, declare=declare).encode()))
    found = read_or_refuse(write(tmp_path, "Woods_TRAIN.ts", content))
    if found is not None:
        assert is_consistent(found) and says(found, plain_cases(content))


@quick
@given(small_series(timed=True), st.data())
def test_damaged_timestamps_are_consistent_or_an_error(
    tmp_path: Path, series: Series, data: st.DataObject
) -> None:
    content = data.draw(damaged(ts_text(series).encode()))
    found = read_or_refuse(write(tmp_path, "Woods_TRAIN.ts", content))
    assert found is None or is_consistent(found)


@quick
@given(small_series(timed=False), st.data())
def test_damaged_arff_is_consistent_or_an_error(
    tmp_path: Path, series: Series, data: st.DataObject
) -> None:
    content = data.draw(damaged(arff_text(series).encode()))
    found = read_or_refuse(write(tmp_path, "Woods_TRAIN.arff", content))
    assert found is None or is_consistent(found)


@quick
@given(st.data())
def test_damaged_npz_is_as_it_was_or_an_error(tmp_path: Path, data: st.DataObject) -> None:
    file = tmp_path / "Woods.npz"
    values, answers = np.arange(12.0).reshape(2, 3, 2), np.array([0, 1])
    names = np.array(["a", "b"])
    np.savez(file, X_train=values, y_train=answers, X_test=values, y_test=answers, classes=names)
    file.write_bytes(data.draw(damaged(file.read_bytes())))
    try:
        found = read_archive(file)
    except ArchiveError as error:
        assert str(error).startswith(str(file))
    else:
        assert found.classes == ("a", "b")
        for series in (found.train, found.test):
            assert np.array_equal(series.values.numpy(), values)
            assert series.answers.tolist() == [0, 1]


@quick
@given(small_series(timed=False), st.data())
def test_a_cut_file_is_noticed_except_between_cases_and_inside_answers(
    tmp_path: Path, series: Series, data: st.DataObject
) -> None:
    whole = ts_text(series).encode()
    start = whole.index(b"@data") + 6
    content = whole[: data.draw(st.integers(start, len(whole)))]
    found = read_or_refuse(write(tmp_path, "Woods_TRAIN.ts", content))
    if found is not None:
        kept = series.select(range(len(found)))
        assert torch.equal(found.lengths, kept.lengths)
        assert torch.equal(*(x.observations.nan_to_num(7) for x in (found, kept)))
        assert torch.equal(found.answers[:-1], kept.answers[:-1])
