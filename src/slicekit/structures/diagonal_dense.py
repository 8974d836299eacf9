"""A large diagonal part and one small dense block. D-DE-SLiCE."""

from dataclasses import dataclass

from slicekit.descriptions import composite as descriptions
from slicekit.structures.dense import Dense
from slicekit.structures.diagonal import Diagonal
from slicekit.structures.direct_sum import Composite


@dataclass(frozen=True)
class DiagonalDense(descriptions.DiagonalDense, Composite):
    """The direct sum of Diagonal(dim - block) and Dense(block).

    Args:
        dim: size of the state.
        block: size of the dense block, at the bottom right; at most dim.
        scale: passed on to both parts.

    Example:
        >>> DiagonalDense(272, 16).parameter_count(channels=1)
        512
    """

    diagonal_class = Diagonal
    dense_class = Dense
