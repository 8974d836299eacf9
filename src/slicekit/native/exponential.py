"""Exponentials of small matrices: the mirror of native/include/slicekit_exponential.h."""

from typing import ClassVar

from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import WORK, Kernel, addresses, sizes
from slicekit.native.library import unsuited
from slicekit.native.threads import threads

LARGEST = 64
"""Rows up to which the library is faster than torch's batched products."""

LARGEST_OF_FEW = 48
"""The same for fewer than `FEW` matrices: the library always does a whole lane group of them."""

FEW = 8

KERNEL = Kernel("exponential", "slicekit_exponential_workspace")


class Task(kernel.Task):
    """`slicekit_exponential` of slicekit_exponential.h; the batch are its matrices."""

    _fields_: ClassVar = [
        *sizes("real", "batch", "rows", "threads"),
        *addresses("x", "y", "in_y", "in_x"),
        *WORK,
    ]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of matrices and exponentials."""
        return dict.fromkeys(("x", "y"), (self.batch, self.rows, self.rows))


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
    return _made("forward", "y", {"x": a})


def pullback(a: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of <gradient, exp(A)> in A, all (..., n, n) and of one dtype.

    Raises:
        RuntimeError: if n is 0 or far too large for the library.
    """
    return _made("backward", "in_x", {"x": a, "in_y": gradient})


def _made(way: str, name: str, given: dict[str, Tensor]) -> Tensor:
    """What a pass makes of matrices of one shape."""
    shape, rows = given["x"].shape, given["x"].shape[-1]
    count = shape[:-2].numel()
    task = Task(given["x"].itemsize, count, rows, threads(10 * count * rows**3))
    flat = {key: x.reshape(count, *x.shape[-2:]) for key, x in given.items()}
    return KERNEL.make(way, task, flat, (name,))[name].view(shape)
