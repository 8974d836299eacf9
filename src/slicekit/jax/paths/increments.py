"""Increments of the path through the observations; as `slicekit.increments`."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from slicekit.descriptions.checks import place
from slicekit.jax.checks import Lengths, check_floating, check_lengths, check_shape, concrete
from slicekit.jax.paths.gaps import Filling
from slicekit.jax.paths.lengths import mask_past_end, valid_mask
from slicekit.jax.paths.times import check_times


def increments(
    values: Array,
    times: Array | None = None,
    *,
    origin: bool = False,
    gaps: Filling | None = None,
    lengths: Lengths | None = None,
) -> Array:
    """The increments Δω of the path through the observations.

    Args:
        values: (batch, length, channels), the observations X.
        times: strictly increasing, (length,) for all series or (batch, length); time becomes
            channel 0 of the path. None leaves time out.
        origin: whether the path starts at the origin, so that the first increment is X_0 itself
            (and t_0); otherwise it starts at X_0, and the first increment is zero.
        gaps: a policy that fills NaN in values; None says that there are no gaps, and NaN raises
            (where data can be read: not under `jax.jit`).
        lengths: (batch,) integers: increments past the end of a series are exactly zero.

    Returns:
        (batch, length, d_ω), in the dtype of the values.

    >>> increments(jnp.array([[[1.0], [3.0], [2.0]]]))[..., 0]
    Array([[ 0.,  2., -1.]], dtype=float32)
    """
    check_shape("values", values, ("batch", "length", "channels"))
    check_floating("values", values)
    batch, length, _ = values.shape
    if length == 0:
        raise ValueError(
            f"values has shape {tuple(values.shape)}; expected a length of at least one"
        )
    valid = None
    if lengths is not None:
        lengths = check_lengths(lengths, batch, length)
        valid = valid_mask(lengths, length)
    grid = None if times is None else check_times(times, values, valid)
    if gaps is None:
        _check_no_gaps(values, valid)
    else:
        values = gaps.fill(values, times, lengths)
    steps = _differences(values, origin)
    if grid is not None:
        time_steps = _differences(grid[..., None], origin).astype(steps.dtype)
        time_steps = jnp.broadcast_to(time_steps, (batch, length, 1))
        steps = jnp.concatenate([time_steps, steps], axis=-1)
    return steps if lengths is None else mask_past_end(steps, lengths)


def _differences(path: Array, origin: bool) -> Array:
    first = path[:, :1]
    return jnp.diff(path, axis=1, prepend=jnp.zeros_like(first) if origin else first)


def _check_no_gaps(values: Array, valid: Array | None) -> None:
    if not concrete(values) or (valid is not None and not concrete(valid)):
        return
    missing = np.isnan(np.asarray(values))
    if valid is not None:
        missing &= np.asarray(valid)[..., None]
    if missing.any():
        where = place(tuple(np.argwhere(missing)[0]), ("batch", "position", "channel"))
        raise ValueError(
            f"values holds NaN at {where}; if it marks a gap, "
            "say how to fill it: gaps=Linear(), LastValue() or Causal()"
        )
