"""Block-diagonal matrices: A^i = BlockDiag(B^i_1, ..., B^i_k). BD-SLiCE, and dense as one block.

Glossary: blocks (..., k, b, b) are the B_j; block is b_j; Σ_j b_j = d_h.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from slicekit.descriptions import blocks as descriptions
from slicekit.paths.lie_bases import LieBasis
from slicekit.structures.base import (
    Drawn,
    Generator,
    Matrices,
    Parameters,
    Transition,
    brackets,
    weighted_sum,
    weighted_sum_pullback,
)
from slicekit.structures.direct_sum import Composite
from slicekit.structures.exponential import matrix_exponential

SMALL = 4
"""Blocks up to this size have their outer products formed row by row."""


@dataclass(frozen=True, eq=False)
class _BlockMatrices(Matrices):
    """What generators and transitions have in common; blocks (..., k, b, b)."""

    blocks: Tensor
    stepwise: ClassVar[tuple[str, ...]] = ("blocks",)

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.blocks.shape[-3] * self.blocks.shape[-1]

    def act(self, state: Tensor) -> Tensor:
        """Each block acts on its rows of state (..., dim, columns)."""
        return (self.blocks @ self._in_blocks(state)).flatten(-3, -2)

    def as_dense(self) -> Tensor:
        """(..., dim, dim)."""
        *lead, k, b, _ = self.blocks.shape
        dense = self.blocks.new_zeros(*lead, k, b, k, b)
        dense.diagonal(dim1=-4, dim2=-2).copy_(self.blocks.movedim(-3, -1))
        return dense.reshape(*lead, k * b, k * b)

    def adjoint(self) -> Self:
        """Block by block."""
        return type(self)(self.blocks.mH)

    def pullback(self, before: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Outer products inside each block."""
        left, right = self._in_blocks(cotangent), self._in_blocks(before).mH
        block = self.blocks.shape[-1]
        if left.shape[-1] > 1:
            return (left @ right,)
        if block > SMALL:
            return (left * right,)
        # One row of the blocks at a time: torch is slow at broadcasting along very short axes.
        gradient = torch.empty_like(left.expand(*left.shape[:-1], block))
        for row in range(block):
            torch.mul(left[..., row, :], right[..., 0, :], out=gradient[..., row, :])
        return (gradient,)

    def _in_blocks(self, state: Tensor) -> Tensor:
        """state (..., dim, columns) as (..., k, b, columns)."""
        return state.unflatten(-2, self.blocks.shape[-3:-1])

    def _unit(self) -> Tensor:
        return torch.eye(self.blocks.shape[-1], dtype=self.blocks.dtype, device=self.blocks.device)


@dataclass(frozen=True, eq=False)
class BlockTransition(_BlockMatrices, Transition):
    """h is sent to BlockDiag(blocks) h; blocks (..., k, b, b)."""

    closed: ClassVar[bool] = True

    def compose(self, earlier: Any) -> Self:
        """Block by block."""
        return type(self)(self.blocks @ earlier.blocks)

    def where(self, valid: Tensor) -> Self:
        """Unit blocks wherever valid is false."""
        return type(self)(torch.where(valid[..., None, None, None], self.blocks, self._unit()))

    def sizes(self, state: Tensor) -> Tensor:
        """Block by block."""
        moduli = self._in_blocks(state.abs())
        return moduli.amax(-2, keepdim=True).expand(moduli.shape).flatten(-3, -2)

    def isometry_defect(self) -> Tensor:
        """Exact, block by block."""
        gram = self.blocks.mH @ self.blocks - self._unit()
        return gram.abs().square().sum((-1, -2, -3)) / self.dim


@dataclass(frozen=True, eq=False)
class BlockGenerator(_BlockMatrices, Generator):
    """A = BlockDiag(blocks); blocks (..., k, b, b)."""

    def euler(self) -> Transition:
        """Unit blocks plus the blocks."""
        return BlockTransition(self.blocks + self._unit())

    def exponential(self, substeps: int | None = None) -> Transition:
        """Exact exponential of each block."""
        return BlockTransition(matrix_exponential(self.blocks))

    def bracket(self, other: Generator) -> Generator:
        """Inside the blocks, where both have the same ones."""
        if isinstance(other, BlockGenerator) and other.blocks.shape[-3:] == self.blocks.shape[-3:]:
            return BlockGenerator(other.blocks @ self.blocks - self.blocks @ other.blocks)
        return super().bracket(other)

    def norm_bound(self) -> Tensor:
        """Largest Frobenius norm of a block."""
        return torch.linalg.matrix_norm(self.blocks).amax(-1)


@dataclass(frozen=True)
class Blocks(descriptions.Blocks, Drawn):
    """dim / block dense blocks of one size, from which Dense and BlockDiagonal are made."""

    def combine(self, parameters: Parameters, increments: Tensor) -> BlockGenerator:
        """Σ_i Δω^i A^i for increments (..., channels)."""
        return BlockGenerator(weighted_sum(increments, parameters["blocks"]))

    def euler(self, parameters: Parameters, increments: Tensor) -> BlockTransition:
        """I + A(Δω), the identity added in place: nobody else holds the blocks made here."""
        blocks = weighted_sum(increments, parameters["blocks"])
        blocks.diagonal(dim1=-2, dim2=-1).add_(1)
        return BlockTransition(blocks)

    def lift_parameters(self, parameters: Parameters, basis: LieBasis) -> Parameters:
        """Brackets block by block."""
        return {"blocks": brackets(parameters["blocks"], basis)}

    @property
    def bilinear(self) -> bool:
        """A(Δω) is one product."""
        return self.computes_as(Blocks)

    def pullback(
        self, parameters: Parameters, increments: Tensor, gradients: tuple[Tensor, ...]
    ) -> tuple[Parameters, Tensor]:
        """Two products, one for the parameters and one for the increments."""
        blocks, moved = weighted_sum_pullback(increments, parameters["blocks"], gradients[0])
        return {"blocks": blocks}, moved


@dataclass(frozen=True)
class BlockDiagonal(descriptions.BlockDiagonal, Composite):
    """Dense blocks along the diagonal, of one size or of several.

    Args:
        dim: size of the state (with `block`).
        block: size of every block; it divides dim.
        blocks: the sizes one by one, instead of dim and block.
        scale: initial entries have standard deviation scale / sqrt(block).

    Example:
        >>> BlockDiagonal(128, 4).parameter_count(channels=33)
        16896
        >>> BlockDiagonal(blocks=[4, 4, 2, 1]).dim
        11
    """

    block_class = Blocks
