"""Figures as files, and all that figures share: colours, bars, ticks, titles and legends.

matplotlib is imported when it is needed. Every room that draws, draws with these.
"""

import io
import math
import textwrap
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from slicekit import files

COLOURS = 10
STYLES = ("-", "--", ":", "-.")
HATCHES = ("", "///", "...", "xxx")
SMALL, TITLE = 7, 10
"""Sizes of letters, in points."""
MANY = 6
"""More names than this do not fit into a panel."""


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def figure(
    columns: int, width: float, height: float, title: str | None = None, *, rows: int = 1
) -> tuple[Any, Any]:
    """A figure with panels side by side.

    Args:
        columns: how many panels.
        width, height: in inches.
        title: of the whole.
        rows: of such panels.

    Returns:
        The figure, and an array of its (rows · columns,) axes.

    Raises:
        ImportError: if matplotlib is missing.
    """
    if not available():
        raise ImportError("plots need matplotlib: pip install 'slicekit[plot]'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    if title is not None:
        made.suptitle(title, fontsize=TITLE + 1)
    return made, made.subplots(rows, columns, squeeze=False).ravel()


def line(number: int) -> dict[str, Any]:
    """The look of a line: no two of the first forty are alike.

    >>> line(0) == line(10), line(0)["color"] == line(10)["color"]
    (False, True)
    """
    style = STYLES[number // COLOURS % len(STYLES)]
    return {"color": f"C{number % COLOURS}", "linestyle": style}


def bar(number: int) -> dict[str, Any]:
    """The look of a bar: no two of the first forty are alike."""
    hatch = HATCHES[number // COLOURS % len(HATCHES)]
    return {"color": f"C{number % COLOURS}", "hatch": hatch, "edgecolor": "white", "linewidth": 0}


def beside(number: int, count: int) -> tuple[float, float]:
    """Where a bar stands, of so many that share a tick: together they are centred on it.

    Returns:
        How far its centre is from the tick, and its width; ticks are 1 apart.

    >>> beside(0, 1)[0]
    0.0
    >>> [round(beside(number, 3)[0], 2) for number in range(3)]
    [-0.27, 0.0, 0.27]
    """
    share = 0.8 / count
    return share * (number + 0.5) - 0.4, 0.9 * share


def over_lengths(axis: Any) -> None:
    """Make lengths the horizontal axis, each doubling as wide as the last."""
    from matplotlib.ticker import NullFormatter

    axis.set_xscale("log", base=2)
    low, high = axis.get_xlim()
    if high < 4 * low:  # not one doubling may lie between them
        _plain_numbers(axis.xaxis, whole=True)
    else:
        axis.xaxis.set_major_formatter(lambda length, _: f"{length:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("length")
    axis.grid(alpha=0.3)


def logarithmic(axis: Any, of: str) -> None:
    """Make one direction of a panel, "x" or "y", logarithmic, with labels that do not overlap.

    What is drawn must be there already: few labels fit on many powers of ten.
    """
    getattr(axis, f"set_{of}scale")("log")
    low, high = getattr(axis, f"get_{of}lim")()
    if high < 1e3 * low:
        _plain_numbers(getattr(axis, f"{of}axis"))


def _plain_numbers(along: Any, whole: bool = False) -> None:
    """Labels at 1, 2 and 5 times a power of ten; where few of them lie, at round numbers.

    Args:
        along: the axis.
        whole: whether only whole numbers are there to be labelled.
    """
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter

    low, high = sorted(along.get_view_interval())
    # By hand: over a small range, LogLocator gives ticks of its own choice.
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [times * 10.0**power for power in powers for times in (1, 2, 5)]
    inside = [x for x in ticks if low <= x <= high]
    along.set_major_locator(
        FixedLocator(inside) if len(inside) > 2 else MaxNLocator(5, integer=whole)
    )
    along.set_major_formatter(lambda value, _: f"{value:g}")
    along.set_minor_formatter(NullFormatter())


def label(axis: Any, *, title: str, x: str | None = None, y: str | None = None) -> None:
    """Say what a panel shows, and what its directions are."""
    axis.set_title(title, fontsize=TITLE)
    if x is not None:
        axis.set_xlabel(x)
    if y is not None:
        axis.set_ylabel(y)


def percentages(axis: Any, what: str = "accuracy, %", low: float = -2) -> None:
    """Make percentages the vertical direction of a panel; bars stand on low=0."""
    axis.set_ylim(low, 102)
    axis.set_ylabel(what)


def legend(axis: Any, title: str | None = None, *, outside: bool = False) -> None:
    """A legend, if anything has a name; a long one, or one of bars, stands beside the panel."""
    names = axis.get_legend_handles_labels()[1]
    if not names:
        return
    place: dict[str, Any] = {}
    if outside or len(names) > MANY:
        place = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
    axis.legend(fontsize=SMALL, title=title, title_fontsize=SMALL, **place)


def names_below(axis: Any, names: Sequence[str]) -> None:
    """A tick for each name, from 0 on; many or long names are written at a slant."""
    slanted = sum(map(len, names)) > 60
    turned: dict[str, Any] = {"rotation": 60, "ha": "right"} if slanted else {}
    axis.set_xticks(range(len(names)), names, fontsize=SMALL, **turned)


def squares(
    axis: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    words: Sequence[Sequence[str]],
    *,
    low: float,
    high: float,
) -> None:
    """Make a panel a table of coloured squares, which holds more rows than bars or lines can.

    Args:
        axis: the panel.
        rows, columns: their names; empty ones of rows beside a panel that has them.
        values: the darkness of each square, a sequence for each row; NaN leaves it white.
        words: what stands in each.
        low, high: the values that are palest and darkest.
    """
    axis.imshow(values, cmap="Blues", vmin=low, vmax=high, aspect="auto")
    for row, own in enumerate(words):
        for column, word in enumerate(own):
            dark = values[row][column] > (low + high) / 2
            look = {"color": "white" if dark else "black", "fontsize": SMALL}
            axis.text(column, row, word, ha="center", va="center", **look)
    names_below(axis, [textwrap.fill(name, 11) for name in columns])
    axis.set_yticks(range(len(rows)), rows, fontsize=SMALL)
    axis.tick_params(length=0)


def write(made: Any, path: Path) -> None:
    """Write a figure as PNG; its folder is made if it is missing.

    Raises:
        OSError: if the file can't be written.
    """
    picture = io.BytesIO()
    made.savefig(picture, dpi=130, format="png")
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, picture.getvalue())
