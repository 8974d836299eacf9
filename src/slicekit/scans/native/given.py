"""The two passes over given transitions, by C++ kernels."""

from functools import cached_property
from typing import cast

import torch
from torch import Tensor

from slicekit.native.given import KERNEL, RESULTS, Task, chunk_size
from slicekit.native.kernel import Kind
from slicekit.native.threads import threads
from slicekit.scans.base import Passes
from slicekit.scans.sources import FromTransitions, leaves
from slicekit.structures import DiagonalTransition, Transition


class GivenPasses(Passes):
    """Diagonal, block or low-rank transitions, or a direct sum of them without a readout."""

    @property
    def transition(self) -> Transition:
        """With leading shape (batch, length)."""
        return cast(FromTransitions, self.source).transition

    def chunk_size(self) -> int:
        """Steps between two states that are stored."""
        return chunk_size(self.state.dtype, *self.state.shape[1:])

    @cached_property
    def parts(self) -> list["GivenPasses"]:
        """Those of a direct sum, each on its own rows of the state; none for a single one."""
        parts, first, transitions = [], 0, leaves(self.transition)
        if len(transitions) == 1:
            return []
        for transition in transitions:
            rows = (first, transition.dim)
            state = self.state.narrow(1, *rows)
            inputs = tuple(x.narrow(2, *rows) for x in self.inputs[:1]) + self.inputs[1:]
            source = FromTransitions(transition)
            parts.append(GivenPasses(source, state, inputs, self.readout, 0, self.rescale))
            first += transition.dim
        return parts

    def forward(self, keep: bool) -> list[Tensor]:
        """Run all steps; nothing is kept."""
        if self.parts:
            results = [part.forward(keep) for part in self.parts]
            outputs, last = (torch.cat([r[i] for r in results], 2 - i) for i in range(2))
            factors = torch.cat([r[2] for r in results], 2) if self.rescale else results[0][2]
            return [outputs, last, factors, results[0][3]]
        made = KERNEL.make("forward", self._task(), self._operands, RESULTS)
        return [made[name] for name in RESULTS]

    def backward(
        self, saved: list[Tensor], in_outputs: Tensor, in_last: Tensor | None, needed: list[bool]
    ) -> list[Tensor]:
        """All of them, whichever are needed."""
        in_last = torch.zeros_like(self.state) if in_last is None else in_last
        if self.parts:
            return self._joined(saved, in_outputs, in_last, needed)
        operands = self._operands
        given = {**operands, **dict(zip(RESULTS, saved[:4], strict=True))}
        given |= {"in_outputs": in_outputs, "in_last": in_last}
        names = [f"in_{name}" for name in operands]
        return list(KERNEL.make("backward", self._task(), given, names).values())

    def _joined(
        self, saved: list[Tensor], in_outputs: Tensor, in_last: Tensor, needed: list[bool]
    ) -> list[Tensor]:
        """The gradients of a direct sum, from those of its parts."""
        tensors: list[Tensor] = []
        rest: list[list[Tensor]] = []
        sizes = [part.state.shape[1] for part in self.parts]
        outputs, last, factors, *starts = saved
        divided = factors.split(sizes, 2) if self.rescale else [factors] * len(sizes)
        rows = (outputs.split(sizes, 2), last.split(sizes, 1), divided)
        moved = (in_outputs.split(sizes, 2), in_last.split(sizes, 1))
        for part, *saved_rows, in_states, in_end in zip(self.parts, *rows, *moved, strict=True):
            gradients = part.backward([*saved_rows, *starts], in_states, in_end, needed)
            count = len(part.source.tensors)
            tensors += gradients[:count]
            rest.append(gradients[count:])
        state = torch.cat([r[0] for r in rest], 1)
        left = [torch.cat([r[1] for r in rest], 2)] if self.inputs else []
        right = [torch.stack([r[2] for r in rest]).sum(0)] if len(self.inputs) > 1 else []
        return [*tensors, state, *left, *right]

    @cached_property
    def _operands(self) -> dict[str, Tensor]:
        """Everything that is differentiated, under the names and in the order of the task."""
        inputs = ("input_left", "input_right") if len(self.inputs) == 2 else ("input",)
        arrays = dict(zip(_names(self.transition), self.transition.tensors(), strict=True))
        arrays["state"] = self.state
        arrays |= dict(zip(inputs, self.inputs, strict=False))
        if self.readout is not None:
            arrays["readout"] = self.readout
        return arrays

    def _task(self) -> Task:
        batch, dim, columns = self.state.shape
        dtype, thin = self.state.dtype, self.transition.tensors()[-1]
        kind = KINDS[_names(self.transition)]
        width = 1 if kind == Kind.DIAGONAL else thin.shape[-1]
        task = Task(
            kind=kind,
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
