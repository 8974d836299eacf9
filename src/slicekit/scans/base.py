"""The problem that a scan solves, after `solve` and `propagate` have checked it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from slicekit.scans.inputs import Outer
from slicekit.scans.sources import Source

KEEP_BYTES = 32 * 2**20
"""Transitions up to this size in all are kept for the backward pass instead of made again."""


@dataclass(frozen=True, eq=False)
class Recurrence:
    """h_{l+1} = M_l h_l + u_l, to be run over all steps.

    Attributes:
        source: where the transitions M_l come from.
        state: h_0, (batch, dim, columns).
        inputs: u_l, dense (batch, length, dim, columns) or outer products, or None.
        readout: q_l (batch, length, dim); outputs are then q_l^T h_{l+1} instead of the states.
        log_norm: (batch, columns) for projective recurrences, whose states may be divided by
            positive numbers on the way: the logarithm of what h_0 was divided by. Else None.
    """

    source: Source
    state: Tensor
    inputs: Tensor | Outer | None = None
    readout: Tensor | None = None
    log_norm: Tensor | None = None

    @property
    def projective(self) -> bool:
        """Whether direction and norm are carried apart."""
        return self.log_norm is not None


@dataclass(frozen=True, eq=False)
class Solution:
    """What a scan returns.

    Attributes:
        outputs: states (batch, length, dim, columns), or what a readout made of them,
            (batch, length, columns). Of projective recurrences, the states' directions.
        last: the last state, (batch, dim, columns), or its direction.
        log_norm: of the states, (batch, length, columns), for projective recurrences; else None.
        last_log_norm: of the last state, (batch, columns), the same.
    """

    outputs: Tensor
    last: Tensor
    log_norm: Tensor | None = None
    last_log_norm: Tensor | None = None

    @classmethod
    def from_directions(
        cls, recurrence: Recurrence, directions: Tensor, last: Tensor, log_norm: Tensor
    ) -> "Solution":
        """Of a projective recurrence, from log-norms that do not count the initial state's."""
        assert recurrence.log_norm is not None
        log_norm = log_norm + recurrence.log_norm.unsqueeze(1)
        return cls(directions, last, log_norm, log_norm[:, -1])


class Scan(ABC):
    """A policy: how the steps of a recurrence are put together.

    Attributes:
        citations: keys of `slicekit.citations`.
        collective: whether several processes run the recurrence together, so that each must call
            it, also one that has no step of its own.
    """

    citations: ClassVar[tuple[str, ...]] = ()
    collective: ClassVar[bool] = False

    @abstractmethod
    def run(self, recurrence: Recurrence) -> Solution:
        """Run all steps."""

    def obstacle(self, recurrence: Recurrence) -> str | None:
        """Why it can't run a recurrence; None if it can."""
        return None

    def reluctance(self, recurrence: Recurrence) -> str | None:
        """Why one that comes after it is likely to be faster; None if none is."""
        return None


def contract(readout: Tensor, states: Tensor) -> Tensor:
    """q^T H for q (..., dim) and H (..., dim, columns): (..., columns)."""
    return (readout.unsqueeze(-2) @ states).squeeze(-2)
