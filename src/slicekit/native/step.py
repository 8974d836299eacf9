"""One step of one layer, for use element by element; see native/include/slicekit_step.h.

Unlike other kernels it is not called by `Kernel`: a plan is written once and several threads may
use it, so arrays are arguments and no fields of it, and looking for work space would take longer
than the step.
"""

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_double, c_void_p
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from slicekit.native.kernel import (
    REAL,
    Expected,
    Kind,
    address,
    addresses,
    function,
    plain,
    sizes,
    work_space,
)
from slicekit.native.library import check
from slicekit.native.panels import Part

LARGEST_EXPONENTIAL = 16
NOT_FINITE = 100


class _Part(Structure):
    _fields_ = [*sizes("kind", "dim", "size", "option"), ("parameters", c_void_p * 3)]


class _Plan(Structure):
    _fields_ = [
        *sizes("real", "batch", "channels", "dim", "parts"),
        ("part", POINTER(_Part)),
        ("dt", c_double),
    ]


class _Norms(Structure):
    _fields_ = addresses("log_norm", "out_log_norm", "unit")


@lru_cache(maxsize=1)
def _kernels() -> tuple[Any, Any]:
    """For plain states, and for projective ones."""
    kernels = function("slicekit_step"), function("slicekit_step_projective")
    kernels[0].argtypes = [c_void_p] * 4
    kernels[1].argtypes = [c_void_p] * 4 + [POINTER(_Norms)]
    return kernels


class StepPlan:
    """What stays the same from step to step of one layer.

    Args:
        parts: kind, dim, size and option of each part.
        parameters: up to three contiguous tensors of each part, of one floating dtype.
        batch, channels: sizes of the increments.
        dt: if not 0, increments are (1, x) dt.

    Raises:
        ValueError: if a parameter is not what the kernel takes it for.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Kind, int, int, int]],
        parameters: Sequence[Sequence[Tensor]],
        batch: int,
        channels: int,
        dt: float,
    ) -> None:
        """Write it down for the kernel."""
        self.held = [x for run_parameters in parameters for x in run_parameters]
        self.dim = sum(dim for _, dim, _, _ in parts)
        real = parameters[0][0].element_size()
        self._dtype = REAL.get(real, torch.float32)
        self._x, self._log_norm = (batch, channels - (dt != 0)), (batch,)
        self._state = (batch, self.dim)
        rows = []
        for (kind, dim, size, option), run_parameters in zip(parts, parameters, strict=True):
            wanted = _expected(kind, dim, size, channels, self._dtype)
            addresses = [
                address("a parameter", *pair) for pair in zip(run_parameters, wanted, strict=True)
            ]
            rows.append(_Part(kind, dim, size, option, (c_void_p * 3)(*addresses)))
        self._parts = (_Part * len(rows))(*rows)
        self._plan = _Plan(real, batch, channels, self.dim, len(rows), self._parts, dt)
        self._address = ctypes.addressof(self._plan)
        self._kernels = _kernels()

    def run(
        self, x: Tensor, state: Tensor, log_norm: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, bool] | None:
        """The state after one step, its log-norm if it has one, and whether all is finite.

        Args:
            x: (batch, channels), or one channel less with dt.
            state: (batch, dim), or a direction, whose own norm counts.
            log_norm: (batch,) of a direction.

        Returns:
            None if a tensor is not on the CPU and of the plan's shape and dtype.
        """
        given, before = _ready(x, self._x, self._dtype), _ready(state, self._state, self._dtype)
        if given is None or before is None:
            return None
        out = torch.empty_like(before)
        arrays = (self._address, given.data_ptr(), before.data_ptr(), out.data_ptr())
        if log_norm is None:
            return out, None, _finite(self._kernels[0](*arrays), "slicekit_step")
        logs = _ready(log_norm, self._log_norm, self._dtype)
        if logs is None:
            return None
        out_logs, unit = torch.empty_like(logs), work_space(before.nbytes)
        norms = _Norms(logs.data_ptr(), out_logs.data_ptr(), unit.data_ptr())
        status = self._kernels[1](*arrays, norms)
        return out, out_logs, _finite(status, "slicekit_step_projective")


def _ready(x: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor | None:
    """A tensor as the kernel takes it, copied if it is a view; None if it is another."""
    if x.dtype is not dtype or x.shape != shape or not x.is_cpu or x.layout is not torch.strided:
        return None
    return x if x.is_contiguous() and not x.is_neg() else plain(x)


def _finite(status: int, name: str) -> bool:
    """Whether all numbers are, as a status says that is no fault."""
    if status and status != NOT_FINITE:
        check(status, name)
    return not status


def _expected(
    kind: Kind, dim: int, size: int, channels: int, dtype: torch.dtype
) -> tuple[Expected, ...]:
    """How many numbers, and of which dtype, each parameter of a part has."""
    if kind == Kind.SPARSE:  # the library looks at every place, at every step
        return (size, dtype), (size, torch.int64)
    return tuple((channels * count, dtype) for count in Part(kind, dim, size).numbers)
