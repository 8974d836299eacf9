"""Products of generalised reflections; as `slicekit.structures.householder`, which derives them.

Glossary: vectors are the v_j, (..., count, dim); left and right are the factors of M - I, of rank
count (the compact form of a product of reflections).
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from slicekit.descriptions import householder as descriptions
from slicekit.jax.structures.base import Drawn, Parameters, weighted_sum
from slicekit.jax.structures.low_rank import LowRankGenerator


def compact(vectors: Array) -> tuple[Array, Array]:
    """The factors (..., dim, count) of H_k ... H_1 - I = left right^T.

    Args:
        vectors: (..., count, dim); the first acts first.
    """
    lefts: list[Array] = []
    rights: list[Array] = []
    for j in range(vectors.shape[-2]):
        v = right = vectors[..., j, :]
        for earlier, seen in zip(lefts, rights, strict=True):
            right = right + seen * (earlier * v).sum(-1, keepdims=True)
        lefts.append(v * (-2 / (1 + jnp.square(v).sum(-1, keepdims=True))))
        rights.append(right)
    return jnp.stack(lefts, -1), jnp.stack(rights, -1)


@dataclass(frozen=True)
class Householder(descriptions.Householder, Drawn):
    """Π_k (I - 2 v_k v_k^T / (1 + |v_k|²)), v_k linear in Δω, as `slicekit.Householder`.

    Args:
        dim: size of the state.
        count: number of reflections in a step; `dim` of them reach every orthogonal matrix.
        scale: length that the vectors of a step start with.
    """

    def combine(self, parameters: Parameters, increments: Array) -> LowRankGenerator:
        """M(Δω) - I of rank count, for increments (..., channels)."""
        left, right = compact(weighted_sum(increments, parameters["vectors"]))
        return LowRankGenerator(jnp.zeros_like(left[..., 0]), left, right)
