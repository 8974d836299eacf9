"""One non-zero number a column: permutations and other maps of the rows, times a diagonal. PD-SSM.

M(Δω) = P diag(d), in blocks. Column c of P is one at the row whose logit is largest,
    L_rc(Δω) = stay δ_rc + Σ_i Δω^i L^i_rc,
with the gradient of the softmax of the column's logits; d = cos θ, where θ is linear in Δω. A step
is made of blocks here: whether a gradient will be asked for, and so all of a block, is not known
while JAX traces.

Glossary: blocks (..., k, b, b) are those of M - I.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from slicekit.descriptions import permutation_diagonal as descriptions
from slicekit.jax.structures.base import Drawn, Parameters, weighted_sum
from slicekit.jax.structures.block_diagonal import BlockGenerator


@dataclass(frozen=True)
class PermutationDiagonal(descriptions.PermutationDiagonal, Drawn):
    """Blocks with one non-zero number a column, as `slicekit.PermutationDiagonal`.

    Args:
        dim: size of the state.
        block: size of a block, inside which rows are permuted; it divides dim.
        scale: standard deviation of the logits that a step starts with; small, so that the softmax
            is soft and its gradient reaches every row.
        stay: what is added to the logit of a column's own row: how far from zero the logits of a
            step must be to move it.
        angle: standard deviation of the angles θ that a step starts with, in radians.
    """

    def combine(self, parameters: Parameters, increments: Array) -> BlockGenerator:
        """M(Δω) - I for increments (..., channels)."""
        unit = jnp.eye(self.block, dtype=increments.dtype)
        logits = weighted_sum(increments, parameters["logits"]) + self.stay * unit
        chances = jax.nn.softmax(logits, -2)
        chosen = jax.nn.one_hot(logits.argmax(-2), self.block, axis=-2, dtype=logits.dtype)
        chosen = chosen + (chances - jax.lax.stop_gradient(chances))
        values = jnp.cos(weighted_sum(increments, parameters["angles"]))
        return BlockGenerator(chosen * values[..., None, :] - unit)
