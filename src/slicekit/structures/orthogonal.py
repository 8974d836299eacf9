"""Orthogonal flows: A^i has skew-symmetric blocks, so exp(A(Δω)) is a rotation in every block.

Every flow is an isometry: states neither explode nor die, at any length.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from slicekit.paths.lie_bases import LieBasis
from slicekit.structures.base import (
    Facts,
    Parameters,
    Structure,
    Transition,
    brackets,
    check_size,
    divisors,
    normal,
    weighted_sum,
)
from slicekit.structures.block_diagonal import BlockGenerator, BlockTransition
from slicekit.structures.exponential import matrix_exponential


@dataclass(frozen=True, eq=False)
class RotationTransition(BlockTransition):
    """Blocks that are isometries up to rounding, so that a scan may undo the rounding's drift."""

    def adjoint(self) -> "RotationTransition":
        """The inverse rotations."""
        return RotationTransition(self.blocks.mH)


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
class Orthogonal(Structure):
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

    dim: int
    block: int
    angle: float = field(default=math.pi / 3**0.5, kw_only=True)
    exponential_only = True
    facts: ClassVar[Facts] = Facts(
        model="orthogonal SLiCE",
        matrix="BlockDiag(B - Bᵀ)",
        parameters="dω dh (b - 1) / 2",
        recurrent="dω dh b",
        composition="dh b²",
        closed=True,
        expressive=False,
        theorem="isometries: they rotate and never forget",
        citations=("walker2025slices",),
    )

    def __post_init__(self) -> None:
        """Check that the blocks fill the diagonal and can rotate."""
        check_size("dim", self.dim)
        if not isinstance(self.block, int) or self.block < 2 or self.dim % self.block:
            raise ValueError(
                f"block={self.block} does not divide dim={self.dim} or is below 2; "
                f"choose one of {divisors(self.dim, least=2) or 'another dim'}"
            )
        super().__post_init__()

    @property
    def _planes(self) -> int:
        return self.block * (self.block - 1) // 2

    def init(
        self, channels: int, generator: torch.Generator | None = None, *, increment: float = 1.0
    ) -> Parameters:
        """Gaussian {"angles": (channels, k, b (b - 1) / 2)}, the entries above the diagonal.

        A skew-symmetric block with entries of standard deviation s has angles of root mean square
        s sqrt(b - 1); channels of independent increments add up to sqrt(channels) as much.
        """
        std = self.angle / ((self.block - 1) * channels) ** 0.5 / increment
        return {"angles": normal((channels, self.dim // self.block, self._planes), std, generator)}

    def combine(self, parameters: Parameters, increments: Tensor) -> SkewGenerator:
        """Σ_i Δω^i A^i for increments (..., channels), made above the diagonal only."""
        upper = weighted_sum(increments, parameters["angles"])
        rows, columns = torch.triu_indices(self.block, self.block, 1, device=upper.device)
        flat = upper.new_zeros(*upper.shape[:-1], self.block**2)
        flat = flat.index_copy(-1, rows * self.block + columns, upper)
        square = flat.unflatten(-1, (self.block, self.block))
        return SkewGenerator(square - square.mT)

    @property
    def bracketed(self) -> "Orthogonal":
        """Brackets of skew-symmetric blocks are skew-symmetric."""
        return self

    def lift_parameters(self, parameters: Parameters, basis: LieBasis) -> Parameters:
        """Brackets block by block, kept above the diagonal."""
        angles = parameters["angles"]
        letters = torch.eye(basis.channels, dtype=angles.dtype, device=angles.device)
        blocks = brackets(self.combine(parameters, letters).blocks, basis)
        rows, columns = torch.triu_indices(self.block, self.block, 1, device=blocks.device)
        return {"angles": blocks[..., rows, columns]}

    def step_cost(self, channels: int) -> int:
        """One product for the angles, an exponential (about ten products) and the action."""
        k = self.dim // self.block
        return channels * k * self._planes + 10 * self.dim * self.block**2 + self.dim * self.block

    def composition_cost(self) -> int:
        """As for any blocks."""
        return self.dim * self.block**2
