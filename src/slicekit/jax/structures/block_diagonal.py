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
    Parameters,
    Transition,
    brackets,
    weighted_sum,
)
from slicekit.jax.structures.direct_sum import Composite
from slicekit.jax.structures.exponential import matrix_exponential


def _act(blocks: Array, state: Array) -> Array:
    k, b = blocks.shape[-3], blocks.shape[-1]
    rows = state.reshape(*state.shape[:-2], k, b, state.shape[-1])
    moved = blocks @ rows
    return moved.reshape(*moved.shape[:-3], k * b, moved.shape[-1])


def _dense(blocks: Array) -> Array:
    k, b = blocks.shape[-3], blocks.shape[-1]
    spread = jnp.einsum("...kij,kl->...kilj", blocks, jnp.eye(k, dtype=blocks.dtype))
    return spread.reshape(*blocks.shape[:-3], k * b, k * b)


class BlockTransition(Transition):
    """h is sent to BlockDiag(blocks) h; blocks (..., k, b, b)."""

    blocks: Array
    stepwise: ClassVar[tuple[str, ...]] = ("blocks",)

    @property
    def closed(self) -> bool:
        """Yes."""
        return True

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.blocks.shape[-3] * self.blocks.shape[-1]

    def act(self, state: Array) -> Array:
        """Each block acts on its rows of state (..., dim, columns)."""
        return _act(self.blocks, state)

    def as_dense(self) -> Array:
        """(..., dim, dim)."""
        return _dense(self.blocks)

    def adjoint(self) -> "BlockTransition":
        """Block by block."""
        return type(self)(self.blocks.mT.conj())

    def compose(self, earlier: Any) -> Self:
        """Block by block."""
        return type(self)(self.blocks @ earlier.blocks)

    def sizes(self, state: Array) -> Array:
        """Block by block."""
        moduli = jnp.abs(state)
        rows = moduli.reshape(*state.shape[:-2], *self.blocks.shape[-3:-1], state.shape[-1])
        return jnp.broadcast_to(rows.max(-2, keepdims=True), rows.shape).reshape(moduli.shape)

    def where(self, valid: Array) -> Self:
        """Unit blocks wherever valid is false."""
        unit = jnp.eye(self.blocks.shape[-1], dtype=self.blocks.dtype)
        return type(self)(jnp.where(valid[..., None, None, None], self.blocks, unit))


class BlockGenerator(Generator):
    """A = BlockDiag(blocks); blocks (..., k, b, b)."""

    blocks: Array
    stepwise: ClassVar[tuple[str, ...]] = ("blocks",)

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.blocks.shape[-3] * self.blocks.shape[-1]

    def act(self, state: Array) -> Array:
        """Each block acts on its rows of state (..., dim, columns)."""
        return _act(self.blocks, state)

    def as_dense(self) -> Array:
        """(..., dim, dim)."""
        return _dense(self.blocks)

    def adjoint(self) -> "BlockGenerator":
        """Block by block."""
        return type(self)(self.blocks.mT.conj())

    def euler(self) -> Transition:
        """Unit blocks plus the blocks."""
        return BlockTransition(
            self.blocks + jnp.eye(self.blocks.shape[-1], dtype=self.blocks.dtype)
        )

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
