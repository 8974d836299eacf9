"""How `slicekit evaluate --diagnose` shows what it found."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from slicekit.cli import display
from slicekit.training.diagnosis import Diagnosis
from slicekit.training.diagnosis.horizon import squared_drift, telling
from slicekit.training.diagnosis.plot import plot_diagnosis
from slicekit.training.diagnosis.readings import Reading
from slicekit.training.diagnosis.spectra import Range, Spectrum


def show(diagnosis: Diagnosis, console: Console) -> None:
    """Print a diagnosis: the readings, the transitions, and how far the model can be trusted.

    Args:
        diagnosis: what `diagnose` gave.
        console: where.
    """
    of = telling(diagnosis.readings[0])
    display.plain(console, "")
    display.plain(console, "how far it can be trusted")
    console.print(_readings(diagnosis, of))
    if of is not None:
        display.plain(
            console,
            f"spread, nearest and ratio: of {_MEANING[of]}, within a class, to the next class,\n"
            "and the one over the other; drift: since the first length, 0.5 is half way over",
        )
    for spectrum in diagnosis.spectra:
        display.plain(console, _transitions(spectrum))
    display.plain(console, diagnosis.horizon.text)


def plot(diagnosis: Diagnosis, path: Path) -> None:
    """Draw a diagnosis.

    Args:
        diagnosis: what `diagnose` gave.
        path: the picture, a PNG.
    """
    plot_diagnosis(diagnosis, path)


_MEANING = {
    "states": "the last layer's states",
    "features": "the features before the head",
}


def _readings(diagnosis: Diagnosis, of: str | None) -> Table:
    columns = ("length", "all", "last", "margin", "its 1%", "spread", "nearest", "ratio", "drift")
    table = display.table(*columns, right=columns)
    for reading in diagnosis.readings:
        table.add_row(
            f"{reading.length:,}",
            display.percent(reading.overall),
            display.percent(reading.last),
            f"{reading.margin:.2f}",
            f"{reading.low_margin:.2f}",
            *_geometry(reading, diagnosis.readings[0], of),
        )
    return table


def _geometry(reading: Reading, first: Reading, of: str | None) -> tuple[str, ...]:
    """Spread, nearest, ratio and drift, as far as they are known."""
    lying = None if of is None else getattr(reading, of)
    if of is None or lying is None:
        return ("-",) * 4
    distances = (f"{x:.3g}" for x in (lying.spread, lying.nearest, lying.ratio))
    drift = squared_drift(reading, first, of)
    return (*distances, "-" if drift is None else f"{drift[0] ** 0.5:.3f}")


def _transitions(spectrum: Spectrum) -> str:
    what = "tokens" if spectrum.tokens else "positions"
    some = "" if spectrum.transitions == spectrum.of else f" of {spectrum.of}"
    line = (
        f"layer {spectrum.layer + 1}, transitions of {spectrum.transitions}{some} {what}: "
        f"spectral radius {_range(spectrum.radius)}, largest singular value "
        f"{_range(spectrum.norm)}"
    )
    if spectrum.isometry:
        return f"{line}: isometries"
    if spectrum.growth is None:
        return line
    return f"{line}; the log of the norm grows by {spectrum.growth:.3g} a step"


def _range(figures: Range) -> str:
    least, median, most = (f"{x:.3f}" for x in (figures.least, figures.median, figures.most))
    return least if least == most else f"{least} to {most} (median {median})"
