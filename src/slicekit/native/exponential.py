"""Exponentials of small matrices, and their derivative, by the shared library."""

import ctypes

import torch
from torch import Tensor

from slicekit.native.kernel import REAL, address, function, plain
from slicekit.native.library import check, unsuited
from slicekit.native.threads import threads

LARGEST = 64
"""Rows up to which the library is faster than torch's batched products."""

LARGEST_OF_FEW = 48
"""The same for fewer than `FEW` matrices: the library always does a whole lane group of them."""

FEW = 8


class _Sizes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("real", "count", "rows", "threads")]


def obstacle(a: Tensor) -> str | None:
    """Why torch is taken for matrices (..., n, n): no kernel, or a slower one; None if neither."""
    rows = a.shape[-1]
    if not 0 < rows <= (LARGEST if a.numel() >= FEW * rows**2 else LARGEST_OF_FEW):
        return f"torch's products are faster for {rows} rows"
    return unsuited(a)


def forward(a: Tensor) -> Tensor:
    """exp(A) of float32 or float64 matrices (..., n, n) on the CPU.

    Raises:
        RuntimeError: if n is 0 or far too large for the library.
    """
    return _call("slicekit_exponential_forward", a)


def pullback(a: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of <gradient, exp(A)> in A, all (..., n, n) and of one dtype.

    Raises:
        RuntimeError: if n is 0 or far too large for the library.
    """
    return _call("slicekit_exponential_pullback", a, gradient)


def _call(name: str, *arrays: Tensor) -> Tensor:
    arrays = tuple(plain(x) for x in arrays)
    result, rows = torch.empty_like(arrays[0]), arrays[0].shape[-1]
    count = arrays[0].shape[:-2].numel()
    team = threads(10 * count * rows**3)
    sizes = ctypes.byref(_Sizes(result.itemsize, count, rows, team))
    measured = function("slicekit_exponential_workspace")(sizes)
    work = torch.empty(measured, dtype=torch.uint8, device="cpu")
    expected = (*arrays[0].shape[:-2], rows, rows), REAL.get(result.itemsize, torch.float32)
    given = [address("matrices", x, expected) for x in (*arrays, result)]
    pointers = [ctypes.c_void_p(x) for x in (*given, work.data_ptr())]
    check(function(name)(sizes, *pointers, ctypes.c_int64(measured)), name)
    return result
