"""Kernels of their own for some kinds of A: h_{l+1} = h_l + A_l h_l + u_l.

- `SPARSE`, A_l = Σ_i Δω_l^i A^i by kept entries: values (kept,), and places (kept,) ascending into
  (channels, dim, dim);
- `SHARED_FACTORS`, A_l = Σ_i Δω_l^i A^i = d + U w V^T: diagonal (channels, dim), left and right
  (channels, dim, rank);
- `TABLE`, A_l the dense matrix of the token of step l: matrices (vocabulary, dim, dim), and index
  (batch, length).

`SPARSE_SUMS` makes the matrices A_v = Σ_i Δω_v^i A^i of a table where the A^i are sparse. The
structs mirror those of native/include/slicekit_sparse.h, slicekit_shared_factors.h,
slicekit_table.h and slicekit_sparse_table.h.

The recurrences take one setting, `rescale`: steps between two divisions of the state by the power
of two below its size, 0 for none. Their operands end with the initial state (batch, dim, columns)
and the inputs (batch, length, dim, columns) or None. They give the states (batch, length, dim,
columns) and the factors by which these were divided at the beginning of every window,
(batch, windows, columns), or nothing; the factors count as constants.
"""

from typing import Any, ClassVar

from slicekit.native.kernel import WORK, Differentiable, Task, addresses, sizes, windows

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


SPARSE = Differentiable("sparse", "slicekit_sparse_workspace", Sparse, told=True)
SHARED_FACTORS = Differentiable(
    "shared_factors", "slicekit_shared_factors_workspace", SharedFactors, told=True
)
TABLE = Differentiable("table", "slicekit_table_workspace", Table, told=True)
SPARSE_SUMS = Differentiable(
    "sparse_table", "slicekit_sparse_table_workspace", SparseSums, told=True
)
