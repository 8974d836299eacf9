"""Ranges of lengths, and other values that tasks are asked for."""

from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor

from slicekit.checks import check_whole

SPLITS = ("train", "validation", "test")


def draw_lengths(
    batch: int, lengths: tuple[int, int], generator: torch.Generator, shortest: int = 1
) -> Tensor:
    """A length for each sequence, uniform on an inclusive range.

    Args:
        batch: how many.
        lengths: the range; equal ends give one length for all.
        generator: source of randomness.
        shortest: the least length that the task allows.

    Returns:
        (batch,) int64.

    Raises:
        ValueError: if batch is not positive, the range empty, or its start below shortest.

    >>> draw_lengths(3, (7, 7), torch.Generator())
    tensor([7, 7, 7])
    """
    check_whole("batch", batch)
    low, high = check_range_of_lengths("lengths", lengths, shortest)
    return torch.randint(low, high + 1, (batch,), generator=generator)


def check_range_of_lengths(name: str, lengths: Sequence[int], shortest: int = 1) -> tuple[int, int]:
    """The two ends of an inclusive range of lengths, checked.

    Raises:
        ValueError: if they are no two integers, in the wrong order, or below shortest.

    >>> check_range_of_lengths("train_lengths", (5, 3))
    Traceback (most recent call last):
    ValueError: train_lengths=(5, 3); expected (low, high) with 1 <= low <= high
    """
    ends = tuple(lengths) if isinstance(lengths, Sequence) else ()
    whole = all(isinstance(end, Integral) and not isinstance(end, bool) for end in ends)
    if len(ends) != 2 or not whole or not shortest <= ends[0] <= ends[1]:
        raise ValueError(f"{name}={lengths!r}; expected (low, high) with {shortest} <= low <= high")
    return int(ends[0]), int(ends[1])


def check_split(split: str) -> None:
    """Raise ValueError unless the split is one of train, validation and test.

    >>> check_split("dev")
    Traceback (most recent call last):
    ValueError: split='dev'; expected one of train, validation, test
    """
    if split not in SPLITS:
        raise ValueError(f"split={split!r}; expected one of {', '.join(SPLITS)}")
