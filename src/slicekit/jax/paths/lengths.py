"""Series of different lengths in one padded batch; padding drives nothing, its increments are 0."""

import jax.numpy as jnp
from jax import Array

from slicekit.jax.checks import Lengths, check_lengths, check_shape


def valid_mask(lengths: Lengths, length: int) -> Array:
    """Where a padded batch holds elements of its series: (batch,) -> (batch, length) bool.

    >>> valid_mask([2, 0], length=3)
    Array([[ True,  True, False],
           [False, False, False]], dtype=bool)
    """
    return jnp.arange(length) < check_lengths(lengths, None, length)[:, None]


def mask_past_end(increments: Array, lengths: Lengths) -> Array:
    """Make every increment (batch, length, ...) past the end of its series exactly zero.

    What stood there has no influence on values or gradients, even NaN or infinity.

    >>> mask_past_end(jnp.ones((2, 3, 1)), [2, 0])[..., 0]
    Array([[1., 1., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    check_shape("increments", increments, ("batch", "length", ...))
    batch, length = increments.shape[:2]
    valid = valid_mask(check_lengths(lengths, batch, length), length)
    return jnp.where(valid.reshape(batch, length, *[1] * (increments.ndim - 2)), increments, 0)
