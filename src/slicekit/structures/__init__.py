"""What may a matrix look like? One file per structure; the protocol is in `base`."""

from slicekit.descriptions.base import Facts
from slicekit.structures.base import (
    Generator,
    Matrices,
    Parameters,
    Structure,
    Transition,
)
from slicekit.structures.block_diagonal import BlockDiagonal, BlockGenerator, BlockTransition
from slicekit.structures.dense import Dense
from slicekit.structures.diagonal import Diagonal, DiagonalGenerator, DiagonalTransition
from slicekit.structures.diagonal_dense import DiagonalDense
from slicekit.structures.direct_sum import DirectSum, SumGenerator, SumTransition
from slicekit.structures.dplr import DPLR
from slicekit.structures.householder import Householder
from slicekit.structures.joint_dplr import JointDPLR, LowRankGenerator, LowRankTransition
from slicekit.structures.orthogonal import Orthogonal, RotationTransition
from slicekit.structures.permutation_diagonal import ColumnTransition, PermutationDiagonal
from slicekit.structures.row_normalised import RowNormalised
from slicekit.structures.sparse import Sparse
from slicekit.structures.walsh_hadamard import WalshHadamard

__all__ = [
    "DPLR",
    "BlockDiagonal",
    "BlockGenerator",
    "BlockTransition",
    "ColumnTransition",
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
