"""The scales of a projective state, as `slicekit.scans.projective` has them and derives them.

Rows that no step mixes form a group, and every group is carried as h = 2^e m with a power of two of
its own, renewed before every WINDOW-th step. So no group drowns in another whose norm is 10^40
times as large. Directions and log-norms do not depend on the powers, which therefore count as
constants.

Glossary: states m and exponents e, (length, batch, dim, columns); factors 2^k, what a state is
divided by; peaks p, (length, batch, columns).
"""

import math
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from slicekit.jax.scans.projective import normalise
from slicekit.jax.structures import Transition

WINDOW = 8
"""Steps between two divisions of a projective state."""

UNSEEN = {"float32": -90, "float64": -900}
"""Exponents below the largest from which on a group can't be seen."""

BITS = {"float32": (jnp.int32, 23), "float64": (jnp.int64, 52)}
"""An integer of the same size, and where the exponent stands in it."""


def exponents(sizes: Array) -> Array:
    """k of the largest powers of two 2^k that are at most the sizes; 0 for zero. int32.

    >>> exponents(jnp.array([0.0, 0.5, 1.0, 7.0]))
    Array([ 0, -1,  0,  2], dtype=int32)
    """
    integer, place = BITS[sizes.dtype.name]
    biased = lax.bitcast_convert_type(lax.stop_gradient(sizes), integer) >> place
    return jnp.where(biased == 0, 0, biased - _bias(sizes.dtype)).astype(jnp.int32)


def powers_of_two(exponent: Array, dtype: Any) -> Array:
    """2^k exactly, for k in the range of normal numbers; outside of it the nearest of them."""
    integer, place = BITS[dtype.name]
    bias = _bias(dtype)
    biased = jnp.clip(exponent, 1 - bias, bias - 1).astype(integer) + bias
    return lax.bitcast_convert_type(biased << place, dtype)


def rescaled(transition: Transition, state: Array, exponent: Array) -> tuple[Array, Array]:
    """A state with every group's largest modulus in [1, 2), and the exponents it then has."""
    moved = exponents(transition.sizes(lax.stop_gradient(state)))
    return state / powers_of_two(moved, real(state.dtype)), exponent + moved


def directions(states: Array, exponent: Array) -> tuple[Array, Array]:
    """Directions (length, batch, dim, columns) and log-norms of 2^e m, differentiable in m.

    A column of zeros stays zero, with the logarithm of the smallest positive number.
    """
    dtype = real(states.dtype)
    moduli = jnp.abs(lax.stop_gradient(states))
    seen = (moduli > 0) & jnp.isfinite(moduli)
    least = jnp.iinfo(jnp.int32).min
    peaks = jnp.where(seen, exponents(moduli) + exponent, least).max(-2)
    zero = peaks == least
    peaks = jnp.where(zero, 0, peaks)
    shift = exponent - peaks[..., None, :]
    powers = jnp.where(shift < UNSEEN[dtype.name], 0, powers_of_two(shift, dtype))
    direction, log_norm = normalise(states * powers)
    smallest = math.log(float(jnp.finfo(dtype).tiny))
    return direction, jnp.where(zero, smallest, log_norm + peaks.astype(dtype) * math.log(2))


def real(dtype: Any) -> Any:
    """The dtype of a modulus."""
    return jnp.finfo(dtype).dtype


def _bias(dtype: Any) -> int:
    return int(jnp.finfo(dtype).maxexp) - 1
