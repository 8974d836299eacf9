"""The two passes by C++ kernels: over given transitions, and over those that kernels make from
increments or a table.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from slicekit.native.kernel import plain
from slicekit.native.panels import Panels
from slicekit.native.recurrences import GIVEN, Given, chunk_size
from slicekit.scans.base import Passes, input_pullback, input_window, joined
from slicekit.scans.native.assignment import PANELS, Run, runs_of
from slicekit.scans.native.tokens import Alone
from slicekit.scans.sources import FromTransitions, Made, leaves
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


class MadePasses(Passes):
    """Each run of a structure on its own rows of the state; `size` is how much may be kept.

    The source's parameters are those that kernels take, as `assignment.bound` makes them.
    """

    @property
    def _made(self) -> Made:
        return cast(Made, self.source)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """What each kernel takes."""
        runs = runs_of(self._made.structure, self._made.flow)
        assert not isinstance(runs, str), runs
        return runs

    @cached_property
    def index(self) -> Tensor | None:
        """Rows of the table, if there is one."""
        return None if self._made.index is None else plain(self._made.index)

    @cached_property
    def path(self) -> Tensor:
        """The increments, or the table."""
        return plain(self._made.path)

    def keeps(self) -> bool:
        """Whether the transitions should be kept for the backward pass."""
        return self._kept > 0

    def blank_kept(self) -> list[Tensor]:
        """What `forward` keeps, for its shapes."""
        return [self.state.new_empty(self._kept)]

    @cached_property
    def _kept(self) -> int:
        """How many numbers hold the transitions, if one kernel has all; 0 not to keep them."""
        return 0 if len(self.runs) > 1 else self._problems[0].worth_keeping(self.size)

    @cached_property
    def _problems(self) -> list[Panels | Alone]:
        """That of each run, on its own rows."""
        rows, problems = (self._rows(self.state, 1), self._rows(self._dense, 2)), []
        for run, *driven in zip(self.runs, *rows, strict=True):
            parameters = tuple(plain(self._made.parameters[name]) for name in run.names)
            given: Any = (parameters, self.path, self.index, *driven, self.rescale)
            by_panels = run.kernel == PANELS
            problems.append(Panels(run.parts, *given) if by_panels else Alone(run, *given))
        return problems

    @cached_property
    def _dense(self) -> Tensor | None:
        """Affine inputs (batch, length, dim, columns)."""
        window = input_window(self.inputs, 0, self.source.length)
        return None if window is None else plain(window.transpose(0, 1))

    def _rows(self, x: Tensor | None, axis: int) -> Sequence[Any]:
        """Each run's rows of a state, or of states."""
        if len(self.runs) == 1 or x is None:
            return [x if x is None else plain(x)] * len(self.runs)
        return [plain(part) for part in x.split([run.dim for run in self.runs], axis)]

    def multiplies(self) -> bool:
        """Whether a kernel gives the product of all transitions."""
        return len(self.runs) == 1 and self.runs[0].kernel == PANELS

    def product(self, keep: bool) -> tuple[Tensor, Tensor, Tensor | None, list[Tensor]]:
        """All transitions as one, which no state is needed for.

        Returns:
            What `Panels.product` gives, and what `forward` can use of it if it was kept.
        """
        kept = self.blank_kept() if keep and self.index is None and self.keeps() else []
        (only,) = self._problems
        assert isinstance(only, Panels)
        return *only.product(kept[0] if kept else None), kept

    def forward(self, keep: bool, made: Sequence[Tensor] = ()) -> list[Tensor]:
        """Run all steps; what is kept are the transitions, or the matrices of a table.

        Those that `product` has `made` are taken as they are.
        """
        kept = list(made) or (self.blank_kept() if keep else [])
        memory, blank = kept[0] if kept else None, self.state.new_empty
        results = [problem.forward(memory, bool(made)) for problem in self._problems]
        outputs = joined([states for states, _ in results], 2)
        factors = [blank(0) if divided is None else divided for _, divided in results]
        last = outputs.select(1, -1).clone()
        kept = kept if keep else []
        return [outputs, last, joined(factors, 2 if self.rescale else 0), blank(0), *kept]

    def backward(
        self, saved: list[Tensor], in_outputs: Tensor, in_last: Tensor | None, needed: list[bool]
    ) -> list[Tensor]:
        """That of the path is left out where it is not needed, and of the parameters if none is."""
        parameters = self._made.parameters
        wanted, trained = needed[len(parameters)], any(needed[: len(parameters)])
        outputs, _, factors, _, *kept = map(plain, saved)  # hooks on them may have moved them
        in_parameters: dict[str, Tensor] = {}
        in_path: list[Tensor] = []
        in_state, in_dense = [], []
        rows = (
            self._rows(outputs, 2),
            self._rows(factors, 2) if self.rescale else [factors] * len(self.runs),
            [kept[0] if kept else None] * len(self.runs),
            self._rows(in_outputs, 2),
            self._rows(in_last, 1),
        )
        for run, problem, *given in zip(self.runs, self._problems, *rows, strict=True):
            pulled = problem.backward(*given, wanted=wanted, trained=trained)
            in_run, moved, first, driven = pulled
            pairs = zip(run.names, in_run, strict=True)
            in_parameters |= {name: x for name, x in pairs if x is not None}
            in_path = [sum(in_path, moved)] if wanted else [moved.new_empty(0)]
            in_state.append(first)
            in_dense.append(driven)
        tensors = [in_parameters.get(name, x.new_empty(0)) for name, x in parameters.items()]
        tail = [] if self.index is None else [self.index.new_empty(0)]
        in_inputs: tuple[Tensor, ...] = ()
        if self.inputs:
            dense = joined(in_dense, 2).transpose(0, 1)
            in_inputs = input_pullback(self.inputs, 0, self.source.length, dense)
        tail += [joined(in_state, 1), *(x.contiguous() for x in in_inputs)]
        return [*tensors, *in_path, *tail]
