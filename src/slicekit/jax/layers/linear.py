"""Affine maps, embeddings and norms on the last axis, with the parameters that torch's have."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from slicekit.jax.checks import is_half


class Linear(eqx.Module):
    """x (..., inputs) -> W x + b (..., outputs).

    Args:
        inputs, outputs: sizes.
        key: source of randomness; entries start uniform in ±1 / sqrt(inputs).
    """

    weight: Array
    bias: Array

    def __init__(self, inputs: int, outputs: int, *, key: Array) -> None:
        """Draw the parameters."""
        first, second = jax.random.split(key)
        most = inputs**-0.5
        self.weight = jax.random.uniform(first, (outputs, inputs), minval=-most, maxval=most)
        self.bias = jax.random.uniform(second, (outputs,), minval=-most, maxval=most)

    def __call__(self, x: Array) -> Array:
        """W x + b."""
        return x @ self.weight.T + self.bias


class Embedding(eqx.Module):
    """A vector for each token: integers (...) -> (..., size).

    Args:
        vocabulary, size: shape of the table.
        key: source of randomness; entries start Gaussian of unit variance.
    """

    weight: Array

    def __init__(self, vocabulary: int, size: int, *, key: Array) -> None:
        """Draw the table."""
        self.weight = jax.random.normal(key, (vocabulary, size))

    def __call__(self, tokens: Array) -> Array:
        """Rows of the table."""
        return self.weight[tokens]


@dataclass(frozen=True)
class LayerNorm:
    """Layer normalisation with scale and shift."""

    eps: float = 1e-5

    def module(self, width: int) -> "Norm":
        """The module for vectors of that size."""
        return Norm(jnp.ones(width), jnp.zeros(width), self.eps)


@dataclass(frozen=True)
class RMSNorm:
    """Normalisation by the root mean square, with scale."""

    eps: float = 1e-6

    def module(self, width: int) -> "Norm":
        """The module for vectors of that size."""
        return Norm(jnp.ones(width), None, self.eps)


class Norm(eqx.Module):
    """Vectors (..., width) of unit variance (with a bias), or of unit mean square (without)."""

    weight: Array
    bias: Array | None
    eps: float = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        """Computed in float32 for half precision."""
        wide: Any = x.astype(jnp.float32) if is_half(x.dtype) else x
        if self.bias is not None:
            wide = wide - wide.mean(-1, keepdims=True)
        wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + self.eps)
        wide = wide * self.weight
        return (wide if self.bias is None else wide + self.bias).astype(x.dtype)
