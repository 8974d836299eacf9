"""Gaps: what stands where nothing was observed.

NaN in values marks a gap only where the caller passes one of these policies. Each works channel by
channel, leaves observations as they are, ignores padding, and is differentiable in what was
observed.

| policy | sees | fills with | channels |
|---|---|---|---|
| `Linear()` | both sides | the line between the neighbouring observations | as given |
| `LastValue()` | the past | the last observation | as given |
| `Causal()` | the past | the last observation, and counts observations beside it | twice as many |

A policy that sees only the past fills a prefix with the prefix of its filling, so it serves online.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from slicekit.checks import Lengths, check_finite, check_floating, check_lengths, check_shape
from slicekit.paths.lengths import valid_mask
from slicekit.paths.times import check_times


class Filling(Protocol):
    """A policy that fills gaps; a class of your own needs only this method.

    >>> class Zero:
    ...     def fill(self, values, times=None, lengths=None):
    ...         return values.nan_to_num(nan=0.0)
    >>> policy: Filling = Zero()
    """

    def fill(
        self, values: Tensor, times: Tensor | None = None, lengths: Lengths | None = None
    ) -> Tensor:
        """Values without NaN.

        Args:
            values: (batch, length, channels), NaN where nothing was observed.
            times: strictly increasing, (length,) or (batch, length); None is 0, 1, ...
            lengths: (batch,) integers, a tensor or a list: past the end nothing was observed.

        Returns:
            (batch, length, channels), or with channels that the policy adds.
        """
        ...


@dataclass(frozen=True)
class Linear:
    """Interpolate linearly in time between the neighbouring observations of a channel.

    Before the first observation stands the first, after the last the last; a channel without any
    observation is 0. It looks ahead: what it puts in a gap depends on the observation after it.

    >>> nan = float("nan")
    >>> Linear().fill(torch.tensor([[[nan], [1.0], [nan], [4.0]]]), torch.tensor([0, 1, 2, 4]))
    tensor([[[1.],
             [1.],
             [2.],
             [4.]]])
    """

    def fill(
        self, values: Tensor, times: Tensor | None = None, lengths: Lengths | None = None
    ) -> Tensor:
        """Values with lines across the gaps.

        Args:
            values: (batch, length, channels), NaN where nothing was observed.
            times: strictly increasing, (length,) or (batch, length); None is 0, 1, ...
            lengths: (batch,) integers, a tensor or a list: past the end nothing was observed.

        Returns:
            (batch, length, channels).

        Raises:
            TypeError: if values are not floating, times not real or lengths no integers.
            ValueError: if shapes or devices do not fit, times do not increase strictly, or a length
                is out of range.
        """
        valid = _valid(values, lengths)
        observed = _observed(values, valid)
        known = torch.where(observed, values, 0)
        before, after = _last_observed(observed), _next_observed(observed)
        inside = (before >= 0) & (after < values.shape[1])
        near = torch.where(before >= 0, before, after)
        far = torch.where(inside, after, near)
        weight = _way_passed(_grid(values, times, valid), near, far, values.dtype)
        line = torch.lerp(_at(known, near), _at(known, far), weight)
        return torch.where(observed, known, line)


@dataclass(frozen=True)
class LastValue:
    """Carry the last observation of a channel forward; before the first stands `initial`.

    >>> nan = float("nan")
    >>> LastValue().fill(torch.tensor([[[nan], [1.0], [nan], [4.0]]]))
    tensor([[[0.],
             [1.],
             [1.],
             [4.]]])
    """

    initial: float = 0.0

    def __post_init__(self) -> None:
        check_finite("initial", self.initial)

    def fill(
        self, values: Tensor, times: Tensor | None = None, lengths: Lengths | None = None
    ) -> Tensor:
        """Values with the last observation in the gaps.

        Args:
            values: (batch, length, channels), NaN where nothing was observed.
            times: has no influence: only the order of observations matters.
            lengths: (batch,) integers, a tensor or a list: past the end nothing was observed.

        Returns:
            (batch, length, channels).

        Raises:
            TypeError: if values are not floating or lengths no integers.
            ValueError: if shapes do not fit or a length is out of range.
        """
        observed = _observed(values, _valid(values, lengths))
        return _carried_forward(values, observed, self.initial)


@dataclass(frozen=True)
class Causal:
    """Carry the last observation forward, and count the observations of each channel beside it.

    The counts (the observational intensity of Kidger et al., 2020) tell what was observed from what
    was filled in: their increments are 1 at an observation and 0 in a gap. With time as a further
    channel, the path also tells how long ago that was.

    >>> nan = float("nan")
    >>> Causal().fill(torch.tensor([[[nan], [1.0], [nan], [4.0]]]))
    tensor([[[0., 0.],
             [1., 1.],
             [1., 1.],
             [4., 2.]]])
    """

    initial: float = 0.0

    def __post_init__(self) -> None:
        check_finite("initial", self.initial)

    def fill(
        self, values: Tensor, times: Tensor | None = None, lengths: Lengths | None = None
    ) -> Tensor:
        """Values with the last observation in the gaps, then the counts so far.

        Args:
            values: (batch, length, channels), NaN where nothing was observed.
            times: has no influence: only the order of observations matters.
            lengths: (batch,) integers, a tensor or a list: past the end nothing was observed.

        Returns:
            (batch, length, 2 * channels): all filled channels, then all counts.

        Raises:
            TypeError: if values are not floating or lengths no integers.
            ValueError: if shapes do not fit or a length is out of range.
        """
        observed = _observed(values, _valid(values, lengths))
        filled = _carried_forward(values, observed, self.initial)
        counts = observed.cumsum(dim=1).to(values.dtype)
        return torch.cat([filled, counts], dim=-1)


def _valid(values: Tensor, lengths: Lengths | None) -> Tensor:
    """Where values are no padding, (batch, length)."""
    check_shape("values", values, ("batch", "length", "channels"))
    check_floating("values", values)
    batch, length, _ = values.shape
    if lengths is None:
        return torch.ones(batch, length, dtype=torch.bool, device=values.device)
    return valid_mask(check_lengths(lengths, batch, length, device=values.device), length)


def _observed(values: Tensor, valid: Tensor) -> Tensor:
    return ~values.isnan() & valid[..., None]


def _carried_forward(values: Tensor, observed: Tensor, initial: float) -> Tensor:
    last = _last_observed(observed)
    return torch.where(last >= 0, _at(values, last), initial)


def _grid(values: Tensor, times: Tensor | None, valid: Tensor) -> Tensor:
    """The time of every value, (batch, length, channels)."""
    if times is None:
        grid = torch.arange(values.shape[1], device=values.device)[None]
    else:
        grid = check_times(times, values, valid)
    return grid[..., None].expand_as(values)


def _last_observed(observed: Tensor) -> Tensor:
    """Position of the last observation so far, (batch, length, channels); -1 if there is none."""
    position = torch.arange(observed.shape[1], device=observed.device)[:, None]
    return torch.where(observed, position, -1).cummax(dim=1).values


def _next_observed(observed: Tensor) -> Tensor:
    """Position of the next observation from here; `length` if there is none."""
    length = observed.shape[1]
    return length - 1 - _last_observed(observed.flip(1)).flip(1)


def _at(array: Tensor, position: Tensor) -> Tensor:
    """Array at the positions, which are clamped to the ends."""
    return array.gather(1, position.clamp(0, array.shape[1] - 1))


def _way_passed(time: Tensor, near: Tensor, far: Tensor, dtype: torch.dtype) -> Tensor:
    """How much of the way from near to far has passed, in 0..1; 0 where they are one."""
    between = far > near
    start = _at(time, near)
    elapsed = torch.where(between, time - start, 0)
    duration = torch.where(between, _at(time, far) - start, 1)
    precise = torch.promote_types(torch.promote_types(time.dtype, dtype), torch.float32)
    return (elapsed.to(precise) / duration.to(precise)).to(dtype)
