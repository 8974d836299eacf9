"""Which cases to learn from, to choose a model on and to report.

The paper pools an archive's cases and cuts a permutation of them at floor(0.7 N) and floor(0.85 N).
Its permutations come from files, see `load_orders`; ours from a seed.
"""

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from slicekit.suggestions import unknown

Split = tuple[Tensor, Tensor, Tensor]
"""Indices of train, validation and test."""


def split_by_order(order: Sequence[int] | Tensor, cases: int | None = None) -> Split:
    """Cut a permutation of the cases into 70, 15 and 15 per cent, as the paper does.

    Args:
        order: a permutation of 0..cases-1.
        cases: how many there are, to be compared with the order; None trusts it.

    Returns:
        Indices of train, validation and test, int64.

    Raises:
        ValueError: if it is no permutation, or of another number of cases.

    >>> split_by_order([3, 1, 0, 2, 4, 5, 6])
    (tensor([3, 1, 0, 2]), tensor([4]), tensor([5, 6]))
    """
    places = torch.as_tensor(order, dtype=torch.int64)
    count = len(places) if cases is None else cases
    if places.shape != (count,) or not torch.equal(places.sort().values, torch.arange(count)):
        raise ValueError(
            f"order has shape {tuple(places.shape)}; expected a permutation of 0..{count - 1}"
        )
    # In integers, since 0.7 * 10 is 7 only by luck.
    first, second = 7 * count // 10, 85 * count // 100
    return places[:first], places[first:second], places[second:]


def split_by_seed(cases: int, seed: int) -> Split:
    """A random 70/15/15 split of our own.

    Args:
        cases: how many there are.
        seed: of the permutation; the same seed gives the same split.

    Returns:
        Indices of train, validation and test, int64.

    >>> [len(part) for part in split_by_seed(100, seed=0)]
    [70, 15, 15]
    """
    generator = torch.Generator().manual_seed(seed)
    return split_by_order(torch.randperm(cases, generator=generator))


def load_orders(path: str | PathLike[str], name: str, seed: int) -> list[int]:
    """A permutation from a JSON file `{name: {seed: [indices]}}`, such as those of the paper.

    Args:
        path: the file.
        name: of the problem.
        seed: which of its permutations.

    Raises:
        ValueError: if the file has no such problem or seed, or is none of this kind.
        OSError: if it can't be read.
    """
    try:
        orders = json.loads(Path(path).read_text(encoding="utf-8"))
        names, seeds = list(orders), {key: list(x) for key, x in orders.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path}: no file of permutations, {error}") from None
    if name not in names:
        raise unknown(f"problem of {path}", name, names)
    if str(seed) not in seeds[name]:
        raise unknown(f"seed of {name} in {path}", str(seed), seeds[name])
    order = orders[name][str(seed)]
    if not isinstance(order, list) or not all(type(x) is int for x in order):
        raise ValueError(f"{path}: {name}, seed {seed} is no list of integers")
    return order


def stratified(
    answers: Tensor, fraction: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Hold out a share of the cases of each class, so that no class is lost where that can be.

    Of a class with two cases or more at least one is held out and at least one is not; a single
    case is never held out.

    Args:
        answers: (cases,) int64 class indices, or floating numbers, which count as one class.
        fraction: the share to hold out, in 0..1.
        generator: the only source of randomness.

    Returns:
        Indices of the rest, and of those held out, each sorted.

    Raises:
        ValueError: if the fraction is out of range.

    >>> stratified(torch.tensor([0, 0, 0, 0, 1, 1, 2]), 0.25, torch.Generator().manual_seed(0))
    (tensor([1, 2, 3, 5, 6]), tensor([0, 4]))
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction={fraction}; expected a number between 0 and 1")
    kinds = torch.zeros_like(answers) if answers.is_floating_point() else answers
    held = torch.zeros(len(answers), dtype=torch.bool)
    for kind in kinds.unique():
        members = (kinds == kind).nonzero().squeeze(1)
        share = min(max(round(fraction * len(members)), 1), len(members) - 1)
        held[members[torch.randperm(len(members), generator=generator)[:share]]] = True
    return (~held).nonzero().squeeze(1), held.nonzero().squeeze(1)
