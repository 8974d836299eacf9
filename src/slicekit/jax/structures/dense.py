"""Dense matrices, and a large diagonal part beside a small dense block. DE-LNCDE and D-DE-SLiCE."""

from dataclasses import dataclass

from slicekit.descriptions import blocks, composite
from slicekit.jax.structures.block_diagonal import Blocks
from slicekit.jax.structures.diagonal import Diagonal
from slicekit.jax.structures.direct_sum import Composite


@dataclass(frozen=True)
class Dense(blocks.Dense, Composite):
    """Full A^i of size dim x dim: block-diagonal with a single block. As `slicekit.Dense`.

    Args:
        dim: size of the state.
        scale: initial entries have standard deviation scale / sqrt(dim).
    """

    block_class = Blocks


@dataclass(frozen=True)
class DiagonalDense(composite.DiagonalDense, Composite):
    """The direct sum of Diagonal(dim - block) and Dense(block). As `slicekit.DiagonalDense`.

    Args:
        dim: size of the state.
        block: size of the dense block, at the bottom right; at most dim.
        scale: passed on to both parts.
    """

    diagonal_class = Diagonal
    dense_class = Dense
