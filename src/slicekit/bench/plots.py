"""Pictures of the figures; they need matplotlib."""

from pathlib import Path

from slicekit import figures
from slicekit.bench.contenders import CHUNKED, KEPT, PEERS, RECOMPUTED, RECURRENT
from slicekit.bench.problems import Shape
from slicekit.bench.scaling import Curves
from slicekit.bench.structures import Row
from slicekit.bench.targets import Line

MEBI = 2**20
COLOURS = {"met": "tab:green", "short": "tab:red"}


def plot_targets(lines: list[Line], path: Path) -> None:
    """How far each figure is from its target: right of the line is better than asked for."""
    shown = [line for line in lines if line.value]
    made, (axis,) = figures.figure(1, 10, 1.4 + 0.24 * len(shown))
    margins = [_margin(line) for line in shown]
    colours = [COLOURS[line.verdict] for line in shown]
    places = range(len(shown))
    axis.barh(places, [margin - 1 for margin in margins], left=1, color=colours)
    axis.set_yticks(places, [f"{line.target.what}  {line.target.sign}" for line in shown])
    axis.tick_params(axis="y", labelsize=7)
    axis.invert_yaxis()
    axis.axvline(1, color="black", linewidth=0.8)
    figures.logarithmic(axis, "x")
    title = "Speed and memory against their targets: green is met"
    figures.label(axis, title=title, x="times better than the target")
    figures.write(made, path)


def _margin(line: Line) -> float:
    assert line.value
    ratio = line.target.limit / line.value
    return ratio if line.target.at_most else 1 / ratio


def plot_structures(rows: list[Row], path: Path) -> None:
    """Time over the floor of every structure, a panel for each shape."""
    shapes = list(dict.fromkeys(_asked(row) for row in rows))
    title = "Time of every structure over its floor"
    made, axes = figures.figure(1, 11, 0.4 + 3.6 * len(shapes), title, rows=len(shapes))
    kinds = {
        "native, kept": (KEPT,),
        "native, recomputed": (RECOMPUTED,),
        "chunked": (CHUNKED,),
        "recurrent": (RECURRENT,),
        "torch-slices": PEERS,
    }
    kinds = {k: x for k, x in kinds.items() if any(_best(row, x) for row in rows)}
    for axis, (batch, length) in zip(axes, shapes, strict=True):
        asked = [row for row in rows if _asked(row) == (batch, length)]
        for number, (label, names) in enumerate(kinds.items()):
            bars = [
                (place, value) for place, row in enumerate(asked) if (value := _best(row, names))
            ]
            offset, width = figures.beside(number, len(kinds))
            places = [place + offset for place, _ in bars]
            heights = [value for _, value in bars]
            axis.bar(places, heights, width, **figures.bar(number), label=label)
        axis.set_xticks(range(len(asked)), [_name(row) for row in asked], fontsize=6)
        axis.axhline(1, color="black", linewidth=0.8)
        figures.logarithmic(axis, "y")
        figures.label(axis, title=f"batch {batch}, length {length}", y="time / floor")
    figures.legend(axes[0], outside=True)
    figures.write(made, path)


def _name(row: Row) -> str:
    """The structure and its sizes in two lines, which stay apart from their neighbours'."""
    kind, _, size = row.setting.structure.rpartition("-")
    dim = f"dim {row.setting.shape.dim}"
    numbered = bool(kind) and size.replace(".", "").isdigit()
    return f"{kind}\n{size}, {dim}" if numbered else f"{row.setting.structure}\n{dim}"


def _asked(row: Row) -> tuple[int, int]:
    shape: Shape = row.setting.shape
    return shape.batch, shape.length


def _best(row: Row, names: tuple[str, ...]) -> float | None:
    known = [row.over_floor(name) for name in names if name in row.errors]
    return min(known, default=None)


def plot_scaling(what: str, curves: Curves, steps: int | None, path: Path) -> None:
    """Time and memory over a size.

    Args:
        what: the size that grows.
        curves: by contender.
        steps: sequences in a batch if the size is the length, so that costs are per step; or None.
        path: where to write.
    """
    made, axes = figures.figure(2, 10, 4.4, f"How costs grow with the {what}")
    for number, (name, curve) in enumerate(curves.items()):
        for axis, costs in ((axes[0], curve.processor), (axes[1], curve.memory)):
            unit = 1e6 if axis is axes[0] else 1 / 1024
            whole = 1e3 if axis is axes[0] else 1 / MEBI
            values = [
                cost * (whole if steps is None else unit / (size * steps))
                for size, cost in costs.items()
            ]
            if values:
                look = figures.line(number)
                axis.plot(list(costs), values, **look, marker="o", markersize=3, label=name)
    labels = ("ms", "peak MiB") if steps is None else ("µs per step", "peak KiB per step")
    for axis, label, title in zip(axes, labels, ("time", "memory"), strict=True):
        figures.over_lengths(axis)
        figures.logarithmic(axis, "y")
        figures.label(axis, title=title, x=what, y=label)
        figures.legend(axis)
    figures.write(made, path)
