"""Orthogonal flows: A^i has skew-symmetric blocks, so exp(A(Δω)) is a rotation in every block.

Every flow is an isometry: states neither explode nor die, at any length.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.descriptions import blocks as descriptions
from slicekit.paths.lie_bases import LieBasis
from slicekit.structures.base import (
    Drawn,
    Parameters,
    Transition,
    brackets,
    weighted_sum,
)
from slicekit.structures.block_diagonal import BlockGenerator, BlockTransition
from slicekit.structures.exponential import matrix_exponential


@dataclass(frozen=True, eq=False)
class RotationTransition(BlockTransition):
    """Blocks that are isometries up to rounding, so that a scan may undo the rounding's drift."""


@dataclass(frozen=True, eq=False)
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

    def bracket(self, other: BlockGenerator) -> BlockGenerator:  # type: ignore[override]
        """Skew-symmetric again, where both are."""
        result = super().bracket(other)
        assert isinstance(result, BlockGenerator)
        if isinstance(other, SkewGenerator) and result.blocks.shape[-1] == self.blocks.shape[-1]:
            return SkewGenerator(result.blocks)
        return result


@dataclass(frozen=True)
class Orthogonal(descriptions.Orthogonal, Drawn):
    """Skew-symmetric blocks under the exponential flow.

    Args:
        dim: size of the state.
        block: size of every block, at least 2; it divides dim.
        angle: root mean square of the initial rotation angles of one step, in radians. The default
            spreads them over the whole circle: with small angles training does not start.

    Example:
        >>> Orthogonal(128, block=4).parameter_count(channels=1)
        192
    """

    def combine(self, parameters: Parameters, increments: Tensor) -> SkewGenerator:
        """Σ_i Δω^i A^i for increments (..., channels), made above the diagonal only."""
        upper = weighted_sum(increments, parameters["angles"])
        rows, columns = torch.triu_indices(self.block, self.block, 1, device=upper.device)
        flat = upper.new_zeros(*upper.shape[:-1], self.block**2)
        flat = flat.index_copy(-1, rows * self.block + columns, upper)
        square = flat.unflatten(-1, (self.block, self.block))
        return SkewGenerator(square - square.mT)

    def lift_parameters(self, parameters: Parameters, basis: LieBasis) -> Parameters:
        """Brackets block by block, kept above the diagonal."""
        angles = parameters["angles"]
        letters = torch.eye(basis.channels, dtype=angles.dtype, device=angles.device)
        blocks = brackets(self.combine(parameters, letters).blocks, basis)
        rows, columns = torch.triu_indices(self.block, self.block, 1, device=blocks.device)
        return {"angles": blocks[..., rows, columns]}
