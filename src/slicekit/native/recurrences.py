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

`GIVEN` takes one setting, `rescale`: steps between two divisions of the state by the power of two
below its size, 0 for none. The others take one too, `Steps`. Their operands end with the initial
state (batch, dim, columns) and the inputs (batch, length, dim, columns) or None, and of those with
increments with lengths (batch,) or None, past which nothing drives. They give the states (batch,
length, dim, columns), the factors by which these were divided at the beginning of every window,
(batch, windows, columns), or nothing, which count as constants; the last state; and directions.
"""

import ctypes
from typing import Any, ClassVar, NamedTuple

import torch

from slicekit.native.kernel import (
    COMPLEX,
    HALF,
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
LENGTHS = {"lengths": "batch"}
COTANGENTS = ("in_states", "in_last")


class Steps(NamedTuple):
    """How a recurrence takes its steps.

    Attributes:
        rescale: steps between two divisions of the state; 0 for none.
        half: whether increments, states, directions and the gradients of these are bfloat16, and
            all else float32; not with inputs or several columns.
        directed: whether directions of the states are asked for: then the gradients of states that
            go in are those of directions; not with inputs or several columns.
        pace: if not 0, increments are pace (1, values), and the values are given.
        still: whether the first position drives nothing, so that its state is the initial one.
    """

    rescale: int = 0
    half: bool = False
    directed: bool = False
    pace: float = 0.0
    still: bool = False


class Recurrence(Task):
    """A recurrence of states (batch, dim, columns)."""

    settings = ("steps",)
    results: ClassVar = {"states": STATES, "factors": "0", "last": "0", "directions": "0"}
    cotangents, whole = COTANGENTS, ("places", "index", "lengths")
    halves: ClassVar = ("states", "directions")

    @classmethod
    def sizes_of(cls, *given: Any, **_: Any) -> dict[str, Any]:
        """With those of the steps."""
        sizes = super().sizes_of(*given)
        steps = sizes.pop("steps")._asdict()
        sizes |= {name: value for name, value in steps.items() if hasattr(cls, name)}
        sizes["real"] = 4 if steps["half"] else sizes["real"]
        return sizes

    @classmethod
    def shapes(cls, sizes: Any) -> dict[str, tuple[int, ...]]:
        """Of factors there is one for each column, at the beginning of each window."""
        shapes = super().shapes(sizes)
        if sizes.rescale:
            shapes["factors"] = (sizes.batch, windows(sizes.length, sizes.rescale), sizes.columns)
        if sizes.directed:
            shapes["directions"] = shapes["states"]
        return shapes | {"last": shapes["state"]}

    def expected(self) -> dict[str, Expected]:
        """Some may be in half precision."""
        expected = super().expected()
        halves = (*self.halves, "in_states", "in_increments") if self.half else ()
        return expected | {name: (expected[name][0], HALF) for name in halves if name in expected}


class ByIncrements(Recurrence):
    """What the structs of kernels that take increments begin with."""

    halves: ClassVar = ("increments", *Recurrence.halves)
    _fields_: ClassVar = [
        *sizes("real", "batch", "length", "channels", "dim", "columns", "rescale", "threads"),
        *sizes("still", "half", "directed"),
        ("pace", ctypes.c_double),
        *addresses("lengths", "increments", "state", "inputs"),
        *addresses("states", "directions", "last", "factors"),
        *addresses(*COTANGENTS, "in_increments", "in_state", "in_inputs"),
        *WORK,
    ]

    @classmethod
    def sizes_of(cls, *given: Any, **_: Any) -> dict[str, Any]:
        """With a pace there is one more channel."""
        sizes = super().sizes_of(*given)
        return sizes | {"channels": sizes["channels"] + bool(sizes["pace"])}

    @classmethod
    def shapes(cls, sizes: Any) -> dict[str, tuple[int, ...]]:
        """Of increments, as they are given."""
        shapes = super().shapes(sizes)
        given = (sizes.batch, sizes.length, sizes.channels - bool(sizes.pace))
        return shapes | {"increments": given}


class Sparse(ByIncrements):
    """slicekit_sparse of slicekit_sparse.h; the library looks at each place.

    A number takes about eight times as long as one of a matrix product.
    """

    operands: ClassVar = {
        "increments": INCREMENTS,
        "values": "kept",
        "places": "kept",
        **DRIVEN,
        **LENGTHS,
    }
    multiplications = "8 batch length columns kept"
    _fields_: ClassVar = [*sizes("kept"), *addresses("values", "places", "in_values")]


FACTORS = {"diagonal": "channels dim", "left": "channels dim rank", "right": "channels dim rank"}


class SharedFactors(ByIncrements):
    """slicekit_shared_factors of slicekit_shared_factors.h."""

    operands: ClassVar = {"increments": INCREMENTS, **FACTORS, **DRIVEN, **LENGTHS}
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
    multiplications = "batch length columns dim dim"
    _fields_: ClassVar = [
        *sizes("real", "batch", "length", "dim", "columns", "vocabulary", "rescale", "threads"),
        *sizes("half", "directed"),
        *addresses(*operands, "states", "directions", "last", "factors"),
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
