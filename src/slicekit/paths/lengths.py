"""Series of different lengths in one padded batch.

A series of `lengths[b]` elements fills positions 0..lengths[b]-1 of row b; what stands past its end
is padding, is never read, and drives nothing: its increments are exactly zero.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from slicekit.checks import Lengths, check_lengths, check_same, check_shape

MANY, EXPANSION = 2**24, 100
"""More values than the first are not padded of fewer than one in so many that there are."""


def valid_mask(lengths: Lengths, length: int) -> Tensor:
    """Where a padded batch holds elements of its series, and not padding.

    Args:
        lengths: (batch,) integers in 0..length, a tensor or a list.
        length: the padded length.

    Returns:
        (batch, length) bool, on the device of the lengths.

    Raises:
        TypeError: if the lengths are no integers.
        ValueError: if they are no vector, or one of them is out of range.

    >>> valid_mask([2, 0], length=3)
    tensor([[ True,  True, False],
            [False, False, False]])
    """
    lengths = check_lengths(lengths, None, length)
    return torch.arange(length, device=lengths.device) < lengths[:, None]


def mask_past_end(increments: Tensor, lengths: Lengths) -> Tensor:
    """Make every increment past the end of its series exactly zero, the identity flow.

    What stood there has no influence on values or gradients, even NaN or infinity.

    Args:
        increments: (batch, length, ...).
        lengths: (batch,) integers in 0..length, a tensor or a list.

    Returns:
        (batch, length, ...), as given up to the end of each series.

    Raises:
        TypeError: if the lengths are no integers.
        ValueError: if shapes do not fit, or a length is out of range.

    >>> mask_past_end(torch.ones(2, 3, 1), [2, 0]).squeeze(-1)
    tensor([[1., 1., 0.],
            [0., 0., 0.]])
    """
    check_shape("increments", increments, ("batch", "length", ...))
    batch, length = increments.shape[:2]
    lengths = check_lengths(lengths, batch, length, device=increments.device)
    past_end = ~valid_mask(lengths, length)
    return increments.masked_fill(past_end.reshape(batch, length, *[1] * (increments.dim() - 2)), 0)


def alike(lengths: Lengths) -> list[Tensor]:
    """Which series to put together so that at most half of each batch is padding.

    Args:
        lengths: (batch,) integers, a tensor or a list.

    Returns:
        Indices (chosen,) int64 of each group, in order; the group of the longest series comes
        first. There are no more groups than the longest length has binary digits, and one if all
        lengths are within a factor of two.

    >>> alike([3, 100, 2, 60, 4])
    [tensor([1, 3]), tensor([0, 2, 4])]
    """
    given = check_lengths(lengths, None, 2**62)
    order, known = given.argsort(descending=True).tolist(), given.tolist()
    groups: list[list[int]] = []
    for index in order:
        if not groups or 2 * known[index] < known[groups[-1][0]]:
            groups.append([])
        groups[-1].append(index)
    return [torch.tensor(sorted(group)) for group in groups]


def check_padding(count: int, longest: int, *given: Tensor) -> None:
    """Raise ValueError where nearly all of a large array would be padding.

    Args:
        count: how many series are to be padded.
        longest: the longest of their lengths.
        given: their values, (length, ...) each or one after another.
    """
    numbers = sum(x.numel() for x in given)
    needed = count * longest * math.prod(given[0].shape[1:]) if given else 0
    if needed > max(MANY, EXPANSION * numbers):
        size = needed * given[0].element_size() / 2**30
        raise ValueError(
            f"{count} series of up to {longest} observations, padded, are {needed} values "
            f"({size:.1f} GiB) for the {numbers} that there are; take fewer at once, or those of "
            "similar lengths together (slicekit.paths.alike)"
        )


def pad(series: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Put series of different lengths into one batch, padded with zeros.

    Args:
        series: tensors (length_b, channels) of one dtype on one device; length_b may be 0.

    Returns:
        values: (batch, length, channels), where length is that of the longest series.
        lengths: (batch,) int64.

    Raises:
        TypeError: if a series is no tensor, or its dtype is not that of the first.
        ValueError: if there is none, or a shape or device is not that of the first; or if nearly
            all of a large array would be padding.

    >>> values, lengths = pad([torch.ones(2, 1), torch.ones(3, 1)])
    >>> values.squeeze(-1)
    tensor([[1., 1., 0.],
            [1., 1., 1.]])
    >>> lengths
    tensor([2, 3])
    """
    if len(series) == 0:
        raise ValueError("series is empty; expected at least one tensor (length, channels)")
    first = series[0]
    check_shape("series[0]", first, ("length", "channels"))
    for position, other in enumerate(series):
        name = f"series[{position}]"
        check_shape(name, other, ("length", first.shape[1]))
        check_same(name, other, "series[0]", first)
    check_padding(len(series), max(len(one) for one in series), *series)
    lengths = torch.tensor([len(one) for one in series], device=first.device)
    return pad_sequence(list(series), batch_first=True), lengths
