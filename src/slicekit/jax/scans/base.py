"""The problem that a scan solves, after `solve` and `propagate` have checked it.

Inside, time is the first axis: what `lax.scan` and `lax.associative_scan` go along.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from slicekit.jax.flows import Flow
from slicekit.jax.structures import Parameters, Structure, Transition


class Outer(eqx.Module):
    """u_l = left_l right_l^T, the input of matrix states such as the delta rule's k v^T.

    Args:
        left: (batch, length, dim).
        right: (batch, length, columns).
    """

    left: Array
    right: Array

    def __init__(self, left: Array, right: Array) -> None:
        """Check that both belong to the same steps."""
        if left.ndim != 3 or right.ndim != 3:
            raise ValueError(
                f"Outer got left of shape {tuple(left.shape)} and right of shape "
                f"{tuple(right.shape)}; expected (batch, length, dim) and "
                "(batch, length, columns)"
            )
        if left.shape[:2] != right.shape[:2]:
            raise ValueError(
                f"Outer got left for {tuple(left.shape[:2])} steps and right for "
                f"{tuple(right.shape[:2])} (batch, length)"
            )
        self.left, self.right = left, right

    def dense(self) -> Array:
        """(batch, length, dim, columns)."""
        return self.left[..., None] * self.right[..., None, :]


class Source(ABC):
    """Where the transitions come from; time first.

    Attributes:
        length: number of steps.
        dim: size of the state.
    """

    length: int
    dim: int

    @abstractmethod
    def steps(self) -> Any:
        """A pytree of arrays whose first axis is time, which `transition` understands."""

    @abstractmethod
    def transition(self, steps: Any) -> Transition:
        """The transitions of some steps: leading shape (batch,), or (steps, batch) for many."""

    def prepared(self) -> "Source":
        """The same, with all that is needed once made for all steps at once."""
        return self


@dataclass(frozen=True, eq=False)
class FromPath(Source):
    """Transitions are made by a flow, from what its steps say of a path: (length, batch, ...)."""

    structure: Structure
    flow: Flow
    parameters: Parameters

    @abstractmethod
    def steps(self) -> Array:
        """One array, whose first axis is time."""

    @property
    def length(self) -> int:  # type: ignore[override]
        """Number of steps."""
        return self.steps().shape[0]

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Size of the state."""
        return self.structure.dim


@dataclass(frozen=True, eq=False)
class FromIncrements(FromPath):
    """Transitions are made from increments (length, batch, channels)."""

    increments: Array

    def steps(self) -> Array:
        """The increments."""
        return self.increments

    def transition(self, steps: Any) -> Transition:
        """By the flow."""
        return self.flow.transition(self.structure, self.parameters, steps)

    def prepared(self) -> "FromTransitions":
        """One product for the transitions of all steps, instead of one a step."""
        return FromTransitions(self.transition(self.increments))


@dataclass(frozen=True, eq=False)
class FromTokens(FromPath):
    """Transitions are made from rows of a table of increments, by an index (length, batch)."""

    table: Array
    index: Array

    def steps(self) -> Array:
        """The index."""
        return self.index

    def transition(self, steps: Any) -> Transition:
        """Rows of the table of transitions."""
        return self.prepared().transition(steps)

    def prepared(self) -> "FromTable":
        """The transition of every token, made once."""
        rows = self.flow.transition(self.structure, self.parameters, self.table)
        return FromTable(rows, self.index)


@dataclass(frozen=True, eq=False)
class FromTable(Source):
    """Transitions are rows of a table (vocabulary, ...), by an index (length, batch)."""

    table: Transition
    index: Array

    @property
    def length(self) -> int:  # type: ignore[override]
        """Number of steps."""
        return self.index.shape[0]

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Size of the state."""
        return self.table.dim

    def steps(self) -> Any:
        """The index."""
        return self.index

    def transition(self, steps: Any) -> Transition:
        """Rows of the table."""
        return self.table.map(lambda x: x[steps])


@dataclass(frozen=True, eq=False)
class FromTransitions(Source):
    """Transitions that are there, with leading shape (length, batch)."""

    transitions: Transition

    @property
    def length(self) -> int:  # type: ignore[override]
        """Number of steps."""
        return self.transitions.arrays()[0].shape[0]

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Size of the state."""
        return self.transitions.dim

    def steps(self) -> Any:
        """The stepwise arrays."""
        return self.transitions.arrays()[: self.transitions.stepwise_count()]

    def transition(self, steps: Any) -> Transition:
        """Those arrays with the shared ones."""
        shared = self.transitions.arrays()[self.transitions.stepwise_count() :]
        return self.transitions.with_arrays((*steps, *shared))


class Recurrence(NamedTuple):
    """h_{l+1} = M_l h_l + u_l, to be run over all steps.

    Attributes:
        source: where the transitions M_l come from.
        state: h_0, (batch, dim, columns).
        inputs: u_l, dense (length, batch, dim, columns), or outer products (left, right), or None.
        readout: q_l (length, batch, dim); outputs are then q_l^T h_{l+1} instead of the states.
        projective: whether states may be divided by positive numbers on the way.
    """

    source: Source
    state: Array
    inputs: Array | tuple[Array, Array] | None = None
    readout: Array | None = None
    projective: bool = False


class Solution(NamedTuple):
    """What a scan returns.

    Attributes:
        outputs: states (length, batch, dim, columns), or what a readout made of them,
            (length, batch, columns); of projective recurrences the directions of the states.
        last: the last of them, (batch, dim, columns).
        log_norm: for projective recurrences (length, batch, columns); None otherwise.
    """

    outputs: Array
    last: Array
    log_norm: Array | None = None


class Scan(ABC):
    """A policy: how the steps of a recurrence are put together."""

    citations: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def run(self, recurrence: Recurrence) -> Solution:
        """Run all steps."""


def dense_inputs(inputs: Array | tuple[Array, Array] | None) -> Array | None:
    """u (..., dim, columns) from what a recurrence holds."""
    if isinstance(inputs, tuple):
        left, right = inputs
        return left[..., None] * right[..., None, :]
    return inputs


def contract(readout: Array, states: Array) -> Array:
    """q^T H for q (..., dim) and H (..., dim, columns): (..., columns)."""
    return jnp.einsum("...i,...ij->...j", readout, states)
