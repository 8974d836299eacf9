"""Recurrences with kernels of their own: h_{l+1} = h_l + A_l h_l + u_l, or h_{l+1} = M_l h_l + u_l.

- `SPARSE`, A_l = Σ_i Δω_l^i A^i by kept entries: values (kept,), and places (kept,) ascending into
  (channels, dim, dim);
- `SHARED_FACTORS`, A_l = Σ_i Δω_l^i A^i = d + U w V^T: diagonal (channels, dim), left and right
  (channels, dim, rank);
- `TABLE`, A_l the dense matrix of the token of step l: matrices (vocabulary, dim, dim), and index
  (batch, length);
- `GIVEN`, M_l given: diagonal, real or complex, or blocks or low-rank, real. It takes inputs that
  are outer products, and a readout.

`SPARSE_SUMS` makes the matrices A_v = Σ_i Δω_v^i A^i of a table where the A^i are sparse. The
structs mirror those of native/include/slicekit_sparse.h, slicekit_shared_factors.h,
slicekit_table.h, slicekit_sparse_table.h and slicekit_given.h.

The recurrences take one setting, `rescale`: steps between two divisions of the state by the power
of two below its size, 0 for none. But for `GIVEN`, their operands end with the initial state
(batch, dim, columns) and the inputs (batch, length, dim, columns) or None, and they give the states
(batch, length, dim, columns) and the factors by which these were divided at the beginning of every
window, (batch, windows, columns), or nothing; the factors count as constants.
"""

import ctypes
from typing import Any, ClassVar

import torch

from slicekit.native.kernel import (
    COMPLEX,
    REAL,
    WORK,
    Differentiable,
    Expected,
    Kind,
    Task,
    addresses,
    fields,
    function,
    sizes,
    windows,
)

INCREMENTS, STATES = "batch length channels", "batch length dim columns"
DRIVEN = {"state": "batch dim columns", "inputs": STATES}
COTANGENTS = ("in_states", "in_last")


class Recurrence(Task):
    """A recurrence of states (batch, dim, columns)."""

    settings = ("rescale",)
    results: ClassVar = {"states": STATES, "factors": "0", "last": "batch dim columns"}
    cotangents, whole = COTANGENTS, ("places", "index")

    @classmethod
    def shapes(cls, sizes: Any) -> dict[str, tuple[int, ...]]:
        """Of factors there is one for each column, at the beginning of each window."""
        shapes = super().shapes(sizes)
        if sizes.rescale:
            shapes["factors"] = (sizes.batch, windows(sizes.length, sizes.rescale), sizes.columns)
        return shapes | {"last": shapes["state"]}


class ByIncrements(Recurrence):
    """What the structs of kernels that take increments begin with."""

    _fields_: ClassVar = [
        *sizes("real", "batch", "length", "channels", "dim", "columns", "rescale", "threads"),
        *addresses("increments", "state", "inputs", "states", "last", "factors"),
        *addresses(*COTANGENTS, "in_increments", "in_state", "in_inputs"),
        *WORK,
    ]


class Sparse(ByIncrements):
    """slicekit_sparse of slicekit_sparse.h; the library looks at each place.

    A number takes about eight times as long as one of a matrix product.
    """

    operands: ClassVar = {"increments": INCREMENTS, "values": "kept", "places": "kept", **DRIVEN}
    multiplications = "8 batch length columns kept"
    _fields_: ClassVar = [*sizes("kept"), *addresses("values", "places", "in_values")]


FACTORS = {"diagonal": "channels dim", "left": "channels dim rank", "right": "channels dim rank"}


class SharedFactors(ByIncrements):
    """slicekit_shared_factors of slicekit_shared_factors.h."""

    operands: ClassVar = {"increments": INCREMENTS, **FACTORS, **DRIVEN}
    _fields_: ClassVar = [
        *sizes("rank"),
        *addresses(*FACTORS, *(f"in_{name}" for name in FACTORS)),
    ]

    @classmethod
    def cost(cls, sizes: Any) -> int:
        """A product with each factor."""
        numbers = sizes.channels * sizes.dim * (1 + 2 * sizes.rank)
        return sizes.batch * sizes.length * sizes.columns * numbers


class Table(Recurrence):
    """slicekit_table of slicekit_table.h."""

    operands: ClassVar = {"matrices": "vocabulary dim dim", "index": "batch length", **DRIVEN}
    results: ClassVar = {"states": STATES, "factors": "0"}
    multiplications = "batch length columns dim dim"
    _fields_: ClassVar = [
        *sizes("real", "batch", "length", "dim", "columns", "vocabulary", "rescale", "threads"),
        *addresses(*operands, *results),
        *addresses(*COTANGENTS, "in_matrices", "in_state", "in_inputs"),
        *WORK,
    ]


class SparseSums(Task):
    """slicekit_sparse_table of slicekit_sparse_table.h; the batch are the rows of the table."""

    settings = ("dim",)
    operands: ClassVar = {"values": "kept", "places": "kept", "increments": "batch channels"}
    results: ClassVar = {"matrices": "batch dim dim"}
    cotangents, whole, multiplications = ("in_matrices",), ("places",), "batch kept"
    _fields_: ClassVar = [
        *sizes("real", "batch", "channels", "dim", "kept", "threads"),
        *addresses(*operands, *results, *cotangents, "in_values", "in_increments"),
        *WORK,
    ]


class Given(Task):
    """slicekit_given of slicekit_given.h; `read_out` says whether there is a readout."""

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
            chunks = -(-sizes.length // chunk_size(cls.dtype(sizes), *state[1:]))
            shapes["starts"] = (chunks, *state)
        return shapes

    def expected(self) -> dict[str, Expected]:
        """Factors are real."""
        expected = super().expected()
        return expected | {"factors": (expected["factors"][0], REAL[self.real])}


def chunk_size(dtype: torch.dtype, dim: int, columns: int) -> int:
    """Steps between two states that are stored where a readout is given."""
    sizes = (dtype.to_real().itemsize, int(dtype.is_complex), dim, columns)
    return function("slicekit_given_chunk")(*map(ctypes.c_int64, sizes))


SPARSE = Differentiable("sparse", "workspace", Sparse, told=True)
SHARED_FACTORS = Differentiable("shared_factors", "workspace", SharedFactors, told=True)
TABLE = Differentiable("table", "workspace", Table, told=True)
SPARSE_SUMS = Differentiable("sparse_table", "workspace", SparseSums, told=True)
GIVEN = Differentiable("given", "{way}_work", Given)
