"""slicekit: structured linear controlled differential equations, and what they unify."""

from slicekit.flows import Euler, Exponential
from slicekit.paths import Tabulated, increments
from slicekit.scans import Associative, Chunked, Outer, Projective, Recurrent, propagate, solve
from slicekit.structures import (
    DPLR,
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    DirectSum,
    JointDPLR,
    Orthogonal,
    Sparse,
    WalshHadamard,
)

__version__ = "0.1.0"
