"""Projective states: direction and log-norm, carried apart; as `slicekit.Projective`."""

import math

import equinox as eqx
import jax.numpy as jnp
from jax import Array, lax

from slicekit.jax.checks import check_array


class Projective(eqx.Module):
    """A state (or states) h = exp(log_norm) * direction with unit columns.

    Args:
        direction: (..., dim), or (..., dim, columns) for matrix states.
        log_norm: (...), or (..., columns).

    >>> Projective.of(jnp.array([[3.0, 4.0]])).direction
    Array([[0.6, 0.8]], dtype=float32)
    """

    direction: Array
    log_norm: Array

    @classmethod
    def of(cls, state: Array, *, matrix: bool = False) -> "Projective":
        """Split a plain state (batch, dim), or with matrix=True (batch, dim, columns)."""
        check_array("state", state)
        direction, log_norm = normalise(state if matrix else state[..., None])
        return cls(direction, log_norm) if matrix else cls(direction[..., 0], log_norm[..., 0])


def normalise(state: Array) -> tuple[Array, Array]:
    """Unit columns and the logarithms of their norms, of state (..., dim, columns).

    A column of zeros stays zero, with the logarithm of the smallest positive number.
    """
    largest = size(state)
    scaled = state / largest
    squares = jnp.sum(jnp.square(jnp.abs(scaled)), axis=-2, keepdims=True)
    zero = squares == 0
    norm = jnp.sqrt(jnp.where(zero, 1, squares))
    tiny = math.log(float(jnp.finfo(norm.dtype).tiny))
    log_norm = jnp.where(zero, tiny, jnp.log(norm) + jnp.log(largest))
    return scaled / norm, log_norm.squeeze(-2)


def size(state: Array) -> Array:
    """Largest modulus of each column, one for a column of zeros: what a state may be divided by.

    Unlike the norm, it neither overflows nor underflows. It counts as a constant.
    """
    largest = jnp.abs(lax.stop_gradient(state)).max(-2, keepdims=True)
    return jnp.where(largest == 0, 1, largest)
