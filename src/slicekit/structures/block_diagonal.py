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


def _act(blocks: Tensor, state: Tensor) -> Tensor:
    k, b = blocks.shape[-3], blocks.shape[-1]
    return (blocks @ state.unflatten(-2, (k, b))).flatten(-3, -2)


def _dense(blocks: Tensor) -> Tensor:
    k, b = blocks.shape[-3], blocks.shape[-1]
    dense = blocks.new_zeros(*blocks.shape[:-3], k, b, k, b)
    dense.diagonal(dim1=-4, dim2=-2).copy_(blocks.movedim(-3, -1))
    return dense.reshape(*blocks.shape[:-3], k * b, k * b)


def _gradient(blocks: Tensor, before: Tensor, cotangent: Tensor) -> Tensor:
    size = (blocks.shape[-3], blocks.shape[-1])
    left, right = cotangent.unflatten(-2, size), before.unflatten(-2, size).mH
    if left.shape[-1] > 1:
        return left @ right
    if size[1] > SMALL:
        return left * right
    # One row of the blocks at a time: torch is slow at broadcasting along very short axes.
    result = torch.empty_like(left.expand(*left.shape[:-1], size[1]))
    for row in range(size[1]):
        torch.mul(left[..., row, :], right[..., 0, :], out=result[..., row, :])
    return result


@dataclass(frozen=True, eq=False)
class BlockTransition(Transition):
    """h is sent to BlockDiag(blocks) h; blocks (..., k, b, b)."""

    blocks: Tensor
    stepwise: ClassVar[tuple[str, ...]] = ("blocks",)
    closed: ClassVar[bool] = True

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.blocks.shape[-3] * self.blocks.shape[-1]

    def act(self, state: Tensor) -> Tensor:
        """Each block acts on its rows of state (..., dim, columns)."""
        return _act(self.blocks, state)

    def as_dense(self) -> Tensor:
        """(..., dim, dim)."""
        return _dense(self.blocks)

    def adjoint(self) -> "BlockTransition":
        """Block by block."""
        return BlockTransition(self.blocks.mH)

    def compose(self, earlier: Any) -> Self:
        """Block by block."""
        return type(self)(self.blocks @ earlier.blocks)

    def where(self, valid: Tensor) -> Self:
        """Unit blocks wherever valid is false."""
        unit = torch.eye(self.blocks.shape[-1], dtype=self.blocks.dtype, device=self.blocks.device)
        return type(self)(torch.where(valid[..., None, None, None], self.blocks, unit))

    def sizes(self, state: Tensor) -> Tensor:
        """Block by block."""
        moduli = state.abs().unflatten(-2, self.blocks.shape[-3:-1])
        return moduli.amax(-2, keepdim=True).expand(moduli.shape).flatten(-3, -2)

    def pullback(self, before: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Outer products inside each block."""
        return (_gradient(self.blocks, before, cotangent),)

    def isometry_defect(self) -> Tensor:
        """Exact, block by block."""
        unit = torch.eye(self.blocks.shape[-1], dtype=self.blocks.dtype, device=self.blocks.device)
        gram = self.blocks.mH @ self.blocks - unit
        return gram.abs().square().sum((-1, -2, -3)) / self.dim


@dataclass(frozen=True, eq=False)
class BlockGenerator(Generator):
    """A = BlockDiag(blocks); blocks (..., k, b, b)."""

    blocks: Tensor
    stepwise: ClassVar[tuple[str, ...]] = ("blocks",)

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.blocks.shape[-3] * self.blocks.shape[-1]

    def act(self, state: Tensor) -> Tensor:
        """Each block acts on its rows of state (..., dim, columns)."""
        return _act(self.blocks, state)

    def as_dense(self) -> Tensor:
        """(..., dim, dim)."""
        return _dense(self.blocks)

    def adjoint(self) -> "BlockGenerator":
        """Block by block."""
        return type(self)(self.blocks.mH)

    def euler(self) -> Transition:
        """Unit blocks plus the blocks."""
        unit = torch.eye(self.blocks.shape[-1], dtype=self.blocks.dtype, device=self.blocks.device)
        return BlockTransition(self.blocks + unit)

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

    def pullback(self, before: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Outer products inside each block."""
        return (_gradient(self.blocks, before, cotangent),)


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
