"""Recurrences with given transitions; see native/include/slicekit_given.h, which this mirrors.

Diagonal transitions are real or complex; blocks and low-rank transitions are real.
"""

import ctypes
from typing import Any, ClassVar

import torch

from slicekit.native import kernel
from slicekit.native.kernel import (
    COMPLEX,
    REAL,
    Differentiable,
    Expected,
    Kind,
    fields,
    function,
    windows,
)

SIZES = (
    *("kind", "real", "complex", "batch", "length", "dim", "columns"),
    *("block", "rank", "rescale", "threads"),
)


class Task(kernel.Task):
    """`slicekit_given` of slicekit_given.h; `read_out` says whether there is a readout."""

    operands = (
        *("diagonal", "blocks", "left", "right", "state"),
        *("input", "input_left", "input_right", "readout"),
    )
    results = ("outputs", "last", "factors", "starts")
    cotangents = ("in_outputs", "in_last")
    _fields_: ClassVar = fields(SIZES, operands, results, cotangents)
    read_out = False

    @classmethod
    def sizes_of(cls, rescale: int, *operands: Any) -> dict[str, Any]:
        """Of transitions of one kind, and the state (batch, dim, columns)."""
        diagonal, blocks, left, _, state, *_, readout = operands
        kind = Kind.DIAGONAL if left is None else Kind.LOW_RANK
        (batch, dim, columns), dtype = state.shape, state.dtype
        return {
            "kind": kind if blocks is None else Kind.BLOCKS,
            "real": dtype.to_real().itemsize,
            "complex": int(dtype.is_complex),
            "batch": batch,
            "length": (diagonal if blocks is None else blocks).shape[1],
            "dim": dim,
            "columns": columns,
            "block": 0 if blocks is None else blocks.shape[-1],
            "rank": 0 if left is None else left.shape[-1],
            "rescale": rescale,
            "read_out": readout is not None,
        }

    def cost(self) -> int:
        """Of each step's product."""
        width = max(1, self.block, self.rank)
        return self.batch * self.length * self.dim * self.columns * width

    def dtype(self) -> torch.dtype:
        """Real or complex."""
        return (COMPLEX if self.complex else REAL)[self.real]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of operands and results, by whether there is a readout."""
        readout = self.read_out
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
            size = chunk_size(self.dtype(), dim, columns)
            shapes["starts"] = (-(-length // size), batch, dim, columns)
        return shapes

    def expected(self) -> dict[str, Expected]:
        """Factors are real: one for each number of a state, at the beginning of each window."""
        shape = (0,)
        if self.rescale:
            shape = (self.batch, windows(self.length, self.rescale), self.dim, self.columns)
        return super().expected() | {"factors": (shape, REAL[self.real])}


KERNEL = Differentiable("given", "slicekit_given_{way}_work", Task)
"""Its setting is `rescale`, as for all recurrences."""


def chunk_size(dtype: torch.dtype, dim: int, columns: int) -> int:
    """Steps between two states that are stored where a readout is given."""
    sizes = (dtype.to_real().itemsize, int(dtype.is_complex), dim, columns)
    return function("slicekit_given_chunk")(*map(ctypes.c_int64, sizes))
