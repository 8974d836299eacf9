"""Time along a path, counted in windows; as `slicekit.paths.clocks`.

Positions are in units of a window, and one that is within `SNAP` of an edge is on it. They are
counted in float64 wherever JAX computes, also where it holds arrays in float32 alone; what leaves
this file are whole numbers, and distances to the edges in the path's own precision.

Time has derivatives too. A distance is a constant, counted exactly, plus the part of the position
that moves with the increments, which is zero in value: `x - stop_gradient(x)`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from slicekit.descriptions.durations import SNAP, backwards, check_channel
from slicekit.jax.checks import Lengths, check_floating, check_lengths, check_shape, concrete
from slicekit.jax.paths.lengths import valid_mask

FARTHEST = 1 << 30
"""Positions beyond are counted as this one: far more windows than a path may have."""


class Clock(NamedTuple):
    """Where the increments of a path stand, in windows.

    Attributes:
        first: (batch, length) integers, the window in which each increment begins.
        last: (batch, length) integers, the number of windows that it has entered at its end.
        ahead: (batch, length), from its beginning to the end of its first window.
        behind: (batch, length), from the beginning of its last window to its end.
        span: (batch, length), from its beginning to its end.
        counts: (batch,) integers, how many windows a path enters, one that is not over included.
        elapsed: (batch,), how much time has passed of the last one; zero if it is over.
        lengths: (batch,) integers, the number of increments of each path.
    """

    first: Array
    last: Array
    ahead: Array
    behind: Array
    span: Array
    counts: Array
    elapsed: Array
    lengths: Array

    @property
    def crossed(self) -> Array:
        """(batch, length) integers, the edges that lie inside each increment."""
        return jnp.maximum(self.last - 1 - self.first, 0)

    @staticmethod
    def of(
        increments: Array,
        time: float,
        channel: int,
        elapsed: Array | None,
        lengths: Lengths | None,
    ) -> "Clock":
        """Of increments (batch, length, channels) in windows of `time`.

        Raises:
            TypeError: if increments are not floating or lengths no integers.
            ValueError: if shapes do not fit, the channel is not there, or time goes back.
        """
        check_shape("increments", increments, ("batch", "length", "channels"))
        check_floating("increments", increments)
        batch, length = increments.shape[:2]
        check_channel(channel, increments.shape)
        given = jnp.full(batch, length) if lengths is None else lengths
        lengths = check_lengths(given, batch, length)
        valid = valid_mask(lengths, length)
        steps = jnp.where(valid, increments[..., channel], 0)
        _check_forward(lax.stop_gradient(steps), channel)
        if elapsed is None:
            elapsed = jnp.zeros(batch, float)
        check_shape("elapsed", elapsed, (batch,))
        still = lax.stop_gradient(valid & (increments != 0).any(-1))
        counted = _counted(lax.stop_gradient(steps), lax.stop_gradient(elapsed), still, time)

        # The same positions in the path's own precision, for their derivatives.
        run = jnp.pad(jnp.cumsum(steps, 1), ((0, 0), (1, 0))) + elapsed.astype(steps.dtype)[:, None]
        moved = jnp.where(counted["free"], run - lax.stop_gradient(run), 0) / time
        before, after = moved[:, :-1], moved[:, 1:]
        rest = counted["elapsed"] + (moved[:, -1] * time).astype(counted["elapsed"].dtype)
        return Clock(
            counted["first"],
            counted["last"],
            counted["ahead"] - before,
            counted["behind"] + after,
            counted["span"] + after - before,
            counted["counts"],
            rest,
            lengths,
        )


def _counted(steps: Array, elapsed: Array, moving: Array, time: float) -> dict[str, Array]:
    """What a clock shows, as constants; free says where a position is not fixed on an edge."""
    number, real, wide = jnp.zeros(0, int).dtype, steps.dtype, jnp.zeros(0, float).dtype
    with _double_precision():
        passed = jnp.pad(jnp.cumsum(steps.astype(np.float64), 1), ((0, 0), (1, 0)))
        already = elapsed.astype(np.float64)[:, None]
        positions = jnp.minimum(already / time + passed / time, float(FARTHEST))
        edges = jnp.round(positions)
        free = jnp.abs(positions - edges) >= SNAP
        positions = jnp.where(free, positions, edges)
        low, high = jnp.floor(positions), jnp.ceil(positions)
        before, after, end = positions[:, :-1], positions[:, 1:], positions[:, -1]

        # On an edge, a window is open only if a step without time has begun it.
        jumps = (before == end[:, None]) & (after == end[:, None]) & moving
        begun = jumps.any(1) | ((end == 0) & (elapsed > 0))
        on_edge = end == low[:, -1]
        least = float(jnp.finfo(wide).tiny)
        rest = jnp.where(on_edge, jnp.where(begun, least, 0.0), (end - low[:, -1]) * time)
        return {
            "first": low[:, :-1].astype(number),
            "last": high[:, 1:].astype(number),
            "ahead": (low[:, :-1] + 1 - before).astype(real),
            "behind": (after - (high[:, 1:] - 1)).astype(real),
            "span": (after - before).astype(real),
            "counts": (high[:, -1] + (on_edge & begun)).astype(number),
            "elapsed": rest.astype(wide),
            "free": free,
        }


def _double_precision() -> Any:
    """Float64 inside, whatever the user has set."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return jax.experimental.enable_x64()  # type: ignore[attr-defined]  # before jax 0.8


def _check_forward(steps: Array, channel: int) -> None:
    if not concrete(steps):
        return
    numbers = np.asarray(steps).astype(np.float64)
    wrong = ~((numbers >= 0) & np.isfinite(numbers))
    if wrong.any():
        row, position = (int(i) for i in np.argwhere(wrong)[0])
        raise backwards(float(numbers[row, position]), (row, position), channel)
