"""Pictures of the figures; they need matplotlib."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from slicekit.bench.contenders import CHUNKED, KEPT, PEERS, RECOMPUTED, RECURRENT
from slicekit.bench.problems import Shape
from slicekit.bench.scaling import Curves
from slicekit.bench.structures import Row
from slicekit.bench.targets import Line

MEBI = 2**20
COLOURS = {"met": "tab:green", "short": "tab:red"}


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def _figure(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def plot_targets(lines: list[Line], path: Path) -> None:
    """How far each figure is from its target: right of the line is better than asked for."""
    shown = [line for line in lines if line.value]
    figure, axes = _figure(1, 1, 10, 1 + 0.24 * len(shown))
    axis = axes[0, 0]
    margins = [_margin(line) for line in shown]
    colours = [COLOURS[line.verdict] for line in shown]
    places = range(len(shown))
    axis.barh(places, [margin - 1 for margin in margins], left=1, color=colours)
    axis.set_yticks(places, [f"{line.target.what}  {line.target.sign}" for line in shown])
    axis.tick_params(axis="y", labelsize=7)
    axis.invert_yaxis()
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xlabel("times better than the target")
    figure.savefig(path, dpi=130)


def _margin(line: Line) -> float:
    assert line.value
    ratio = line.target.limit / line.value
    return ratio if line.target.at_most else 1 / ratio


def plot_structures(rows: list[Row], path: Path) -> None:
    """Time over the floor of every structure, a panel for each shape."""
    shapes = list(dict.fromkeys(_asked(row) for row in rows))
    figure, axes = _figure(len(shapes), 1, 11, 3.6 * len(shapes))
    kinds = {
        "native, kept": (KEPT,),
        "native, recomputed": (RECOMPUTED,),
        "chunked": (CHUNKED,),
        "recurrent": (RECURRENT,),
        "torch-slices": PEERS,
    }
    for axis, (batch, length) in zip(axes[:, 0], shapes, strict=True):
        own = [row for row in rows if _asked(row) == (batch, length)]
        for number, (label, names) in enumerate(kinds.items()):
            bars = [(place, value) for place, row in enumerate(own) if (value := _best(row, names))]
            offset = 0.16 * (number - 2)
            places = [place + offset for place, _ in bars]
            axis.bar(places, [value for _, value in bars], 0.16, label=label)
        names = [f"{row.setting.structure}\ndim {row.setting.shape.dim}" for row in own]
        axis.set_xticks(range(len(own)), names, fontsize=6)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_yscale("log")
        axis.set_ylabel("time / floor")
        axis.set_title(f"batch {batch}, length {length}", fontsize=9)
    axes[0, 0].legend(fontsize=7, ncols=5)
    figure.savefig(path, dpi=130)


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
    figure, axes = _figure(1, 2, 10, 4)
    for number, (name, curve) in enumerate(curves.items()):
        for axis, costs in ((axes[0, 0], curve.processor), (axes[0, 1], curve.memory)):
            unit = 1e6 if axis is axes[0, 0] else 1 / 1024
            whole = 1e3 if axis is axes[0, 0] else 1 / MEBI
            values = [
                cost * (whole if steps is None else unit / (size * steps))
                for size, cost in costs.items()
            ]
            if values:
                axis.plot(list(costs), values, f"C{number}o-", markersize=3, label=name)
    labels = ("ms", "peak MiB") if steps is None else ("µs per step", "peak KiB per step")
    for axis, label in zip(axes[0], labels, strict=True):
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel(what)
        axis.set_ylabel(label)
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=130)
