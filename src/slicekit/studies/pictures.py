"""Pictures that studies share."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from slicekit.studies.plans import Outcome
from slicekit.training.figures import figure, over_lengths, write


def draw_lengths(
    groups: Mapping[str, Sequence[Outcome]], path: Path, trained: tuple[int, int] | None = None
) -> None:
    """Accuracy against length, over all positions and at the last: a mean, and a point for a seed.

    Args:
        groups: the runs of all seeds, by the name of their line.
        path: the picture, a PNG.
        trained: the lengths trained on, which are shaded.
    """
    made, axes = figure(2, 11, 4.2)
    for axis, (what, title) in zip(
        axes, (("overall", "all positions"), ("last", "last position")), strict=True
    ):
        if trained is not None:
            axis.axvspan(*trained, color="grey", alpha=0.2, label="trained on")
        for number, (name, outcomes) in enumerate(groups.items()):
            _draw_line(axis, f"C{number % 10}", name, outcomes, what)
        over_lengths(axis)
        axis.set_ylim(-2, 102)
        axis.set_ylabel("accuracy, %")
        axis.set_title(title, fontsize=10)
    axes[0].legend(fontsize=7)
    write(made, path)


def _draw_line(axis, colour: str, name: str, outcomes: Sequence[Outcome], what: str) -> None:
    points: dict[int, list[float]] = {}
    for outcome in outcomes:
        for tested in outcome.tested:
            if tested.low == tested.high:
                points.setdefault(tested.low, []).append(100 * getattr(tested, what))
    lengths = sorted(points)
    means = [sum(points[length]) / len(points[length]) for length in lengths]
    axis.plot(lengths, means, "-", color=colour, label=name)
    for length in lengths:
        axis.plot([length] * len(points[length]), points[length], ".", color=colour, markersize=5)
