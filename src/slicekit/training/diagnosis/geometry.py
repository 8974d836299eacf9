"""How vectors lie by the class of their target, and how far they have moved from where they were.

A model that tracks a state exactly gives the same vectors at every length. One that does not moves
them: they spread within their class, or a whole class turns. Both show in the distance of a vector
from the mean that its class had in short sequences.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Classes:
    """How vectors lie near one length.

    Args:
        spread: root mean square distance of a vector to the mean of its class.
        nearest: smallest distance between the means of two classes.
        mean: mean distance between the means of two classes.
        ratio: the spread over the smallest distance.
        moved: mean square distance of a vector to the mean of its class in short sequences, over
            the square of the smallest distance between classes there.
        error: standard error of `moved`.
    """

    spread: float
    nearest: float
    mean: float
    ratio: float
    moved: float
    error: float


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors near one length.

    Args:
        values: (positions, dim) float64.
        targets: (positions,) int64, the classes.
        sequences: (positions,) int64, the sequence that each is from.
    """

    values: Tensor
    targets: Tensor
    sequences: Tensor

    def means(self) -> "Means":
        """Of the classes with at least two vectors."""
        count = int(self.targets.max()) + 1
        counts = torch.bincount(self.targets, minlength=count)
        sums = self.values.new_zeros(count, self.values.shape[1])
        sums.index_add_(0, self.targets, self.values)
        return Means(sums / counts.clamp_min(1).unsqueeze(1), counts)


@dataclass(frozen=True, eq=False)
class Means:
    """The means of classes.

    Args:
        values: (classes, dim).
        counts: (classes,) int64, how many vectors each is of; those of fewer than two don't count.
    """

    values: Tensor
    counts: Tensor

    @property
    def known(self) -> Tensor:
        """(classes,) bool."""
        return self.counts > 1

    def distances(self) -> Tensor:
        """(pairs,): of every two classes."""
        return torch.pdist(self.values[self.known])

    def from_own(self, vectors: Vectors) -> tuple[Tensor, Tensor]:
        """Squared distances of vectors to the means of their classes, and their sequences."""
        inside = vectors.targets < len(self.counts)
        inside[inside.clone()] = self.known[vectors.targets[inside]]
        means = self.values[vectors.targets[inside]]
        return (vectors.values[inside] - means).square().sum(1), vectors.sequences[inside]


def classes(vectors: Vectors, reference: Means) -> Classes | None:
    """How vectors lie, also against the means of short sequences.

    Args:
        vectors: near one length.
        reference: the means of other vectors, in short sequences.

    Returns:
        None if fewer than two classes have two vectors or more, here or there.
    """
    means = vectors.means()
    if int(means.known.sum()) < 2 or int(reference.known.sum()) < 2:
        return None
    squares, _ = means.from_own(vectors)
    free = len(squares) - int(means.known.sum())  # a class's own mean takes one vector from it
    between, before = means.distances(), reference.distances()
    moved, error = _mean_and_error(*reference.from_own(vectors))
    spread, nearest = float((squares.sum() / free).sqrt()), float(between.min())
    unit = float(before.min()) ** 2 or math.inf
    return Classes(
        spread=spread,
        nearest=nearest,
        mean=float(between.mean()),
        ratio=spread / nearest if nearest > 0 else math.inf,
        moved=moved / unit,
        error=error / unit,
    )


def _mean_and_error(figures: Tensor, sequences: Tensor) -> tuple[float, float]:
    """Mean, and its standard error if those of one sequence say the same."""
    _, rows, counts = sequences.unique(return_inverse=True, return_counts=True)
    sums = figures.new_zeros(len(counts)).index_add_(0, rows, figures)
    mean = figures.mean()
    error = (sums - mean * counts).square().sum().sqrt() / len(figures)
    return float(mean), float(error)
