"""Gaps: what stands where nothing was observed; the policies of `slicekit.paths.gaps`."""

from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp
from jax import Array, lax

from slicekit.descriptions.checks import check_finite
from slicekit.jax.checks import Lengths, check_floating, check_lengths, check_shape
from slicekit.jax.paths.lengths import valid_mask
from slicekit.jax.paths.times import check_times


class Filling(Protocol):
    """A policy that fills gaps; a class of your own needs only this method."""

    def fill(
        self, values: Array, times: Array | None = None, lengths: Lengths | None = None
    ) -> Array:
        """Values without NaN.

        Args:
            values: (batch, length, channels), NaN where nothing was observed.
            times: strictly increasing, (length,) or (batch, length); None is 0, 1, ...
            lengths: (batch,) integers: past the end nothing was observed.

        Returns:
            (batch, length, channels), or with channels that the policy adds.
        """
        ...


@dataclass(frozen=True)
class Linear:
    """Interpolate linearly in time between the neighbouring observations of a channel.

    Before the first observation stands the first, after the last the last; a channel without any
    observation is 0. It looks ahead.

    >>> values = jnp.array([[[jnp.nan], [1.0], [jnp.nan], [4.0]]])
    >>> Linear().fill(values, jnp.array([0, 1, 2, 4]))[0, :, 0]
    Array([1., 1., 2., 4.], dtype=float32)
    """

    def fill(
        self, values: Array, times: Array | None = None, lengths: Lengths | None = None
    ) -> Array:
        """Values with lines across the gaps."""
        valid = _valid(values, lengths)
        observed = _observed(values, valid)
        known = jnp.where(observed, values, 0)
        before, after = _last_observed(observed), _next_observed(observed)
        inside = (before >= 0) & (after < values.shape[1])
        near = jnp.where(before >= 0, before, after)
        far = jnp.where(inside, after, near)
        weight = _way_passed(_grid(values, times, valid), near, far).astype(values.dtype)
        start = _at(known, near)
        line = start + (_at(known, far) - start) * weight
        return jnp.where(observed, known, line)


@dataclass(frozen=True)
class LastValue:
    """Carry the last observation of a channel forward; before the first stands `initial`."""

    initial: float = 0.0

    def __post_init__(self) -> None:
        """Check the value."""
        check_finite("initial", self.initial)

    def fill(
        self, values: Array, times: Array | None = None, lengths: Lengths | None = None
    ) -> Array:
        """Values with the last observation in the gaps."""
        observed = _observed(values, _valid(values, lengths))
        return _carried_forward(values, observed, self.initial)


@dataclass(frozen=True)
class Causal:
    """Carry the last observation forward, and count the observations of each channel beside it."""

    initial: float = 0.0

    def __post_init__(self) -> None:
        """Check the value."""
        check_finite("initial", self.initial)

    def fill(
        self, values: Array, times: Array | None = None, lengths: Lengths | None = None
    ) -> Array:
        """Values with the last observation in the gaps, then the counts so far."""
        observed = _observed(values, _valid(values, lengths))
        counts = jnp.cumsum(observed, axis=1).astype(values.dtype)
        return jnp.concatenate([_carried_forward(values, observed, self.initial), counts], -1)


def _valid(values: Array, lengths: Lengths | None) -> Array:
    """Where values are no padding, (batch, length)."""
    check_shape("values", values, ("batch", "length", "channels"))
    check_floating("values", values)
    batch, length, _ = values.shape
    if lengths is None:
        return jnp.ones((batch, length), bool)
    return valid_mask(check_lengths(lengths, batch, length), length)


def _observed(values: Array, valid: Array) -> Array:
    return ~jnp.isnan(values) & valid[..., None]


def _carried_forward(values: Array, observed: Array, initial: float) -> Array:
    last = _last_observed(observed)
    known = jnp.where(observed, values, 0)
    return jnp.where(last >= 0, _at(known, last), initial)


def _grid(values: Array, times: Array | None, valid: Array) -> Array:
    """The time of every value, (batch, length, channels)."""
    regular = jnp.arange(values.shape[1])[None]
    grid = regular if times is None else check_times(times, values, valid)
    return jnp.broadcast_to(grid[..., None], values.shape)


def _last_observed(observed: Array) -> Array:
    """Position of the last observation so far, (batch, length, channels); -1 if there is none."""
    position = jnp.arange(observed.shape[1])[:, None]
    return lax.cummax(jnp.where(observed, position, -1), axis=1)


def _next_observed(observed: Array) -> Array:
    """Position of the next observation from here; `length` if there is none."""
    length = observed.shape[1]
    return length - 1 - _last_observed(observed[:, ::-1])[:, ::-1]


def _at(array: Array, position: Array) -> Array:
    """Array at the positions, which are clamped to the ends."""
    return jnp.take_along_axis(array, jnp.clip(position, 0, array.shape[1] - 1), axis=1)


def _way_passed(time: Array, near: Array, far: Array) -> Array:
    """How much of the way from near to far has passed, in 0..1; 0 where they are one."""
    between = far > near
    start = _at(time, near)
    elapsed = jnp.where(between, time - start, 0)
    duration = jnp.where(between, _at(time, far) - start, 1)
    return elapsed / duration
