"""Dense matrices: A^i is any dim x dim matrix. DE-LNCDE."""

from dataclasses import dataclass

from slicekit.descriptions import blocks as descriptions
from slicekit.structures.block_diagonal import Blocks
from slicekit.structures.direct_sum import Composite


@dataclass(frozen=True)
class Dense(descriptions.Dense, Composite):
    """Full A^i of size dim x dim: block-diagonal with a single block.

    Args:
        dim: size of the state.
        scale: initial entries have standard deviation scale / sqrt(dim).

    Example:
        >>> Dense(8).parameter_count(channels=3)
        192
    """

    block_class = Blocks
