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


class Task(kernel.Task):
    """`slicekit_given` of slicekit_given.h; `read_out` says whether there is a readout."""

    operands: ClassVar = {
        "diagonal": "batch length dim",
        "blocks": "",
        "left": "batch length dim rank",
        "right": "batch length dim rank",
        "state": "batch dim columns",
        "input": "batch length dim columns",
        "input_left": "batch length dim",
        "input_right": "batch length columns",
        "readout": "batch length dim",
    }
    results: ClassVar = {"outputs": "", "last": "batch dim columns", "factors": "0", "starts": "0"}
    cotangents = ("in_outputs", "in_last")
    _fields_: ClassVar = fields(
        "kind real complex batch length dim columns block rank rescale threads",
        *(operands, results, cotangents),
    )
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

    @classmethod
    def cost(cls, sizes: Any) -> int:
        """Of each step's product."""
        width = max(1, sizes.block, sizes.rank)
        return sizes.batch * sizes.length * sizes.dim * sizes.columns * width

    def dtype(self) -> torch.dtype:
        """Real or complex."""
        return (COMPLEX if self.complex else REAL)[self.real]

    @classmethod
    def shapes(cls, sizes: Any) -> dict[str, tuple[int, ...]]:
        """Of factors there is one for each number of a state, at the beginning of each window."""
        state, block = (sizes.batch, sizes.dim, sizes.columns), max(1, sizes.block)
        shapes = super().shapes(sizes)
        shapes["blocks"] = (sizes.batch, sizes.length, sizes.dim // block, block, block)
        shapes["outputs"] = shapes["input_right" if sizes.read_out else "input"]
        if sizes.rescale:
            shapes["factors"] = (sizes.batch, windows(sizes.length, sizes.rescale), *state[1:])
        if sizes.read_out:
            dtype = (COMPLEX if sizes.complex else REAL)[sizes.real]
            chunks = -(-sizes.length // chunk_size(dtype, *state[1:]))
            shapes["starts"] = (chunks, *state)
        return shapes

    def expected(self) -> dict[str, Expected]:
        """Factors are real."""
        expected = super().expected()
        return expected | {"factors": (expected["factors"][0], REAL[self.real])}


KERNEL = Differentiable("given", "slicekit_given_{way}_work", Task)
"""Its setting is `rescale`, as for all recurrences."""


def chunk_size(dtype: torch.dtype, dim: int, columns: int) -> int:
    """Steps between two states that are stored where a readout is given."""
    sizes = (dtype.to_real().itemsize, int(dtype.is_complex), dim, columns)
    return function("slicekit_given_chunk")(*map(ctypes.c_int64, sizes))
