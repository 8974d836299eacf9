"""Kernels of their own for two kinds of A: h_{l+1} = h_l + Σ_i Δω_l^i A^i h_l + u_l.

- `SPARSE`, by kept entries: values (kept,), and places (kept,) ascending into (channels, dim, dim);
- `SHARED_FACTORS`, Σ_i Δω^i A^i = d + U w V^T: diagonal (channels, dim), left and right
  (channels, dim, rank).

A kernel's C struct begins with the sizes and arrays of `Problem`, and ends with its parameters; see
native/include/slicekit_sparse.h and slicekit_shared_factors.h, which these mirror.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import WORK, Kernel, addresses, sizes, windows
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

    @cached_property
    def kernel(self) -> Kernel:
        """How it is called."""
        return Kernel(self.scan, f"slicekit_{self.scan}_workspace", told=True)


@dataclass(frozen=True, eq=False)
class Increments:
    """A recurrence of such a kernel, with tensors of one dtype on the CPU.

    Attributes:
        by: the kernel.
        parameters: by name.
        increments: (batch, length, channels).
        state: (batch, dim, columns), the initial one.
        inputs: (batch, length, dim, columns), or None.
        rescale: steps between two divisions of the state by the power of two below its size; 0 for
            none.

    Both passes raise RuntimeError if the kernel refuses what it is given.
    """

    by: IncrementKernel
    parameters: dict[str, Tensor]
    increments: Tensor
    state: Tensor
    inputs: Tensor | None
    rescale: int

    def _problem(self) -> tuple[Problem, dict[str, Tensor | None]]:
        """The sizes, and what is given, under the struct's names."""
        by, state = self.by, self.state
        held = {name: self.parameters[name] for name in by.names}
        batch, length, channels = self.increments.shape
        numbers = sum(held[name].numel() for name in by.trained)
        team = threads(batch * length * state.shape[-1] * numbers * by.effort)
        given = (state.element_size(), batch, length, channels, *state.shape[1:])
        problem = by.struct(**dict(zip(SIZES, (*given, self.rescale, team), strict=True)))
        problem.measure(held)
        arrays = {"increments": self.increments, "state": state, "inputs": self.inputs}
        return problem, held | arrays

    def forward(self) -> tuple[Tensor, Tensor, Tensor]:
        """Run all steps.

        Returns:
            The states (batch, length, dim, columns), the last one, and the factors by which they
            were divided at the beginning of every window, (batch, windows, columns), or nothing.
        """
        made = self.by.kernel.make("forward", *self._problem(), ("states", "last", "factors"))
        return made["states"], made["last"], made["factors"]

    def backward(
        self, states: Tensor, factors: Tensor, in_states: Tensor, in_last: Tensor
    ) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor | None]:
        """Gradients from those of the states and the last one; the factors count as constants.

        Args:
            states, factors: what `forward` returned.
            in_states, in_last: gradients of the states and the last one.

        Returns:
            Gradients of the trained parameters by name, of the increments, the state, and the
            inputs (None if there are none).
        """
        problem, given = self._problem()
        given |= {"states": states, "factors": factors}
        given |= {"in_states": in_states, "in_last": in_last}
        driven = () if self.inputs is None else ("inputs",)
        names = [f"in_{name}" for name in (*self.by.trained, "increments", "state", *driven)]
        made = self.by.kernel.make("backward", problem, given, names)
        gradients = {name: made[f"in_{name}"] for name in self.by.trained}
        return gradients, made["in_increments"], made["in_state"], made.get("in_inputs")


SPARSE = IncrementKernel("sparse", _Sparse, ("values", "places"), ("values",), effort=8)
SHARED_FACTORS = IncrementKernel("shared_factors", _SharedFactors, FACTORS, FACTORS)
