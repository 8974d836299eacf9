"""What the scans of increments hand to their kernels: sizes, addresses and work space.

A kernel's C struct begins with the sizes and arrays of `Problem`, and ends with its parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from slicekit.native import kernel
from slicekit.native.arrays import REAL, Expected, plain
from slicekit.native.kernel import WORK, Kernel, addresses, sizes
from slicekit.native.threads import threads

SIZES = ("real", "batch", "length", "channels", "dim", "columns", "rescale", "threads")
ARRAYS = ("increments", "state", "inputs", "states", "last", "factors")
GRADIENTS = ("in_states", "in_last", "in_increments", "in_state", "in_inputs")


class Problem(kernel.Task):
    """What the C structs of all scans of increments begin with."""

    _fields_: ClassVar = [*sizes(*SIZES), *addresses(*ARRAYS, *GRADIENTS), *WORK]

    def expected(self) -> dict[str, Expected]:
        """The shape and dtype of each array, from the sizes."""
        dtype = REAL[self.real]
        state = (self.batch, self.dim, self.columns)
        steps = (self.batch, self.length, self.dim, self.columns)
        shapes: dict[str, tuple[int, ...]] = {
            "increments": (self.batch, self.length, self.channels),
            **dict.fromkeys(("state", "last"), state),
            **dict.fromkeys(("inputs", "states"), steps),
            "factors": (0,),
        }
        if self.rescale:
            shapes["factors"] = (self.batch, -(-self.length // self.rescale), self.columns)
        shapes |= self.parameters()
        found: dict[str, Expected] = {name: (shape, dtype) for name, shape in shapes.items()}
        return found | {f"in_{name}": wanted for name, wanted in found.items()}

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the kernel's own arrays."""
        raise NotImplementedError


def describe(problem: Problem, increments: Tensor, state: Tensor, rescale: int) -> None:
    """Set the sizes that all scans have, from increments and initial state."""
    batch, length, channels = increments.shape
    sizes = (state.element_size(), batch, length, channels, *state.shape[1:], rescale)
    team = threads(state.numel() * length * channels)
    for name, size in zip(SIZES, (*sizes, team), strict=True):
        setattr(problem, name, size)


def outputs(increments: Tensor, state: Tensor, rescale: int) -> tuple[Tensor, Tensor, Tensor]:
    """Room for all states, the last one and the factors."""
    batch, length, _ = increments.shape
    _, dim, columns = state.shape
    states = state.new_empty(batch, length, dim, columns)
    shape = (batch, -(-length // rescale), columns) if rescale else (0,)
    factors = state.new_empty(shape)
    return states, torch.empty_like(state), factors


@dataclass(frozen=True)
class IncrementKernel:
    """A kernel that makes its transitions from increments and parameters of its own.

    Attributes:
        scan: its name among the functions of the library.
        struct: its C struct.
        names: of its parameters, as the struct and the structure call them.
        trained: those of them that have gradients.
        size: sets what the struct says of the parameters' sizes.
    """

    scan: str
    struct: type[Problem]
    names: tuple[str, ...]
    trained: tuple[str, ...]
    size: Callable[[Any, dict[str, Tensor]], None]

    def _kernel(self) -> Kernel:
        return Kernel(self.scan, f"slicekit_{self.scan}_workspace", told=True)

    def problem(
        self, parameters: dict[str, Tensor], increments: Tensor, state: Tensor, rescale: int
    ) -> tuple[Problem, dict[str, Tensor]]:
        """The problem, and the tensors that it points to."""
        problem = self.struct()
        describe(problem, increments, state, rescale)
        held = {name: plain(parameters[name]) for name in self.names}
        self.size(problem, held)
        return problem, held | {"increments": plain(increments), "state": plain(state)}

    def forward(
        self,
        parameters: dict[str, Tensor],
        increments: Tensor,
        state: Tensor,
        inputs: Tensor | None,
        rescale: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """All states of the recurrence.

        Args:
            parameters: by name.
            increments: (batch, length, channels).
            state: (batch, dim, columns), the initial one.
            inputs: (batch, length, dim, columns), or None.
            rescale: steps between two divisions of the state by the power of two below its size;
                0 for none.

        Returns:
            The states (batch, length, dim, columns), the last one, and the factors by which they
            were divided at the beginning of every window, (batch, windows, columns), or nothing.

        Raises:
            RuntimeError: if the kernel refuses what it is given.
        """
        problem, held = self.problem(parameters, increments, state, rescale)
        states, last, factors = outputs(increments, held["state"], rescale)
        held |= {"states": states, "last": last, "factors": factors}
        if inputs is not None:
            held["inputs"] = plain(inputs)
        self._kernel().call("forward", problem, held)
        return states, last, factors

    def backward(
        self,
        parameters: dict[str, Tensor],
        increments: Tensor,
        state: Tensor,
        inputs: Tensor | None,
        rescale: int,
        states: Tensor,
        factors: Tensor,
        in_states: Tensor,
        in_last: Tensor,
    ) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor | None]:
        """Gradients from those of the states and the last one; the factors count as constants.

        Args:
            parameters, increments, state, inputs, rescale: as in `forward`.
            states, factors: what it returned.
            in_states, in_last: gradients of the states and the last one.

        Returns:
            Gradients of the trained parameters by name, of the increments, the state, and the
            inputs (None if there are none).

        Raises:
            RuntimeError: if the kernel refuses what it is given.
        """
        problem, held = self.problem(parameters, increments, state, rescale)
        given = {
            "states": plain(states),
            "factors": plain(factors),
            "in_states": plain(in_states),
            "in_last": plain(in_last),
        }
        found = {name: torch.empty_like(held[name]) for name in self.trained}
        in_increments = torch.empty_like(held["increments"])
        in_state = torch.empty_like(held["state"])
        in_inputs = None if inputs is None else torch.empty_like(given["in_states"])
        given |= {f"in_{name}": x for name, x in found.items()}
        rest = {"in_increments": in_increments, "in_state": in_state, "in_inputs": in_inputs}
        self._kernel().call("backward", problem, {**held, **given, **rest})
        return found, in_increments, in_state, in_inputs
