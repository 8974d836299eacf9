"""Pictures of runs: how they learnt, and how far they hold. They need matplotlib."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slicekit import figures
from slicekit.training.evaluation import Score
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
    names = labels([run.folder for run in runs])
    title = f"Learning curve of {names[0]}" if len(runs) == 1 else "Learning curves"
    made, axes = figures.figure(2, 11, 4.2, title)
    for number, (run, label) in enumerate(zip(runs, names, strict=True)):
        look = figures.line(number)
        for axis, what in zip(axes, ("loss", "accuracy"), strict=True):
            axis.plot(*_points(run.training, what), **look, linewidth=0.6, alpha=0.6)
            validated = _points(run.validations, what)
            axis.plot(*validated, **look, marker="o", markersize=3, label=label)
    loss, accuracy = axes
    figures.logarithmic(loss, "y")
    figures.label(loss, title="loss", x="step", y="mean cross-entropy")
    figures.label(accuracy, title="accuracy", x="step", y="share of right answers")
    accuracy.set_ylim(-0.02, 1.02)
    for axis in axes:
        axis.grid(alpha=0.3)
    figures.legend(accuracy, "thin: training, thick: validation")
    figures.write(made, path)


def _points(records: Sequence[dict[str, Any]], what: str) -> tuple[list[int], list[float]]:
    """Steps and values; one that was not finite is a gap."""
    steps = [record["step"] for record in records]
    return steps, [math.nan if record[what] is None else record[what] for record in records]


def curves_if_possible(run: Run) -> None:
    """The learning curves of a run into its own folder, if matplotlib is there to draw them."""
    if figures.available():
        plot_curves([run], run.folder / "plots" / CURVES)


def plot_lengths(
    scores: Mapping[str, Sequence[Score]], path: Path, trained: tuple[int, int] | None = None
) -> None:
    """Accuracy against length: over all positions as a line, at the last one as a thinner one.

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
    made, (axis,) = figures.figure(1, 7, 4.4)
    if trained is not None:
        axis.axvspan(*trained, color="grey", alpha=0.2, label="trained on")
    for number, (name, of_run) in enumerate(scores.items()):
        look, lengths = figures.line(number), [score.length for score in of_run]
        overall, last = [score.overall for score in of_run], [score.last for score in of_run]
        axis.plot(lengths, overall, **look, marker="o", label=f"{name}, all positions")
        faint = look | {"linewidth": 0.8, "alpha": 0.8}
        axis.plot(lengths, last, **faint, marker="x", label=f"{name}, last position")
    figures.over_lengths(axis)
    figures.label(axis, title="Accuracy against length", y="share of right answers")
    axis.set_ylim(-0.02, 1.02)
    figures.legend(axis)
    figures.write(made, path)
