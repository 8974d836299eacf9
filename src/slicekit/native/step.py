"""One step of one layer, for use element by element; see native/include/slicekit_step.h."""

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_double, c_int64, c_void_p
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from slicekit.native.library import check, library

BLOCKS, SKEW, LOW_RANK, HADAMARD, SPARSE, SHARED_FACTORS = range(6)
LARGEST_EXPONENTIAL = 16
NOT_FINITE = 100


class _Part(Structure):
    _fields_ = [
        *((name, c_int64) for name in ("kind", "dim", "size", "option")),
        ("parameters", c_void_p * 3),
    ]


class _Plan(Structure):
    _fields_ = [
        *((name, c_int64) for name in ("real", "batch", "channels", "dim", "parts")),
        ("part", POINTER(_Part)),
        ("dt", c_double),
    ]


@lru_cache(maxsize=1)
def _kernel() -> Any:
    loaded = library()
    assert loaded is not None
    kernel = loaded.c.slicekit_step
    kernel.argtypes, kernel.restype = [c_void_p] * 4, c_int64
    return kernel


class StepPlan:
    """What stays the same from step to step of one layer.

    Args:
        parts: kind, dim, size and option of each part.
        parameters: up to three contiguous tensors of each part, of one floating dtype.
        batch, channels: sizes of the increments.
        dt: if not 0, increments are (1, x) dt.
    """

    def __init__(
        self,
        parts: Sequence[tuple[int, int, int, int]],
        parameters: Sequence[Sequence[Tensor]],
        batch: int,
        channels: int,
        dt: float,
    ) -> None:
        """Write it down for the kernel."""
        self.held = [x for own in parameters for x in own]
        rows = [
            _Part(*part, (c_void_p * 3)(*(x.data_ptr() for x in own)))
            for part, own in zip(parts, parameters, strict=True)
        ]
        self.dim = sum(dim for _, dim, _, _ in parts)
        self._parts = (_Part * len(rows))(*rows)
        real = parameters[0][0].element_size()
        self._plan = _Plan(real, batch, channels, self.dim, len(rows), self._parts, dt)
        self._address = ctypes.addressof(self._plan)

    def run(self, x: Tensor, state: Tensor) -> tuple[Tensor, bool]:
        """The state (batch, dim) after one step, and whether it is finite.

        Args:
            x: (batch, channels), or one channel less with dt; contiguous, as the state is.
            state: (batch, dim).
        """
        out = torch.empty_like(state)
        status = _kernel()(self._address, x.data_ptr(), state.data_ptr(), out.data_ptr())
        if status == NOT_FINITE:
            return out, False
        check(status, "slicekit_step")
        return out, True
