"""Which of some classifiers is the best over many data sets: mean ranks, and how far apart is far.

On each data set the best has rank 1; equals share their ranks. Two classifiers differ (Nemenyi, at
5 %) if their mean ranks over N sets differ by more than q sqrt(k (k + 1) / 6 N), the critical
difference of k classifiers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

QUANTILES = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031}
"""q by k: the studentised range at 5 %, over the root of 2."""


@dataclass(frozen=True)
class Ranks:
    """Mean ranks of classifiers.

    Args:
        means: by name.
        sets: over how many data sets.
    """

    means: dict[str, float]
    sets: int

    @property
    def critical(self) -> float:
        """The critical difference."""
        k = len(self.means)
        return QUANTILES[k] * (k * (k + 1) / (6 * self.sets)) ** 0.5

    def plot(self, axis: Any) -> None:
        """A critical-difference diagram: who is joined by a bar does not differ."""
        ordered = sorted(self.means.items(), key=lambda x: x[1])
        count = len(ordered)
        axis.set_xlim(0.8, count + 0.2)
        axis.set_ylim(-2.0 - (count + 1) // 2, 1)
        axis.plot([1, count], [0, 0], "k", lw=1)
        for rank in range(1, count + 1):
            axis.plot([rank, rank], [0, 0.15], "k", lw=1)
            axis.text(rank, 0.25, str(rank), ha="center", fontsize=8)
        for place, (name, mean) in enumerate(ordered):
            left = place < (count + 1) // 2
            level = -1.5 - (place if left else count - 1 - place)
            end = 0.85 if left else count + 0.15
            axis.plot([mean, mean, end], [0, level, level], "k", lw=0.8)
            side = {"ha": "left" if left else "right", "va": "bottom"}
            axis.text(end, level, f"{name}  {mean:.2f}", fontsize=8, **side)
        for row, (first, last) in enumerate(self._cliques([mean for _, mean in ordered])):
            axis.plot([first - 0.04, last + 0.04], [-0.3 - 0.25 * row] * 2, "k", lw=3)
        axis.plot([1, 1 + self.critical], [0.75, 0.75], "k", lw=1.5)
        axis.text(1, 0.8, f"critical difference {self.critical:.2f}", fontsize=8)
        axis.set_title(f"mean ranks over {self.sets} data sets", fontsize=10)
        axis.axis("off")

    def _cliques(self, means: Sequence[float]) -> list[tuple[float, float]]:
        """The widest runs of classifiers that do not differ."""
        cliques: list[tuple[float, float]] = []
        for i, first in enumerate(means):
            last = max(x for x in means[i:] if x - first <= self.critical)
            if last > first and not any(a <= first and last <= b for a, b in cliques):
                cliques.append((first, last))
        return cliques


def mean_ranks(scores: Mapping[str, Mapping[str, float]]) -> Ranks | None:
    """Of scores by data set and classifier; None if there is nothing to compare.

    >>> mean_ranks({"a": {"x": 0.9, "y": 0.8}, "b": {"x": 0.7, "y": 0.7}})
    Ranks(means={'x': 1.25, 'y': 1.75}, sets=2)
    """
    names = list(next(iter(scores.values()), {}))
    if len(names) not in QUANTILES:
        return None
    sums = dict.fromkeys(names, 0.0)
    for of_set in scores.values():
        for name in names:
            better = sum(of_set[other] > of_set[name] for other in names)
            equal = sum(of_set[other] == of_set[name] for other in names)
            sums[name] += better + (equal + 1) / 2
    return Ranks({name: total / len(scores) for name, total in sums.items()}, len(scores))
