"""The problem that a scan solves, after `solve` and `propagate` have checked it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from slicekit.scans.inputs import Outer
from slicekit.scans.sources import Source


@dataclass(frozen=True, eq=False)
class Recurrence:
    """h_{l+1} = M_l h_l + u_l, to be run over all steps.

    Attributes:
        source: where the transitions M_l come from.
        state: h_0, (batch, dim, columns).
        inputs: u_l, dense (batch, length, dim, columns) or outer products, or None.
        readout: q_l (batch, length, dim); outputs are then q_l^T h_{l+1} instead of the states.
        projective: whether states may be divided by positive numbers on the way.
    """

    source: Source
    state: Tensor
    inputs: Tensor | Outer | None = None
    readout: Tensor | None = None
    projective: bool = False


@dataclass(frozen=True, eq=False)
class Solution:
    """What a scan returns.

    Attributes:
        outputs: states (batch, length, dim, columns), or what a readout made of them,
            (batch, length, columns). Of projective recurrences, the states' directions.
        last: the last state, (batch, dim, columns), or its direction.
        log_norm: for projective recurrences (batch, length, columns), what the initial state's
            log-norm has become; None otherwise.
    """

    outputs: Tensor
    last: Tensor
    log_norm: Tensor | None = None


class Scan(ABC):
    """A policy: how the steps of a recurrence are put together."""

    citations: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def run(self, recurrence: Recurrence) -> Solution:
        """Run all steps."""


def contract(readout: Tensor, states: Tensor) -> Tensor:
    """q^T H for q (..., dim) and H (..., dim, columns): (..., columns)."""
    return (readout.unsqueeze(-2) @ states).squeeze(-2)
