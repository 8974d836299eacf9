"""Pictures of runs: how they learnt, and how far they hold. They need matplotlib."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slicekit.training.evaluation import Score
from slicekit.training.figures import available, figure, over_lengths, write
from slicekit.training.runs import Run

CURVES = "curves.png"
LENGTHS = "length-generalisation.png"


def labels(folders: Sequence[Path]) -> list[str]:
    """Names for runs: those of their folders if they tell the runs apart, else the whole paths.

    >>> labels([Path("runs/a"), Path("runs/b")]), labels([Path("x/a"), Path("y/a")])
    (['a', 'b'], ['x/a', 'y/a'])
    """
    names = [folder.name for folder in folders]
    return names if len(set(names)) == len(names) else [folder.as_posix() for folder in folders]


def plot_curves(runs: Sequence[Run], path: Path) -> None:
    """Loss and accuracy over the steps of one or several runs, a colour for each.

    Training is a thin line, validation a thick one with a point for each measurement.

    Args:
        runs: what `read_run` gave.
        path: the picture, a PNG; its folder is made if it is missing.

    Raises:
        ImportError: if matplotlib is missing.
        ValueError: if there is no run, or none of them has a record.
        OSError: if the file can't be written.
    """
    if not any(run.records for run in runs):
        raise ValueError("nothing to plot: no run has a record in its metrics.jsonl yet")
    made, axes = figure(2, 11, 4)
    names = labels([run.folder for run in runs])
    for number, (run, label) in enumerate(zip(runs, names, strict=True)):
        colour = f"C{number % 10}"
        for axis, what in zip(axes, ("loss", "accuracy"), strict=True):
            axis.plot(*_points(run.training, what), color=colour, linewidth=0.6, alpha=0.6)
            validated = _points(run.validations, what)
            axis.plot(*validated, "o-", color=colour, markersize=3, label=label)
    loss, accuracy = axes
    loss.set_yscale("log")
    loss.set_title("loss", fontsize=10)
    accuracy.set_title("accuracy", fontsize=10)
    accuracy.set_ylim(-0.02, 1.02)
    for axis in axes:
        axis.set_xlabel("step")
        axis.grid(alpha=0.3)
    accuracy.legend(fontsize=7, title="thin: training, thick: validation", title_fontsize=7)
    write(made, path)


def _points(records: Sequence[dict[str, Any]], what: str) -> tuple[list[int], list[float]]:
    """Steps and values; one that was not finite is a gap."""
    steps = [record["step"] for record in records]
    return steps, [math.nan if record[what] is None else record[what] for record in records]


def curves_if_possible(run: Run) -> None:
    """The learning curves of a run into its own folder, if matplotlib is there to draw them."""
    if available():
        plot_curves([run], run.folder / "plots" / CURVES)


def plot_lengths(
    scores: Mapping[str, Sequence[Score]], path: Path, trained: tuple[int, int] | None = None
) -> None:
    """Accuracy against length: over all positions as a line, at the last one dashed.

    Args:
        scores: what `evaluate` gave, by the name of a run.
        path: the picture, a PNG; its folder is made if it is missing.
        trained: range of the lengths that were trained on, which is shaded; None shades none.

    Raises:
        ImportError: if matplotlib is missing.
        ValueError: if there is no score.
        OSError: if the file can't be written.
    """
    if not any(scores.values()):
        raise ValueError("nothing to plot: there is no score")
    made, (axis,) = figure(1, 7, 4)
    if trained is not None:
        axis.axvspan(*trained, color="grey", alpha=0.2, label="trained on")
    for number, (name, own) in enumerate(scores.items()):
        colour, lengths = f"C{number % 10}", [score.length for score in own]
        overall, last = [score.overall for score in own], [score.last for score in own]
        axis.plot(lengths, overall, "o-", color=colour, label=f"{name}, all positions")
        axis.plot(lengths, last, "x--", color=colour, label=f"{name}, last position")
    over_lengths(axis)
    axis.set_ylim(-0.02, 1.02)
    axis.set_ylabel("accuracy")
    axis.legend(fontsize=7)
    write(made, path)
