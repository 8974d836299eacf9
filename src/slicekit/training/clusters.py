"""The clusters that features of one class fall into.

Several states of an automaton may have one label. Features that are pressed towards the mean of
their class would merge such states, so they are pressed towards the mean of their cluster.

Glossary: positions is the number of features; a part is one half of a cluster that is cut in two.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.training.processes import Processes

CLEAR = 0.87
"""A cluster is cut where its parts explain more of its variance along the line through their means:
those of a normal distribution explain 2/π of it, and those of a uniform one 3/4."""

LARGE = 0.15
"""And this much of its whole variance: along one line of many, few features often look apart."""

SMALLEST = 1 / 8
"""Least share of a cluster in a part, so that one that is far off is pulled back and not let go."""

FEWEST = 8
"""Features of a cluster that may be cut."""

CUTS, TURNS, MOVES = 5, 8, 4
"""Cuts that lead to a cluster; rounds for the direction of a cut, and for its place."""


@torch.no_grad()
def clusters(features: Tensor, classes: Tensor) -> Tensor:
    """Cut every class in two as long as its features clearly fall into two parts.

    Args:
        features: (positions, size).
        classes: (positions,) int64.

    Returns:
        (positions,) int64, the number of each feature's cluster, from 0 and without gaps. A cluster
        is of one class.

    Example:
        >>> one, two = torch.zeros(8, 1), torch.ones(8, 1)
        >>> clusters(torch.cat([one, two]), torch.zeros(16).long()).unique().tolist()
        [0, 1]
    """
    groups = classes.unique(return_inverse=True)[1]
    for _ in range(CUTS):
        cut = _Cut.of(features, groups)
        if not bool(cut.taken.any()):
            break
        groups = (2 * groups + (cut.right & cut.taken[groups])).unique(return_inverse=True)[1]
    return groups


def joint_clusters(
    features: Tensor, classes: Tensor, processes: Processes
) -> tuple[Tensor, Tensor]:
    """The clusters of all processes' features.

    Args:
        features: (positions, size), of this process.
        classes: (positions,) int64.
        processes: each has some of the positions, perhaps none.

    Returns:
        (positions,) int64, the clusters of this process's features, and (clusters,), how many
        features of all processes each has.
    """
    sizes = [int(x) for x in processes.gather(torch.tensor(len(classes), device=classes.device))]
    most = max(sizes)
    joint = [
        torch.cat([part[:size] for part, size in zip(processes.gather(x), sizes, strict=True)])
        for x in (_longer(features, most), _longer(classes, most))
    ]
    numbers = clusters(joint[0], joint[1])
    return numbers.split(sizes)[processes.rank], torch.bincount(numbers)


def _longer(x: Tensor, size: int) -> Tensor:
    """With zeros at its end."""
    return torch.cat([x, x.new_zeros(size - len(x), *x.shape[1:])]) if len(x) < size else x


@dataclass(frozen=True, eq=False)
class _Cut:
    """Every group in two parts.

    Args:
        right: (positions,), whether a feature is in the second part of its group.
        taken: (groups,), whether the parts are clearly two.
    """

    right: Tensor
    taken: Tensor

    @classmethod
    def of(cls, features: Tensor, groups: Tensor) -> "_Cut":
        """Along the direction of most variance, then by two means."""
        sizes = torch.bincount(groups).to(features.dtype)
        apart = features - (_sums(features, groups, sizes) / sizes.unsqueeze(1))[groups]
        squares = apart.square().sum(1)
        right = _along(apart, _widest(apart, squares, groups, sizes), groups) > 0
        for _ in range(MOVES):
            first, second, _, _ = _means(apart, right, groups, sizes)
            middle = (second.square().sum(1) - first.square().sum(1)) / 2
            right = _along(apart, second - first, groups) > middle[groups]
        first, second, less, more = _means(apart, right, groups, sizes)
        line = second - first
        between = less * first.square().sum(1) + more * second.square().sum(1)
        along = _totals(_along(apart, line, groups).square(), groups, sizes)
        clear = between * line.square().sum(1) > CLEAR * along
        large = between > LARGE * _totals(squares, groups, sizes)
        enough = (torch.minimum(less, more) >= SMALLEST * sizes) & (sizes >= FEWEST)
        return cls(right, clear & large & enough)


def _totals(numbers: Tensor, groups: Tensor, sizes: Tensor) -> Tensor:
    """(groups,), sums of (positions,)."""
    return sizes.new_zeros(len(sizes)).index_add_(0, groups, numbers)


def _sums(features: Tensor, groups: Tensor, sizes: Tensor) -> Tensor:
    """(groups, size)."""
    return features.new_zeros(len(sizes), features.shape[1]).index_add_(0, groups, features)


def _along(apart: Tensor, directions: Tensor, groups: Tensor) -> Tensor:
    """(positions,), inner products with a direction for each group."""
    return (apart * directions[groups]).sum(1)


def _widest(apart: Tensor, squares: Tensor, groups: Tensor, sizes: Tensor) -> Tensor:
    """(groups, size), near the direction of most variance, from the one farthest off."""
    farthest = squares.new_zeros(len(sizes)).scatter_reduce_(0, groups, squares, "amax")
    places = torch.arange(len(groups), device=groups.device)
    places = torch.where(squares >= farthest[groups], places, len(groups))
    start = places.new_full((len(sizes),), len(groups)).scatter_reduce_(0, groups, places, "amin")
    directions = apart[start.clamp_max(len(groups) - 1)]
    for _ in range(TURNS):
        directions = _sums(apart * _along(apart, directions, groups).unsqueeze(1), groups, sizes)
        directions = torch.nn.functional.normalize(directions, dim=1)
    return directions


def _means(
    apart: Tensor, right: Tensor, groups: Tensor, sizes: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The means of both parts, (groups, size) each, and how many they have, (groups,)."""
    more = _totals(right.to(sizes.dtype), groups, sizes)
    less = sizes - more
    sums = _sums(apart * right.unsqueeze(1), groups, sizes)
    second, first = sums / more.clamp_min(1).unsqueeze(1), -sums / less.clamp_min(1).unsqueeze(1)
    return first, second, less, more
