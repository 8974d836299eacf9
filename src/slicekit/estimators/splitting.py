"""Which cases a network is trained on, and which tell when to stop."""

import numpy as np
import torch
from torch import Tensor

FEWEST = 4
"""Fewer cases than this tell nothing."""


def folds(groups: np.ndarray, count: int, random: np.random.RandomState) -> np.ndarray:
    """Share cases out, every group as evenly as it can be.

    Args:
        groups: (cases,) integers, for instance classes.
        count: how many folds.
        random: shuffles within the groups.

    Returns:
        (cases,) the fold of each case, in 0..count-1.

    >>> found = folds(np.array([0, 0, 0, 0, 1, 1]), 2, np.random.RandomState(0))
    >>> sorted(found[:4].tolist()), sorted(found[4:].tolist())
    ([0, 0, 1, 1], [0, 1])
    """
    numbers = np.zeros(len(groups), dtype=np.int64)
    first = 0
    for group in np.unique(groups):
        members = random.permutation(np.flatnonzero(groups == group))
        numbers[members] = (np.arange(len(members)) + first) % count
        first += len(members)
    return numbers


def split(
    groups: np.ndarray, fraction: float, member: int, random: np.random.RandomState
) -> tuple[Tensor, Tensor]:
    """Indices to train on and to validate on.

    Args:
        groups: (cases,) integers. The only case of a group is always trained on.
        fraction: of the cases to validate on, as near as whole folds come; 0 for none.
        member: of an ensemble: neighbouring ones validate on other folds.
        random: draws the folds.

    Returns:
        Two index tensors. The second is empty where too few cases would be left to validate on.
    """
    everything = torch.arange(len(groups))
    if fraction == 0:
        return everything, everything[:0]
    count = max(2, round(1 / fraction))
    chosen = folds(groups, count, random) == member % count
    chosen &= np.bincount(groups)[groups] > 1
    kept = np.unique(groups[~chosen])
    chosen &= np.isin(groups, kept)
    if chosen.sum() < max(FEWEST, len(kept) // 2):
        return everything, everything[:0]
    return everything[torch.from_numpy(~chosen)], everything[torch.from_numpy(chosen)]
