"""Orthogonal flows: A^i has skew-symmetric blocks, so exp(A(Δω)) is a rotation in every block.

Every flow is an isometry: states neither explode nor die, at any length.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from slicekit.descriptions import blocks as descriptions
from slicekit.jax.paths.lie_bases import LieBasis
from slicekit.jax.structures.base import (
    Drawn,
    Generator,
    Parameters,
    Transition,
    brackets,
    weighted_sum,
)
from slicekit.jax.structures.block_diagonal import BlockGenerator, BlockTransition
from slicekit.jax.structures.exponential import matrix_exponential


class RotationTransition(BlockTransition):
    """Blocks that are isometries up to rounding."""


class SkewGenerator(BlockGenerator):
    """A = BlockDiag(blocks) with skew-symmetric blocks (..., k, b, b)."""

    def euler(self) -> Transition:
        """Never: I + A is no isometry."""
        raise ValueError("Orthogonal is an isometry only under Exponential(); got Euler()")

    def exponential(self, substeps: int | None = None) -> RotationTransition:
        """Exact exponential of each block: a rotation."""
        return RotationTransition(matrix_exponential(self.blocks))

    def natural(self) -> Transition:
        """exp(A)."""
        return self.exponential()

    def bracket(self, other: Generator) -> Generator:
        """Skew-symmetric again, where both are."""
        result = super().bracket(other)
        assert isinstance(result, BlockGenerator)
        if isinstance(other, SkewGenerator) and result.blocks.shape[-1] == self.blocks.shape[-1]:
            return SkewGenerator(result.blocks)
        return result


@dataclass(frozen=True)
class Orthogonal(descriptions.Orthogonal, Drawn):
    """Skew-symmetric blocks under the exponential flow, as `slicekit.Orthogonal`.

    Args:
        dim: size of the state.
        block: size of every block, at least 2; it divides dim.
        angle: root mean square of the initial rotation angles of one step, in radians. The default
            spreads them over the whole circle: with small angles training does not start.
    """

    def combine(self, parameters: Parameters, increments: Array) -> SkewGenerator:
        """Σ_i Δω^i A^i for increments (..., channels), made above the diagonal only."""
        upper = weighted_sum(increments, parameters["angles"])
        rows, columns = np.triu_indices(self.block, 1)
        square = jnp.zeros((*upper.shape[:-1], self.block, self.block), upper.dtype)
        square = square.at[..., rows, columns].set(upper)
        return SkewGenerator(square - square.mT)

    def lift_parameters(self, parameters: Parameters, basis: LieBasis) -> Parameters:
        """Brackets block by block, kept above the diagonal."""
        angles = parameters["angles"]
        letters = jnp.eye(basis.channels, dtype=angles.dtype)
        blocks = brackets(self.combine(parameters, letters).blocks, basis)
        rows, columns = np.triu_indices(self.block, 1)
        return {"angles": blocks[..., rows, columns]}
