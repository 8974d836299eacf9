"""The problem that a scan solves, once `solve` or `propagate` has checked it, and its two passes.

Affine inputs u_l of h_{l+1} = M_l h_l + u_l are dense, or outer products that are never stored.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from slicekit.checks import check_shape
from slicekit.native.kernel import windows
from slicekit.scans.sources import Source

KEEP_BYTES = 32 * 2**20
"""Transitions up to this size in all are kept for the backward pass instead of made again."""


@dataclass(frozen=True, eq=False)
class Outer:
    """u_l = left_l right_l^T, the input of matrix states such as the delta rule's k v^T.

    Args:
        left: (batch, length, dim).
        right: (batch, length, columns).
    """

    left: Tensor
    right: Tensor

    def __post_init__(self) -> None:
        """Check that both belong to the same steps."""
        check_shape("Outer.left", self.left, ("batch", "length", "dim"))
        check_shape("Outer.right", self.right, (*self.left.shape[:2], "columns"))

    def dense(self) -> Tensor:
        """(batch, length, dim, columns)."""
        return self.left.unsqueeze(-1) * self.right.unsqueeze(-2)


def as_tensors(inputs: Tensor | Outer | None) -> tuple[Tensor, ...]:
    """The tensors of an input: none, one (dense) or two (outer)."""
    if inputs is None:
        return ()
    return (inputs.left, inputs.right) if isinstance(inputs, Outer) else (inputs,)


def input_window(tensors: tuple[Tensor, ...], start: int, stop: int) -> Tensor | None:
    """Dense inputs (stop - start, batch, dim, columns) of some steps, time first."""
    parts = [x[:, start:stop].transpose(0, 1) for x in tensors]
    if len(parts) == 2:
        return parts[0].unsqueeze(-1) * parts[1].unsqueeze(-2)
    return parts[0] if parts else None


def input_pullback(
    tensors: tuple[Tensor, ...], start: int, stop: int, cotangent: Tensor
) -> tuple[Tensor, ...]:
    """Gradients (batch, steps, ...) of the inputs of some steps from that of their dense form."""
    if len(tensors) == 2:
        left, right = (x[:, start:stop].transpose(0, 1) for x in tensors)
        gradients = (
            (cotangent @ right.conj().unsqueeze(-1)).squeeze(-1),
            (cotangent.mT @ left.conj().unsqueeze(-1)).squeeze(-1),
        )
    else:
        gradients = (cotangent,) if tensors else ()
    return tuple(x.transpose(0, 1) for x in gradients)


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
    """What a scan returns: tensors that share no memory.

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
        cls, recurrence: Recurrence, directions: Tensor, log_norm: Tensor
    ) -> "Solution":
        """Of a projective recurrence, from log-norms that do not count the initial state's."""
        assert recurrence.log_norm is not None
        log_norm = log_norm + recurrence.log_norm.unsqueeze(1)
        return cls(directions, directions[:, -1].clone(), log_norm, log_norm[:, -1].clone())


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


def joined(rows: list[Tensor], axis: int) -> Tensor:
    """The rows of parts, side by side; those of a single one as they are."""
    return rows[0] if len(rows) == 1 else torch.cat(rows, axis)


def contract(readout: Tensor, states: Tensor) -> Tensor:
    """q^T H for q (..., dim) and H (..., dim, columns): (..., columns)."""
    return (readout.unsqueeze(-2) @ states).squeeze(-2)


@dataclass(eq=False)
class Passes(ABC):
    """One recurrence, as its passes are told of it.

    Attributes:
        source: where the transitions come from.
        state: (batch, dim, columns), the initial state.
        inputs: no tensor, one (dense inputs) or two (outer products).
        readout: (batch, length, dim) or None.
        size: steps in a chunk, or bytes that may be kept for the backward pass, as a scan has it.
        rescale: steps between two divisions of a projective state; 0 for a plain one.
        key: where the class stands, for graphs, which know it by that name.
    """

    key: ClassVar[str]
    source: Source
    state: Tensor
    inputs: tuple[Tensor, ...]
    readout: Tensor | None
    size: int
    rescale: int

    def __init_subclass__(cls) -> None:
        """Give it its key."""
        cls.key = f"{cls.__module__}:{cls.__qualname__}"

    @abstractmethod
    def forward(self, keep: bool) -> list[Tensor]:
        """Run all steps.

        Args:
            keep: whether to return what `backward` can use; asked for only if `keeps`.

        Returns:
            outputs: `output_shape`.
            last: the last state.
            factors: what the state was divided by before each window's first step, `factor_shape`.
            starts: the states from which those that a readout hides are made again, `start_shape`.
            *kept: if keep, tensors like those of `blank_kept`.
        """

    @abstractmethod
    def backward(
        self, saved: list[Tensor], in_outputs: Tensor, in_last: Tensor | None, needed: list[bool]
    ) -> list[Tensor]:
        """Gradients of the source's tensors, the state, the inputs and the readout.

        Args:
            saved: what `forward` returned.
            in_outputs, in_last: gradients of its first two; None where the last state has none.
            needed: of each operand, whether its gradient is; others may be any tensor.
        """

    def keeps(self) -> bool:
        """Whether `backward` gains from what `forward` can keep."""
        return False

    def blank_kept(self) -> list[Tensor]:
        """What `forward` keeps, for its shapes."""
        return []

    def output_shape(self) -> tuple[int, ...]:
        """Batch first: states, or what a readout makes of them."""
        batch, dim, columns = self.state.shape
        shape = (dim, columns) if self.readout is None else (columns,)
        return (batch, self.source.length, *shape)

    def factor_shape(self) -> tuple[int, ...]:
        """(batch, windows, dim, columns), or nothing."""
        if not self.rescale:
            return (0,)
        batch, dim, columns = self.state.shape
        return (batch, windows(self.source.length, self.rescale), dim, columns)

    def start_shape(self) -> tuple[int, ...]:
        """(chunks, batch, dim, columns) with a readout, otherwise nothing."""
        if self.readout is None:
            return (0,)
        return (-(-self.source.length // self.chunk_size()), *self.state.shape)

    def chunk_size(self) -> int:
        """Steps between two states that are stored where a readout hides the others."""
        raise NotImplementedError
