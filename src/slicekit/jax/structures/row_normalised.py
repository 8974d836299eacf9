"""Blocks whose rows have an absolute sum of at most one; as `slicekit.structures.row_normalised`.

Glossary: blocks (..., k, b, b) are the B_j, and those of M - I.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from slicekit.descriptions import row_normalised as descriptions
from slicekit.jax.structures.base import Drawn, Parameters, weighted_sum
from slicekit.jax.structures.block_diagonal import BlockGenerator


@dataclass(frozen=True)
class RowNormalised(descriptions.RowNormalised, Drawn):
    """Blocks of I + B(Δω), rows divided by their absolute sums, as `slicekit.RowNormalised`.

    Args:
        dim: size of the state.
        block: size of a block; it divides dim.
        scale: entries of B^i start with standard deviation scale / sqrt(block).
    """

    def combine(self, parameters: Parameters, increments: Array) -> BlockGenerator:
        """M(Δω) - I for increments (..., channels)."""
        unit = jnp.eye(self.block, dtype=increments.dtype)
        rows = unit + weighted_sum(increments, parameters["blocks"])
        sums = jnp.abs(rows).sum(-1, keepdims=True)
        # At exactly one the gradient goes to the sum, as in torch; jnp.maximum would halve it.
        return BlockGenerator(rows / jnp.where(sums >= 1, sums, 1) - unit)
