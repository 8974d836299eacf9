"""The two passes over given transitions, by C++ kernels: the contract of `chunked.steps`."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from slicekit.native.arrays import plain
from slicekit.native.given import KERNEL, NUMBERS, RESULTS, Task, chunk_size
from slicekit.native.kinds import Kind
from slicekit.native.threads import threads
from slicekit.scans.passes import PassShapes
from slicekit.structures import DiagonalTransition, Transition


@dataclass(frozen=True, eq=False)
class GivenPasses(PassShapes):
    """One recurrence with given transitions.

    Attributes:
        transition: diagonal, blocks or low rank, with leading shape (batch, length).
        state: (batch, dim, columns), the initial state.
        inputs: no tensor, one (dense inputs) or two (outer products).
        readout: (batch, length, dim) or None.
        rescale: steps between two divisions of a projective state; 0 for a plain one.
    """

    transition: Transition
    state: Tensor
    inputs: tuple[Tensor, ...]
    readout: Tensor | None
    rescale: int

    @property
    def length(self) -> int:
        """Number of steps."""
        return self.transition.tensors()[0].shape[1]

    def start_shape(self) -> tuple[int, ...]:
        """(chunks, batch, dim, columns) with a readout, otherwise nothing."""
        if self.readout is None:
            return (0,)
        size = chunk_size(self.state.dtype, *self.state.shape[1:])
        return (-(-self.length // size), *self.state.shape)

    def forward(self) -> list[Tensor]:
        """Run all steps.

        Returns:
            outputs: `output_shape`.
            last: the last state.
            factors: what the state was divided by before each step, `factor_shape`.
            starts: the states at the chunks' beginnings, `start_shape`.
        """
        state = self.state
        results = [
            state.new_empty(self.output_shape()),
            state.new_empty(state.shape),
            state.new_empty(self.factor_shape(), dtype=state.dtype.to_real()),
            state.new_empty(self.start_shape()),
        ]
        arrays = self._operands | dict(zip(RESULTS, results, strict=True))
        KERNEL.call("forward", self._task(), arrays)
        return results

    def backward(self, saved: list[Tensor], in_outputs: Tensor, in_last: Tensor) -> list[Tensor]:
        """Gradients of the transition's tensors, the state, the inputs and the readout.

        Args:
            saved: what `forward` returned.
            in_outputs, in_last: gradients of its first two.
        """
        operands = self._operands
        found = {f"in_{name}": torch.empty_like(x) for name, x in operands.items()}
        given = {"in_outputs": plain(in_outputs), "in_last": plain(in_last)}
        kept = dict(zip(RESULTS, map(plain, saved[:4]), strict=True))
        KERNEL.call("backward", self._task(), operands | kept | given | found)
        return list(found.values())

    @cached_property
    def _operands(self) -> dict[str, Tensor]:
        """Everything that is differentiated, under the names and in the order of the task."""
        inputs = ("input_left", "input_right") if len(self.inputs) == 2 else ("input",)
        arrays = dict(zip(_names(self.transition), self.transition.tensors(), strict=True))
        arrays["state"] = self.state
        arrays |= dict(zip(inputs, self.inputs, strict=False))
        if self.readout is not None:
            arrays["readout"] = self.readout
        return {name: plain(x) for name, x in arrays.items()}

    def _task(self) -> Task:
        batch, dim, columns = self.state.shape
        dtype, thin = self.state.dtype, self.transition.tensors()[-1]
        kind = KINDS[_names(self.transition)]
        width = 1 if kind == Kind.DIAGONAL else thin.shape[-1]
        task = Task(
            kind=NUMBERS[kind],
            real=dtype.to_real().itemsize,
            complex=int(dtype.is_complex),
            batch=batch,
            length=self.length,
            dim=dim,
            columns=columns,
            block=thin.shape[-1] if kind == Kind.BLOCKS else 0,
            rank=thin.shape[-1] if kind == Kind.LOW_RANK else 0,
            rescale=self.rescale,
            threads=threads(self.state.numel() * self.length * width),
        )
        task.read_out = self.readout is not None
        return task


KINDS = {
    ("diagonal",): Kind.DIAGONAL,
    ("blocks",): Kind.BLOCKS,
    ("diagonal", "left", "right"): Kind.LOW_RANK,
}


def _names(transition: Transition) -> tuple[str, ...]:
    """The task's names of a transition's tensors."""
    return ("diagonal",) if isinstance(transition, DiagonalTransition) else transition.stepwise
