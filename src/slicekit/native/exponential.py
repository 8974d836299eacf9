"""Exponentials of small matrices: the mirror of native/include/slicekit_exponential.h."""

from typing import ClassVar

from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import Differentiable, fields
from slicekit.native.library import unsuited

LARGEST = 64
"""Rows up to which the library is faster than torch's batched products."""

LARGEST_OF_FEW = 48
"""The same for fewer than `FEW` matrices: the library always does a whole lane group of them."""

FEW = 8


class Task(kernel.Task):
    """`slicekit_exponential` of slicekit_exponential.h; the batch are its matrices."""

    operands: ClassVar = {"x": "batch rows rows"}
    results: ClassVar = {"y": "batch rows rows"}
    cotangents, multiplications = ("in_y",), "10 batch rows rows rows"
    _fields_: ClassVar = fields("real batch rows threads", operands, results, cotangents)


KERNEL = Differentiable("exponential", "workspace", Task)


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
    return KERNEL.forward([_flat(a)])[0].view(a.shape)


def pullback(a: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of <gradient, exp(A)> in A, all (..., n, n) and of one dtype.

    Raises:
        RuntimeError: if n is 0 or far too large for the library.
    """
    (pulled,) = KERNEL.backward([_flat(a)], [None], [_flat(gradient)], [])
    assert pulled is not None
    return pulled.view(a.shape)


def _flat(a: Tensor) -> Tensor:
    return a.reshape(a.shape[:-2].numel(), *a.shape[-2:])
