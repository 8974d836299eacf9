"""What the scans of increments hand to their kernels: sizes, addresses and work space.

A kernel's C struct begins with the sizes and arrays of `COMMON`, and ends with its parameters.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor

from slicekit.native.library import check, library

SIZES = ("real", "batch", "length", "channels", "dim", "columns", "rescale", "threads")
ARRAYS = ("increments", "state", "inputs", "states", "last", "factors")
GRADIENTS = ("in_states", "in_last", "in_increments", "in_state", "in_inputs")

COMMON: list[tuple[str, Any]] = [
    *((name, ctypes.c_int64) for name in SIZES),
    *((name, ctypes.c_void_p) for name in (*ARRAYS, *GRADIENTS, "workspace")),
    ("workspace_bytes", ctypes.c_int64),
]


def describe(problem: ctypes.Structure, increments: Tensor, state: Tensor, rescale: int) -> None:
    """Set the sizes that all scans have, from increments and initial state."""
    batch, length, channels = increments.shape
    sizes = (state.element_size(), batch, length, channels, *state.shape[1:], rescale)
    for name, size in zip(SIZES, (*sizes, torch.get_num_threads()), strict=True):
        setattr(problem, name, size)


def point(problem: ctypes.Structure, **arrays: Tensor | None) -> None:
    """Set addresses; the tensors are contiguous and outlive the call."""
    for name, x in arrays.items():
        setattr(problem, name, None if x is None else x.data_ptr())


def outputs(increments: Tensor, state: Tensor, rescale: int) -> tuple[Tensor, Tensor, Tensor]:
    """Room for all states, the last one and the factors."""
    batch, length, _ = increments.shape
    _, dim, columns = state.shape
    states = state.new_empty(batch, length, dim, columns)
    factors = state.new_empty((batch, length, columns) if rescale else (0, 0, 0))
    return states, torch.empty_like(state), factors


def call(scan: str, way: str, problem: ctypes.Structure) -> None:
    """Run slicekit_{scan}_{way} with as much work space as it asks for.

    Raises:
        RuntimeError: if there is no library, or the kernel refuses what it is given.
    """
    loaded = library()
    if loaded is None:
        raise RuntimeError(f"native {scan} {way}: there is no native library")
    measure = getattr(loaded.c, f"slicekit_{scan}_workspace")
    measure.argtypes, measure.restype = [ctypes.c_void_p, ctypes.c_int64], ctypes.c_int64
    run = getattr(loaded.c, f"slicekit_{scan}_{way}")
    run.argtypes, run.restype = [ctypes.c_void_p], ctypes.c_int64
    needed = measure(ctypes.addressof(problem), int(way == "backward"))
    check(-min(needed, 0), f"{scan} {way}")
    workspace = torch.empty(needed, dtype=torch.uint8)
    point(problem, workspace=workspace)
    setattr(problem, "workspace_bytes", needed)  # noqa: B010
    check(run(ctypes.addressof(problem)), f"{scan} {way}")
