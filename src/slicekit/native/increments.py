"""Kernels of their own for two kinds of A: h_{l+1} = h_l + Σ_i Δω_l^i A^i h_l + u_l.

- `SPARSE`, by kept entries: values (kept,), and places (kept,) ascending into (channels, dim, dim);
- `SHARED_FACTORS`, Σ_i Δω^i A^i = d + U w V^T: diagonal (channels, dim), left and right
  (channels, dim, rank).

A kernel's C struct begins with the sizes and arrays of `Problem`, and ends with its parameters; see
native/include/slicekit_sparse.h and slicekit_shared_factors.h, which these mirror.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import WORK, Kernel, addresses, plain, sizes, windows
from slicekit.native.threads import threads

SIZES = ("real", "batch", "length", "channels", "dim", "columns", "rescale", "threads")
ARRAYS = ("increments", "state", "inputs", "states", "last", "factors")
GRADIENTS = ("in_states", "in_last", "in_increments", "in_state", "in_inputs")


class Problem(kernel.Task):
    """What both C structs begin with."""

    _fields_: ClassVar = [*sizes(*SIZES), *addresses(*ARRAYS, *GRADIENTS), *WORK]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of increments, states, factors and parameters."""
        state = (self.batch, self.dim, self.columns)
        steps = (self.batch, self.length, self.dim, self.columns)
        shapes: dict[str, tuple[int, ...]] = {
            "increments": (self.batch, self.length, self.channels),
            **dict.fromkeys(("state", "last"), state),
            **dict.fromkeys(("inputs", "states"), steps),
            "factors": (0,),
        }
        if self.rescale:
            shapes["factors"] = (self.batch, windows(self.length, self.rescale), self.columns)
        return shapes | self.parameters()

    @abstractmethod
    def parameters(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the kernel's own floating arrays."""

    @abstractmethod
    def measure(self, parameters: dict[str, Tensor]) -> None:
        """Set what the struct says of the parameters' sizes."""


class _Sparse(Problem):
    """slicekit_sparse of slicekit_sparse.h."""

    _fields_: ClassVar = [*sizes("kept"), *addresses("values", "places", "in_values")]

    def parameters(self) -> dict[str, tuple[int, ...]]:
        return {"values": (self.kept,)}

    def measure(self, parameters: dict[str, Tensor]) -> None:
        self.kept = parameters["values"].numel()

    def whole(self) -> dict[str, tuple[int, ...]]:
        """Places; the library looks at each of them."""
        return {"places": (self.kept,)}


FACTORS = ("diagonal", "left", "right")


class _SharedFactors(Problem):
    """slicekit_shared_factors of slicekit_shared_factors.h."""

    _fields_: ClassVar = [
        *sizes("rank"),
        *addresses(*FACTORS, *(f"in_{name}" for name in FACTORS)),
    ]

    def parameters(self) -> dict[str, tuple[int, ...]]:
        factors = (self.channels, self.dim, self.rank)
        return {"diagonal": factors[:2], "left": factors, "right": factors}

    def measure(self, parameters: dict[str, Tensor]) -> None:
        self.rank = parameters["left"].shape[-1]


def outputs(increments: Tensor, state: Tensor, rescale: int) -> tuple[Tensor, Tensor, Tensor]:
    """Room for all states, the last one and the factors."""
    batch, length, _ = increments.shape
    _, dim, columns = state.shape
    states = state.new_empty(batch, length, dim, columns)
    shape = (batch, windows(length, rescale), columns) if rescale else (0,)
    return states, torch.empty_like(state), state.new_empty(shape)


@dataclass(frozen=True)
class IncrementKernel:
    """A kernel that makes its transitions from increments and parameters of its own.

    Attributes:
        scan: its name among the functions of the library.
        struct: its C struct.
        names: of its parameters, as the struct and the structure call them.
        trained: those of them that have gradients.
        effort: about how much longer a number takes than one of a matrix product.
    """

    scan: str
    struct: type[Problem]
    names: tuple[str, ...]
    trained: tuple[str, ...]
    effort: int = 1

    def _call(self, way: str, problem: Problem, arrays: dict[str, Tensor | None]) -> None:
        Kernel(self.scan, f"slicekit_{self.scan}_workspace", told=True).call(way, problem, arrays)

    def problem(
        self, parameters: dict[str, Tensor], increments: Tensor, state: Tensor, rescale: int
    ) -> tuple[Problem, dict[str, Tensor]]:
        """The problem, and the tensors that it points to."""
        held = {name: plain(parameters[name]) for name in self.names}
        batch, length, channels = increments.shape
        numbers = sum(held[name].numel() for name in self.trained)
        team = threads(batch * length * state.shape[-1] * numbers * self.effort)
        given = (state.element_size(), batch, length, channels, *state.shape[1:], rescale, team)
        problem = self.struct(**dict(zip(SIZES, given, strict=True)))
        problem.measure(held)
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
        made = {"states": states, "last": last, "factors": factors}
        driven = {} if inputs is None else {"inputs": plain(inputs)}
        self._call("forward", problem, {**held, **made, **driven})
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
        given = {"states": states, "factors": factors, "in_states": in_states, "in_last": in_last}
        given = {name: plain(x) for name, x in given.items()}
        gradients = {name: torch.empty_like(held[name]) for name in self.trained}
        in_increments, in_state = (torch.empty_like(held[x]) for x in ("increments", "state"))
        in_inputs = None if inputs is None else torch.empty_like(given["in_states"])
        made = {f"in_{name}": x for name, x in gradients.items()}
        rest = {"in_increments": in_increments, "in_state": in_state, "in_inputs": in_inputs}
        self._call("backward", problem, {**held, **given, **made, **rest})
        return gradients, in_increments, in_state, in_inputs


SPARSE = IncrementKernel("sparse", _Sparse, ("values", "places"), ("values",), effort=8)
SHARED_FACTORS = IncrementKernel("shared_factors", _SharedFactors, FACTORS, FACTORS)
