"""Models that were trained elsewhere: the authors' JAX `LogLinearCDE`, given as arrays.

Theirs is one layer: h_0 = W x_0 + b, a first-order step I + Σ_k λ_k Ā^k for the log-signature λ of
each window, the mean of all states, and a linear map to the classes. Shapes, by structure, for C
channels and a state of size H:

| structure | theirs | here |
|---|---|---|
| `Dense`, `BlockDiagonal` | vf_A (C, (H / b) b b) | blocks (C, H / b, b, b) |
| `Diagonal` | vf_A (C, H) | values (C, H) |
| `DiagonalDense` | diagonal (C, H - b), dense (C, b, b) | part0_values, part1_blocks |
| `DPLR` | diagonal (C, H), left and right (C, H, r) | the same |
| `WalshHadamard(bounded=False)` | vf_A (C, H) | values (C, H) |
| `Sparse` | data (n,), indices (n, 3) into (C, H, H) | values, places |
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from slicekit.jax.flows import Euler, LogODE
from slicekit.jax.layers import Differences, FirstInput, Mean, SequenceModel, SLiCE
from slicekit.jax.serialisation import with_arrays
from slicekit.jax.structures import (
    DPLR,
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    Sparse,
    Structure,
    WalshHadamard,
)

_THEIRS = {
    Dense: ("vf_A",),
    BlockDiagonal: ("vf_A",),
    Diagonal: ("vf_A",),
    WalshHadamard: ("vf_A",),
    DiagonalDense: ("diagonal", "dense"),
    DPLR: ("diagonal", "left", "right"),
    Sparse: ("data", "indices"),
}
_MAPS = ("start.weight", "start.bias", "head.weight", "head.bias")


def from_log_linear_cde(
    arrays: Mapping[str, Any], structure: Structure, *, depth: int, window: int
) -> SequenceModel:
    """The authors' `LogLinearCDE` as a slicekit model with the same states for the same windows.

    Args:
        arrays: the vector field under the names of the table above, and start.weight (H, C),
            start.bias (H,), head.weight (classes, H), head.bias (classes,).
        structure: its structure, with the state's size and block, rank or density.
        depth: of the log-signatures; 1 for `Diagonal`.
        window: steps in a window, their `stepsize`.

    Returns:
        A model of series (batch, length, C), time channel included if theirs had one, that gives
        logits (theirs takes their softmax). The first window here begins at the first observation;
        theirs drops its first window, so give it what came after.

    Raises:
        TypeError: for a structure that theirs does not have.
        ValueError: if an array is missing, left over, or of another shape.
    """
    names = _THEIRS.get(type(structure))  # type: ignore[arg-type]
    if names is None or (isinstance(structure, WalshHadamard) and structure.bounded):
        known = ", ".join(cls.__name__ for cls in _THEIRS)
        raise TypeError(
            f"structure={structure!r}; expected one of {known} (WalshHadamard with bounded=False)"
        )
    wanted = {*names, *_MAPS}
    missing, over = sorted(wanted - arrays.keys()), sorted(arrays.keys() - wanted)
    if missing or over:
        raise ValueError(
            f"arrays of {structure!r}: missing {', '.join(missing) or 'nothing'}; left over "
            f"{', '.join(over) or 'nothing'}"
        )
    given = {name: jnp.asarray(x) for name, x in arrays.items()}
    if given["start.weight"].ndim != 2 or given["head.weight"].ndim != 2:
        raise ValueError("start.weight and head.weight must have two axes")
    channels, outputs = given["start.weight"].shape[1], given["head.weight"].shape[0]
    key = jax.random.key(0)
    layer = SLiCE(
        channels,
        structure,
        drive=Differences(),
        initial=FirstInput(),
        flow=LogODE(depth, window, Euler()),
        key=key,
    )
    model = SequenceModel(
        channels=channels,
        embed=False,
        outputs=outputs,
        width=structure.dim,
        blocks=[layer],
        pool=Mean(),
        key=key,
    )
    ours = {f"blocks.0.A.{name}": x for name, x in _field(structure, given, channels).items()}
    ours |= {f"blocks.0.start.{kind}": given[f"start.{kind}"] for kind in ("weight", "bias")}
    ours |= {f"heads.0.{kind}": given[f"head.{kind}"] for kind in ("weight", "bias")}
    return with_arrays(model, ours)


def _field(structure: Structure, given: dict[str, Array], channels: int) -> dict[str, Array]:
    """A^1..A^C under our names and in our shapes."""
    if isinstance(structure, Sparse):
        indices = np.asarray(given["indices"])
        if indices.ndim != 2 or indices.shape[1] != 3 or len(indices) != given["data"].shape[0]:
            raise ValueError(
                f"indices has shape {indices.shape}; expected ({given['data'].shape[0]}, 3)"
            )
        shape = (channels, structure.dim, structure.dim)
        if len(indices) and ((indices < 0) | (indices >= np.array(shape))).any():
            raise ValueError(f"indices leave the shape {shape}")
        places = np.asarray(np.ravel_multi_index(tuple(indices.T), shape))
        order = np.argsort(places)
        return {"values": given["data"][order], "places": jnp.asarray(places[order])}
    theirs = [given[name] for name in _THEIRS[type(structure)]]  # type: ignore[index]
    expected = structure.shapes(channels)
    arrays = {}
    for (name, shape), x in zip(expected.items(), theirs, strict=True):
        if x.size != np.prod(shape) or x.shape[0] != channels:
            raise ValueError(f"{name} of {structure!r} has shape {x.shape}, which is not {shape}")
        arrays[name] = x.reshape(shape)
    return arrays
