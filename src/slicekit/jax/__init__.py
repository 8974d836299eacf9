"""slicekit in JAX: the same layer, with the same names and the same numbers, without torch.

    observations -> paths -> increments -> structures -> generators -> flows -> transitions
                 -> scans -> states -> layers -> outputs

Layers are Equinox modules over the pure functions `solve` and `propagate`.

Example:
    >>> import jax, slicekit.jax as sk
    >>> layer = sk.SLiCE(32, sk.BlockDiagonal(dim=128, block=4), key=jax.random.key(0))
    >>> layer(jax.numpy.ones((2, 10, 32))).shape
    (2, 10, 128)
"""

try:
    import equinox  # noqa: F401
    import jax  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"slicekit.jax needs jax and equinox ({error}): pip install 'slicekit[jax]'"
    ) from error

from slicekit.jax.converters import from_log_linear_cde
from slicekit.jax.flows import Euler, Exponential, LogODE
from slicekit.jax.layers import (
    Block,
    Differences,
    FirstInput,
    Last,
    Learned,
    Mean,
    Pointwise,
    SequenceModel,
    SLiCE,
    State,
    TimeAndInput,
    Wiring,
)
from slicekit.jax.paths import Duration, Tabulated, increments
from slicekit.jax.scans import (
    Associative,
    Chunked,
    Native,
    Outer,
    Projective,
    Recurrent,
    Sharded,
    propagate,
    solve,
)
from slicekit.jax.serialisation import load, save
from slicekit.jax.structures import (
    DPLR,
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    DirectSum,
    Householder,
    JointDPLR,
    Orthogonal,
    PermutationDiagonal,
    RowNormalised,
    Sparse,
    WalshHadamard,
)

__all__ = [
    "DPLR",
    "Associative",
    "Block",
    "BlockDiagonal",
    "Chunked",
    "Dense",
    "Diagonal",
    "DiagonalDense",
    "Differences",
    "DirectSum",
    "Duration",
    "Euler",
    "Exponential",
    "FirstInput",
    "Householder",
    "JointDPLR",
    "Last",
    "Learned",
    "LogODE",
    "Mean",
    "Native",
    "Orthogonal",
    "Outer",
    "PermutationDiagonal",
    "Pointwise",
    "Projective",
    "Recurrent",
    "RowNormalised",
    "SLiCE",
    "SequenceModel",
    "Sharded",
    "Sparse",
    "State",
    "Tabulated",
    "TimeAndInput",
    "WalshHadamard",
    "Wiring",
    "from_log_linear_cde",
    "increments",
    "load",
    "propagate",
    "save",
    "solve",
]
