"""Pictures that studies share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slicekit import figures
from slicekit.studies.plans import Outcome


def plot_lengths(
    groups: Mapping[str, Sequence[Outcome]],
    path: Path,
    title: str,
    trained: tuple[int, int] | None = None,
) -> None:
    """Accuracy against length, over all positions and at the last: a mean, and a point for a seed.

    Args:
        groups: the runs of all seeds, by the name of their line.
        path: the picture, a PNG.
        title: of the whole.
        trained: the lengths trained on, which are shaded.
    """
    made, axes = figures.figure(2, 11, 4.6, title)
    shown = {name: outcomes for name, outcomes in groups.items() if any(x.tested for x in outcomes)}
    for axis, (what, which) in zip(
        axes, (("overall", "all positions"), ("last", "last position")), strict=True
    ):
        if trained is not None:
            axis.axvspan(*trained, color="grey", alpha=0.2, label="trained on")
        for number, (name, outcomes) in enumerate(shown.items()):
            _draw_line(axis, figures.line(number), name, outcomes, what)
        figures.over_lengths(axis)
        figures.label(axis, title=which)
        figures.percentages(axis)
    figures.legend(axes[-1])
    figures.write(made, path)


def _draw_line(
    axis: Any, look: dict[str, Any], name: str, outcomes: Sequence[Outcome], what: str
) -> None:
    points: dict[int, list[float]] = {}
    for outcome in outcomes:
        for tested in outcome.tested:
            if tested.low == tested.high:
                points.setdefault(tested.low, []).append(100 * getattr(tested, what))
    lengths = sorted(points)
    means = [sum(points[length]) / len(points[length]) for length in lengths]
    axis.plot(lengths, means, **look, label=name)
    for length in lengths:
        seeds = points[length]
        axis.plot([length] * len(seeds), seeds, ".", color=look["color"], markersize=5)
