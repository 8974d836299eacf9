"""The recurrence h_{l+1} = h_l + A_v h_l + u_l with a dense matrix A_v for the token v of step l.

See native/include/slicekit_table.h, which this mirrors.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from slicekit.native import kernel
from slicekit.native.arrays import REAL, Expected, plain
from slicekit.native.kernel import WORK, Kernel, addresses, sizes
from slicekit.native.threads import threads

SIZES = ("real", "batch", "length", "dim", "columns", "vocabulary", "rescale", "threads")
ARRAYS = ("matrices", "index", "state", "inputs", "states", "factors")
GRADIENTS = ("in_states", "in_last", "in_matrices", "in_state", "in_inputs")


KERNEL = Kernel("table", "slicekit_table_workspace", told=True)


class _Table(kernel.Task):
    """slicekit_table of slicekit_table.h."""

    _fields_: ClassVar = [*sizes(*SIZES), *addresses(*ARRAYS, *GRADIENTS), *WORK]

    def expected(self) -> dict[str, Expected]:
        """The shape and dtype of each array, from the sizes."""
        batch, length, dim, columns = self.batch, self.length, self.dim, self.columns
        shapes: dict[str, tuple[int, ...]] = {
            "matrices": (self.vocabulary, dim, dim),
            **dict.fromkeys(("state", "last"), (batch, dim, columns)),
            **dict.fromkeys(("states", "inputs"), (batch, length, dim, columns)),
            "factors": (0,),
        }
        if self.rescale:
            shapes["factors"] = (batch, -(-length // self.rescale), columns)
        found: dict[str, Expected] = {name: (s, REAL[self.real]) for name, s in shapes.items()}
        found |= {f"in_{name}": wanted for name, wanted in found.items()}
        return found | {"index": ((batch, length), torch.int64)}


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
        return (batch, -(-length // self.rescale), self.state.shape[-1]) if self.rescale else (0,)

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
        KERNEL.call(way, problem, held | arrays)
