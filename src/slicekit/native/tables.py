"""Tokens: A_v = Σ_i Δω_v^i A^i once for each of them, and h_{l+1} = h_l + A_v h_l + u_l.

`Table` runs the recurrence with the dense matrix of the token v of step l; `sparse_sums` makes the
matrices where the A^i are sparse. See native/include/slicekit_table.h and slicekit_sparse_table.h,
which these mirror.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import WORK, Kernel, addresses, plain, sizes, windows
from slicekit.native.threads import threads

SIZES = ("real", "batch", "length", "dim", "columns", "vocabulary", "rescale", "threads")
ARRAYS = ("matrices", "index", "state", "inputs", "states", "factors")
GRADIENTS = ("in_states", "in_last", "in_matrices", "in_state", "in_inputs")


TABLE = Kernel("table", "slicekit_table_workspace", told=True)


class _Table(kernel.Task):
    """slicekit_table of slicekit_table.h."""

    _fields_: ClassVar = [*sizes(*SIZES), *addresses(*ARRAYS, *GRADIENTS), *WORK]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of matrices, states and factors."""
        batch, length, dim, columns = self.batch, self.length, self.dim, self.columns
        shapes: dict[str, tuple[int, ...]] = {
            "matrices": (self.vocabulary, dim, dim),
            **dict.fromkeys(("state", "last"), (batch, dim, columns)),
            **dict.fromkeys(("states", "inputs"), (batch, length, dim, columns)),
            "factors": (0,),
        }
        if self.rescale:
            shapes["factors"] = (batch, windows(length, self.rescale), columns)
        return shapes

    def whole(self) -> dict[str, tuple[int, ...]]:
        """The tokens."""
        return {"index": (self.batch, self.length)}


@dataclass(frozen=True, eq=False)
class Table:
    """A problem, with tensors of one dtype on the CPU: each is checked before it is used.

    Attributes:
        matrices: A_v, (vocabulary, dim, dim).
        index: (batch, length), int64.
        state: (batch, dim, columns).
        inputs: (batch, length, dim, columns) or None.
        rescale: steps between two divisions of the state by the power of two below its size; 0 for
            none.
    """

    matrices: Tensor
    index: Tensor
    state: Tensor
    inputs: Tensor | None
    rescale: int

    def forward(self) -> tuple[Tensor, Tensor]:
        """Run all steps.

        Returns:
            The states (batch, length, dim, columns) and the factors by which they were divided at
            the beginning of every window, (batch, windows, columns), or nothing.

        Raises:
            RuntimeError: if the kernel refuses what it is given.
        """
        states = self.state.new_empty(self._states())
        factors = self.state.new_empty(self._factors())
        self._call("forward", {"states": states, "factors": factors})
        return states, factors

    def backward(
        self, states: Tensor, factors: Tensor, in_states: Tensor, in_last: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Gradients of the matrices, the state and the inputs; the factors count as constants.

        Args:
            states, factors: what `forward` returned.
            in_states, in_last: gradients of the states and the last one.

        Raises:
            RuntimeError: if the kernel refuses what it is given.
        """
        in_matrices, in_state = (torch.empty_like(plain(x)) for x in (self.matrices, self.state))
        in_inputs = None if self.inputs is None else self.state.new_empty(self._states())
        if not self.index.numel():
            in_matrices.zero_()
        given = {"states": states, "factors": factors, "in_states": in_states, "in_last": in_last}
        made = {"in_matrices": in_matrices, "in_state": in_state, "in_inputs": in_inputs}
        self._call("backward", {name: plain(x) for name, x in given.items()} | made)
        return in_matrices, in_state, in_inputs

    def _states(self) -> tuple[int, ...]:
        return (*self.index.shape, *self.state.shape[1:])

    def _factors(self) -> tuple[int, ...]:
        batch, length = self.index.shape
        rows = (batch, windows(length, self.rescale or 1), self.state.shape[-1])
        return rows if self.rescale else (0,)

    def _call(self, way: str, arrays: dict[str, Tensor | None]) -> None:
        batch, length = self.index.shape
        dim, columns = self.state.shape[1:]
        team = threads(self.state.numel() * length * dim)
        given = (self.state.element_size(), batch, length, dim, columns)
        problem = _Table(*given, self.matrices.shape[0], self.rescale, team)
        held = {
            "matrices": plain(self.matrices),
            "index": plain(self.index),
            "state": plain(self.state),
            "inputs": None if self.inputs is None else plain(self.inputs),
        }
        TABLE.call(way, problem, held | arrays)


SPARSE_SIZES = ("real", "vocabulary", "channels", "dim", "kept", "threads")
SPARSE_ARRAYS = (
    "values",
    "places",
    "increments",
    "matrices",
    "in_matrices",
    "in_values",
    "in_increments",
)


SPARSE_TABLE = Kernel("sparse_table", "slicekit_sparse_table_workspace", told=True)


class _SparseTable(kernel.Task):
    """slicekit_sparse_table of slicekit_sparse_table.h."""

    _fields_: ClassVar = [*sizes(*SPARSE_SIZES), *addresses(*SPARSE_ARRAYS), *WORK]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of values, table and matrices."""
        return {
            "values": (self.kept,),
            "increments": (self.vocabulary, self.channels),
            "matrices": (self.vocabulary, self.dim, self.dim),
        }

    def whole(self) -> dict[str, tuple[int, ...]]:
        """Places."""
        return {"places": (self.kept,)}


def sparse_sums(values: Tensor, places: Tensor, increments: Tensor, matrices: Tensor) -> None:
    """Write the matrices (vocabulary, dim, dim).

    Args:
        values: (kept,).
        places: (kept,) ascending, into (channels, dim, dim).
        increments: (vocabulary, channels).
        matrices: where to.

    Raises:
        RuntimeError: if the kernel refuses what it is given.
    """
    _call_sparse("forward", values, places, increments, matrices.shape[-1], {"matrices": matrices})


def pull_sparse_sums(
    values: Tensor, places: Tensor, increments: Tensor, in_matrices: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the values and the increments from those of the matrices.

    Raises:
        RuntimeError: if the kernel refuses what it is given.
    """
    in_values, in_increments = torch.empty_like(values), torch.empty_like(plain(increments))
    arrays = {"in_values": in_values, "in_increments": in_increments}
    given = arrays | {"in_matrices": plain(in_matrices)}
    _call_sparse("backward", values, places, increments, in_matrices.shape[-1], given)
    return in_values, in_increments


def _call_sparse(
    way: str,
    values: Tensor,
    places: Tensor,
    increments: Tensor,
    dim: int,
    arrays: dict[str, Tensor],
) -> None:
    vocabulary, channels = increments.shape
    kept = values.numel()
    team = threads(kept * vocabulary)
    problem = _SparseTable(values.element_size(), vocabulary, channels, dim, kept, team)
    held = {"values": values, "places": places, "increments": increments}
    held = {name: plain(x) for name, x in held.items()}
    SPARSE_TABLE.call(way, problem, held | arrays)
