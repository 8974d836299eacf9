"""The structures whose expressivity is measured, by name, with the distributions of the paper.

`log-` before a name is the same under the Log-ODE method, driven by log-signatures of depth 2.
"""

import math
from collections.abc import Callable

from slicekit.structures import (
    DPLR,
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    Orthogonal,
    Sparse,
    Structure,
    WalshHadamard,
)
from slicekit.suggestions import unknown

LOG = "log-"


def _logarithmic_blocks(dim: int) -> Structure:
    """Blocks of ⌈log N⌉, as in the proposition of the appendix; the last one may be smaller."""
    block = math.ceil(math.log(dim))
    count, rest = divmod(dim, block)
    return BlockDiagonal(blocks=[block] * count + [rest] * (rest > 0))


def _blocks(block: int) -> Callable[[int], Structure]:
    return lambda dim: BlockDiagonal(dim, min(block, dim))


DRAWN: dict[str, Callable[[int], Structure]] = {
    "diagonal": Diagonal,
    "block-2": _blocks(2),
    "block-4": _blocks(4),
    "block-8": _blocks(8),
    "block-16": _blocks(16),
    "block-32": _blocks(32),
    "block-log": _logarithmic_blocks,
    "dense": Dense,
    "diagonal-dense": lambda dim: DiagonalDense(dim, dim // 2),
    "dplr-4": lambda dim: DPLR(dim, min(4, dim)),
    "dplr-16": lambda dim: DPLR(dim, min(16, dim)),
    "sparse": lambda dim: Sparse(dim, epsilon=0.5),
    "walsh-hadamard": lambda dim: WalshHadamard(dim, bounded=False),
    "orthogonal-4": lambda dim: Orthogonal(dim, 4),
}

NAMES = (*DRAWN, *(LOG + name for name in ("diagonal", "block-4", "dplr-4")))
"""All of them, in the order of the tables."""


def is_logarithmic(name: str) -> bool:
    """Whether a name is of a structure that log-signatures drive."""
    return name.startswith(LOG)


def made(name: str, dim: int) -> Structure:
    """A structure by its name.

    Raises:
        ValueError: if there is none, or it has no such dim.

    >>> made("log-block-4", 8)
    BlockDiagonal(dim=8, block=4, blocks=None, scale=1.0)
    """
    if name not in NAMES:
        raise unknown("structure", name, NAMES)
    return DRAWN[name.removeprefix(LOG)](dim)
