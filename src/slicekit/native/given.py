"""Recurrences with given transitions; see native/include/slicekit_given.h, which this mirrors.

Diagonal transitions are real or complex; blocks and low-rank transitions are real.
"""

import ctypes
from typing import ClassVar

import torch

from slicekit.native import kernel
from slicekit.native.arrays import COMPLEX, REAL, Expected
from slicekit.native.kernel import WORK, Kernel, addresses, function, sizes
from slicekit.native.kinds import Kind

SIZES = (
    *("kind", "real", "complex", "batch", "length", "dim", "columns"),
    *("block", "rank", "rescale", "threads"),
)
OPERANDS = (
    *("diagonal", "blocks", "left", "right", "state"),
    *("input", "input_left", "input_right", "readout"),
)
RESULTS = ("outputs", "last", "factors", "starts")
GRADIENTS = tuple(f"in_{name}" for name in OPERANDS)


NUMBERS = {Kind.DIAGONAL: 0, Kind.BLOCKS: 1, Kind.LOW_RANK: 2}
"""Kinds as this kernel counts them."""

KERNEL = Kernel("given", "slicekit_given_{way}_work")


class Task(kernel.Task):
    """`slicekit_given` of slicekit_given.h; `read_out` says whether there is a readout."""

    _fields_: ClassVar = [
        *sizes(*SIZES),
        *addresses(*OPERANDS, *RESULTS, "in_outputs", "in_last", *GRADIENTS),
        *WORK,
    ]
    read_out = False

    def expected(self) -> dict[str, Expected]:
        """The shape and dtype of each array, from the sizes and whether there is a readout."""
        readout = self.read_out
        dtype, real = (COMPLEX if self.complex else REAL)[self.real], REAL[self.real]
        batch, length, dim, columns = self.batch, self.length, self.dim, self.columns
        block, few = max(1, self.block), (batch, length, columns)
        shapes: dict[str, tuple[int, ...]] = {
            **dict.fromkeys(("diagonal", "input_left", "readout"), (batch, length, dim)),
            "blocks": (batch, length, dim // block, block, block),
            **dict.fromkeys(("left", "right"), (batch, length, dim, self.rank)),
            **dict.fromkeys(("state", "last"), (batch, dim, columns)),
            "input": (batch, length, dim, columns),
            "input_right": few,
            "outputs": few if readout else (batch, length, dim, columns),
            "starts": (0,),
        }
        if readout:
            size = chunk_size(dtype, dim, columns)
            shapes["starts"] = (-(-length // size), batch, dim, columns)
        found: dict[str, Expected] = {name: (shape, dtype) for name, shape in shapes.items()}
        found |= {f"in_{name}": wanted for name, wanted in found.items()}
        return found | {"factors": (self._factors(), real)}

    def _factors(self) -> tuple[int, ...]:
        """One for each number of a state, at the beginning of each window of `rescale` steps."""
        if not self.rescale:
            return (0,)
        return (self.batch, -(-self.length // self.rescale), self.dim, self.columns)


def chunk_size(dtype: torch.dtype, dim: int, columns: int) -> int:
    """Steps between two states that are stored where a readout is given."""
    sizes = (dtype.to_real().itemsize, int(dtype.is_complex), dim, columns)
    return function("slicekit_given_chunk")(*map(ctypes.c_int64, sizes))
