"""Block-diagonal matrices: A^i = BlockDiag(B^i_1, ..., B^i_k). BD-SLiCE, and dense as one block.

Glossary: blocks (..., k, b, b) are the B_j; block is b_j; Σ_j b_j = d_h.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import jax.numpy as jnp
from jax import Array

from slicekit.descriptions import blocks as descriptions
from slicekit.jax.paths.lie_bases import LieBasis
from slicekit.jax.structures.base import (
    Drawn,
    Generator,
    Matrices,
    Parameters,
    Transition,
    brackets,
    weighted_sum,
)
from slicekit.jax.structures.direct_sum import Composite
from slicekit.jax.structures.exponential import matrix_exponential


class _BlockMatrices(Matrices):
    """What generators and transitions have in common; blocks (..., k, b, b)."""

    blocks: Array
    stepwise: ClassVar[tuple[str, ...]] = ("blocks",)

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.blocks.shape[-3] * self.blocks.shape[-1]

    def act(self, state: Array) -> Array:
        """Each block acts on its rows of state (..., dim, columns)."""
        moved = self.blocks @ self._in_blocks(state)
        return moved.reshape(*moved.shape[:-3], self.dim, moved.shape[-1])

    def as_dense(self) -> Array:
        """(..., dim, dim)."""
        units = jnp.eye(self.blocks.shape[-3], dtype=self.blocks.dtype)
        spread = jnp.einsum("...kij,kl->...kilj", self.blocks, units)
        return spread.reshape(*self.blocks.shape[:-3], self.dim, self.dim)

    def adjoint(self) -> Self:
        """Block by block."""
        return type(self)(self.blocks.mT.conj())

    def _in_blocks(self, state: Array) -> Array:
        """state (..., dim, columns) as (..., k, b, columns)."""
        return state.reshape(*state.shape[:-2], *self.blocks.shape[-3:-1], state.shape[-1])

    def _unit(self) -> Array:
        return jnp.eye(self.blocks.shape[-1], dtype=self.blocks.dtype)


class BlockTransition(_BlockMatrices, Transition):
    """h is sent to BlockDiag(blocks) h; blocks (..., k, b, b)."""

    @property
    def closed(self) -> bool:
        """Yes."""
        return True

    def compose(self, earlier: Any) -> Self:
        """Block by block."""
        return type(self)(self.blocks @ earlier.blocks)

    def sizes(self, state: Array) -> Array:
        """Block by block."""
        moduli = jnp.abs(state)
        rows = self._in_blocks(moduli)
        return jnp.broadcast_to(rows.max(-2, keepdims=True), rows.shape).reshape(moduli.shape)

    def where(self, valid: Array) -> Self:
        """Unit blocks wherever valid is false."""
        return type(self)(jnp.where(valid[..., None, None, None], self.blocks, self._unit()))


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

    def norm_bound(self) -> Array:
        """Largest Frobenius norm of a block."""
        return jnp.linalg.norm(self.blocks, axis=(-2, -1)).max(-1)


@dataclass(frozen=True)
class Blocks(descriptions.Blocks, Drawn):
    """dim / block dense blocks of one size, from which Dense and BlockDiagonal are made."""

    def combine(self, parameters: Parameters, increments: Array) -> BlockGenerator:
        """Σ_i Δω^i A^i for increments (..., channels)."""
        return BlockGenerator(weighted_sum(increments, parameters["blocks"]))

    def lift_parameters(self, parameters: Parameters, basis: LieBasis) -> Parameters:
        """Brackets block by block."""
        return {"blocks": brackets(parameters["blocks"], basis)}


@dataclass(frozen=True)
class BlockDiagonal(descriptions.BlockDiagonal, Composite):
    """Dense blocks along the diagonal, as `slicekit.BlockDiagonal`.

    Args:
        dim: size of the state (with `block`).
        block: size of every block; it divides dim.
        blocks: the sizes one by one, instead of dim and block.
        scale: initial entries have standard deviation scale / sqrt(block).

    >>> BlockDiagonal(128, 4).parameter_count(channels=33)
    16896
    """

    block_class = Blocks
