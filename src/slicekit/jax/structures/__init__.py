"""What may a matrix look like? The mathematics of every structure over arrays."""

from slicekit.descriptions.base import Facts
from slicekit.jax.structures.base import (
    Generator,
    Matrices,
    Parameters,
    Structure,
    Transition,
)
from slicekit.jax.structures.block_diagonal import BlockDiagonal, BlockGenerator, BlockTransition
from slicekit.jax.structures.dense import Dense, DiagonalDense
from slicekit.jax.structures.diagonal import Diagonal, DiagonalGenerator, DiagonalTransition
from slicekit.jax.structures.direct_sum import DirectSum, SumGenerator, SumTransition
from slicekit.jax.structures.householder import Householder
from slicekit.jax.structures.low_rank import DPLR, JointDPLR, LowRankGenerator, LowRankTransition
from slicekit.jax.structures.orthogonal import Orthogonal, RotationTransition
from slicekit.jax.structures.permutation_diagonal import PermutationDiagonal
from slicekit.jax.structures.row_normalised import RowNormalised
from slicekit.jax.structures.sparse import Sparse
from slicekit.jax.structures.walsh_hadamard import WalshHadamard

__all__ = [
    "DPLR",
    "BlockDiagonal",
    "BlockGenerator",
    "BlockTransition",
    "Dense",
    "Diagonal",
    "DiagonalDense",
    "DiagonalGenerator",
    "DiagonalTransition",
    "DirectSum",
    "Facts",
    "Generator",
    "Householder",
    "JointDPLR",
    "LowRankGenerator",
    "LowRankTransition",
    "Matrices",
    "Orthogonal",
    "Parameters",
    "PermutationDiagonal",
    "RotationTransition",
    "RowNormalised",
    "Sparse",
    "Structure",
    "SumGenerator",
    "SumTransition",
    "Transition",
    "WalshHadamard",
]
