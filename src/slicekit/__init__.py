"""slicekit: structured linear controlled differential equations, and every recurrence they unify.

    observations -> paths -> increments -> structures -> generators -> flows -> transitions
                 -> scans -> states -> layers -> outputs

Example:
    >>> import torch, slicekit as sk
    >>> layer = sk.SLiCE(channels=32, structure=sk.BlockDiagonal(dim=128, block=4))
    >>> layer(torch.randn(2, 10, 32)).shape
    torch.Size([2, 10, 128])
"""

from typing import TYPE_CHECKING, Any

from slicekit.citations import cite
from slicekit.flows import Euler, Exponential, LogODE
from slicekit.layers import (
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
from slicekit.paths import Duration, Tabulated, increments
from slicekit.scans import (
    Associative,
    Chunked,
    Native,
    Outer,
    Projective,
    Recurrent,
    propagate,
    solve,
)
from slicekit.serialisation import load, save
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

if TYPE_CHECKING:
    from slicekit.estimators import SliceClassifier, SliceRegressor

__version__ = "0.1.0"

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
    "JointDPLR",
    "Last",
    "Learned",
    "LogODE",
    "Mean",
    "Native",
    "Orthogonal",
    "Outer",
    "Pointwise",
    "Projective",
    "Recurrent",
    "SLiCE",
    "SequenceModel",
    "SliceClassifier",
    "SliceRegressor",
    "Sparse",
    "State",
    "Tabulated",
    "TimeAndInput",
    "WalshHadamard",
    "Wiring",
    "cite",
    "increments",
    "load",
    "propagate",
    "save",
    "solve",
]


def __getattr__(name: str) -> Any:
    """The estimators, which need scikit-learn, when they are first asked for."""
    if name in ("SliceClassifier", "SliceRegressor"):
        from slicekit import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
