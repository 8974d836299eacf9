"""slicekit: structured linear controlled differential equations, and every recurrence they unify.

    observations -> paths -> increments -> structures -> generators -> flows -> transitions
                 -> scans -> states -> layers -> outputs

Example:
    >>> import torch, slicekit as sk
    >>> layer = sk.SLiCE(channels=32, structure=sk.BlockDiagonal(dim=128, block=4))
    >>> layer(torch.randn(2, 10, 32)).shape
    torch.Size([2, 10, 128])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slicekit.version import __version__ as __version__

if TYPE_CHECKING:
    from slicekit.choices import explain
    from slicekit.citations import cite
    from slicekit.estimators import SliceClassifier, SliceRegressor
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
    "SliceClassifier",
    "SliceRegressor",
    "Sparse",
    "State",
    "Tabulated",
    "TimeAndInput",
    "WalshHadamard",
    "Wiring",
    "cite",
    "explain",
    "increments",
    "load",
    "propagate",
    "save",
    "solve",
]


_ROOMS = {
    "choices": ("explain",),
    "citations": ("cite",),
    "estimators": ("SliceClassifier", "SliceRegressor"),
    "flows": ("Euler", "Exponential", "LogODE"),
    "layers": (
        "Block",
        "Differences",
        "FirstInput",
        "Last",
        "Learned",
        "Mean",
        "Pointwise",
        "SLiCE",
        "SequenceModel",
        "State",
        "TimeAndInput",
        "Wiring",
    ),
    "paths": ("Duration", "Tabulated", "increments"),
    "scans": (
        "Associative",
        "Chunked",
        "Native",
        "Outer",
        "Projective",
        "Recurrent",
        "propagate",
        "solve",
    ),
    "serialisation": ("load", "save"),
    "structures": (
        "DPLR",
        "BlockDiagonal",
        "Dense",
        "Diagonal",
        "DiagonalDense",
        "DirectSum",
        "Householder",
        "JointDPLR",
        "Orthogonal",
        "PermutationDiagonal",
        "RowNormalised",
        "Sparse",
        "WalshHadamard",
    ),
    "checks": (),
    "dispatch": (),
    "handles": (),
    "mixers": (),
    "native": (),
    "parallel": (),
}
"""Rooms and the public names that each holds: loaded when they are first asked for, so that
`slicekit.jax` needs no torch and the core no scikit-learn."""

_HOMES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name or a room, when it is first asked for."""
    if name in _HOMES:
        value = getattr(import_module(f"slicekit.{_HOMES[name]}"), name)
    elif name in _ROOMS:
        value = import_module(f"slicekit.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Every public name, loaded or not."""
    return sorted({*globals(), *__all__, *_ROOMS})
