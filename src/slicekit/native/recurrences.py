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

from torch import Tensor

from slicekit.native.kernel import WORK, Differentiable, Task, addresses, sizes, windows

COTANGENTS = ("in_states", "in_last")


class Recurrence(Task):
    """A recurrence of states (batch, dim, columns)."""

    cotangents = COTANGENTS
    whole = ("places", "index")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of states and factors, and of what drives them."""
        state = (self.batch, self.dim, self.columns)
        steps = (self.batch, self.length, self.dim, self.columns)
        factors: tuple[int, ...] = (0,)
        if self.rescale:
            factors = (self.batch, windows(self.length, self.rescale), self.columns)
        return {
            **dict.fromkeys(("state", "last"), state),
            **dict.fromkeys(("inputs", "states"), steps),
            "factors": factors,
            **self.driven(),
        }

    def driven(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the kernel's own arrays."""
        raise NotImplementedError


class ByIncrements(Recurrence):
    """What the structs of kernels that take increments begin with."""

    results = ("states", "factors", "last")
    _fields_: ClassVar = [
        *sizes("real", "batch", "length", "channels", "dim", "columns", "rescale", "threads"),
        *addresses("increments", "state", "inputs", "states", "last", "factors"),
        *addresses(*COTANGENTS, "in_increments", "in_state", "in_inputs"),
        *WORK,
    ]

    @classmethod
    def sizes_of(cls, rescale: int, increments: Tensor, *given: Any) -> dict[str, Any]:
        """Of increments (batch, length, channels) and the state."""
        dim, columns = given[-2].shape[1:]
        names = ("real", "batch", "length", "channels", "dim", "columns", "rescale")
        numbers = (increments.itemsize, *increments.shape, dim, columns, rescale)
        return dict(zip(names, numbers, strict=True))


class Sparse(ByIncrements):
    """slicekit_sparse of slicekit_sparse.h."""

    operands = ("increments", "values", "places", "state", "inputs")
    _fields_: ClassVar = [*sizes("kept"), *addresses("values", "places", "in_values")]

    @classmethod
    def sizes_of(cls, rescale: int, increments: Tensor, *given: Any) -> dict[str, Any]:
        """Also of the values."""
        return {**super().sizes_of(rescale, increments, *given), "kept": given[0].numel()}

    def cost(self) -> int:
        """A number takes about eight times as long as one of a matrix product."""
        return 8 * self.batch * self.length * self.columns * self.kept

    def driven(self) -> dict[str, tuple[int, ...]]:
        """Increments, values and places; the library looks at each of these."""
        kept = (self.kept,)
        increments = (self.batch, self.length, self.channels)
        return {"increments": increments, "values": kept, "places": kept}


FACTORS = ("diagonal", "left", "right")


class SharedFactors(ByIncrements):
    """slicekit_shared_factors of slicekit_shared_factors.h."""

    operands = ("increments", *FACTORS, "state", "inputs")
    _fields_: ClassVar = [
        *sizes("rank"),
        *addresses(*FACTORS, *(f"in_{name}" for name in FACTORS)),
    ]

    @classmethod
    def sizes_of(cls, rescale: int, increments: Tensor, *given: Any) -> dict[str, Any]:
        """Also of the left factor."""
        return {**super().sizes_of(rescale, increments, *given), "rank": given[1].shape[-1]}

    def cost(self) -> int:
        """A product with each factor."""
        numbers = self.channels * self.dim * (1 + 2 * self.rank)
        return self.batch * self.length * self.columns * numbers

    def driven(self) -> dict[str, tuple[int, ...]]:
        """Increments and factors."""
        increments, factors = (self.batch, self.length), (self.channels, self.dim, self.rank)
        shapes = {"increments": (*increments, self.channels), "diagonal": factors[:2]}
        return shapes | {"left": factors, "right": factors}


class Table(Recurrence):
    """slicekit_table of slicekit_table.h."""

    operands = ("matrices", "index", "state", "inputs")
    results = ("states", "factors")
    _fields_: ClassVar = [
        *sizes("real", "batch", "length", "dim", "columns", "vocabulary", "rescale", "threads"),
        *addresses("matrices", "index", "state", "inputs", "states", "factors"),
        *addresses(*COTANGENTS, "in_matrices", "in_state", "in_inputs"),
        *WORK,
    ]

    @classmethod
    def sizes_of(
        cls, rescale: int, matrices: Tensor, index: Tensor, state: Tensor, inputs: Any
    ) -> dict[str, Any]:
        """Of matrices (vocabulary, dim, dim), index (batch, length) and the state."""
        names = ("real", "batch", "length", "dim", "columns", "vocabulary", "rescale")
        numbers = (*index.shape, *state.shape[1:], matrices.shape[0], rescale)
        return dict(zip(names, (state.itemsize, *numbers), strict=True))

    def cost(self) -> int:
        """A product with a matrix for each step."""
        return self.batch * self.length * self.columns * self.dim**2

    def driven(self) -> dict[str, tuple[int, ...]]:
        """Matrices and tokens."""
        matrices = (self.vocabulary, self.dim, self.dim)
        return {"matrices": matrices, "index": (self.batch, self.length)}


class SparseSums(Task):
    """slicekit_sparse_table of slicekit_sparse_table.h; the batch are the rows of the table."""

    operands = ("values", "places", "increments")
    results, cotangents, whole = ("matrices",), ("in_matrices",), ("places",)
    _fields_: ClassVar = [
        *sizes("real", "batch", "channels", "dim", "kept", "threads"),
        *addresses(*operands, *results, *cotangents, "in_values", "in_increments"),
        *WORK,
    ]

    @classmethod
    def sizes_of(
        cls, dim: int, values: Tensor, places: Tensor, increments: Tensor
    ) -> dict[str, Any]:
        """Of values (kept,) and increments (vocabulary, channels), for matrices of so many rows."""
        names = ("real", "batch", "channels", "dim", "kept")
        numbers = (values.itemsize, *increments.shape, dim, values.numel())
        return dict(zip(names, numbers, strict=True))

    def cost(self) -> int:
        """A product for each token and entry."""
        return self.batch * self.kept

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of values, places, table and matrices."""
        return {
            **dict.fromkeys(("values", "places"), (self.kept,)),
            "increments": (self.batch, self.channels),
            "matrices": (self.batch, self.dim, self.dim),
        }


SPARSE = Differentiable("sparse", "slicekit_sparse_workspace", Sparse, told=True)
SHARED_FACTORS = Differentiable(
    "shared_factors", "slicekit_shared_factors_workspace", SharedFactors, told=True
)
TABLE = Differentiable("table", "slicekit_table_workspace", Table, told=True)
SPARSE_SUMS = Differentiable(
    "sparse_table", "slicekit_sparse_table_workspace", SparseSums, told=True
)
