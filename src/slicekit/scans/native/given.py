"""The two passes over given transitions, by C++ kernels."""

from functools import cached_property
from typing import cast

import torch
from torch import Tensor

from slicekit.native.recurrences import GIVEN, Given, chunk_size
from slicekit.scans.base import Passes, joined
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
            outputs, last = (joined([r[i] for r in results], 2 - i) for i in range(2))
            factors = joined([r[2] for r in results], 2 if self.rescale else 0)
            return [outputs, last, factors, results[0][3]]
        return GIVEN.forward(self.rescale, self.operands)

    def backward(
        self, saved: list[Tensor], in_outputs: Tensor, in_last: Tensor | None, needed: list[bool]
    ) -> list[Tensor]:
        """All of them, whichever are needed."""
        in_last = torch.zeros_like(self.state) if in_last is None else in_last
        if self.parts:
            return self._joined(saved, in_outputs, in_last, needed)
        plan = (self.rescale, self.operands, saved[:4], (in_outputs, in_last), needed)
        return [x for x in GIVEN.backward(*plan) if x is not None]

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
        state = joined([r[0] for r in rest], 1)
        left = [joined([r[1] for r in rest], 2)] if self.inputs else []
        right = [torch.stack([r[2] for r in rest]).sum(0)] if len(self.inputs) > 1 else []
        return [*tensors, state, *left, *right]

    @cached_property
    def operands(self) -> list[Tensor | None]:
        """Everything that is differentiated, as the kernel takes it."""
        diagonal = isinstance(self.transition, DiagonalTransition)
        names = ("diagonal",) if diagonal else self.transition.stepwise
        named: dict[str, Tensor | None] = {"state": self.state, "readout": self.readout}
        named |= zip(names, self.transition.tensors(), strict=True)
        inputs = ("input_left", "input_right") if len(self.inputs) == 2 else ("input",)
        named |= zip(inputs, self.inputs, strict=False)
        return [*map(named.get, Given.operands)]
