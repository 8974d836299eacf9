"""The two passes by C++ kernels: over given transitions, and over those that kernels make from
increments or a table.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from slicekit.native.kernel import Differentiable, Kind, plain
from slicekit.native.panels import Panels
from slicekit.native.recurrences import GIVEN, SHARED_FACTORS, SPARSE, Given, chunk_size
from slicekit.scans.base import Passes, input_pullback, input_window, joined
from slicekit.scans.native import tokens
from slicekit.scans.native.assignment import PANELS, Run, runs_of
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
        first, *others = self.runs
        if others:
            return 0
        if first.kernel == PANELS:
            return self._only.worth_keeping(self.size)
        if not self._tabulates(first):
            return 0
        return self._by_matrices(first, self.state, self._dense).worth_keeping(self.size)

    @cached_property
    def _only(self) -> Panels:
        """The problem of the only run."""
        return self._panels(self.runs[0], plain(self.state), self._dense)

    def _panels(self, run: Run, state: Tensor, inputs: Tensor | None) -> Panels:
        """The problem of a run."""
        parameters = tuple(plain(self._made.parameters[name]) for name in run.names)
        return Panels(run.parts, parameters, self.path, self.index, state, inputs, self.rescale)

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

    def _tabulates(self, run: Run) -> bool:
        """Whether a part's matrices are made once per token, and not position by position."""
        if self.index is None:
            return False
        positions = self.index.numel() * self.state.shape[-1]
        vocabulary, channels = self.path.shape
        return tokens.pays(run, self._named(run), vocabulary, channels, positions)

    def _by_matrices(self, run: Run, state: Tensor, inputs: Tensor | None) -> tokens.ByMatrices:
        """The problem of a part that `_tabulates`."""
        assert self.index is not None
        given = (self.path, self.index, state, inputs, self.rescale)
        return tokens.ByMatrices(run, self._named(run), *given)

    def _alone(
        self, run: Run, state: Tensor, inputs: Tensor | None
    ) -> tuple[Differentiable, list[Tensor | None]]:
        """The kernel of a part that no panels take, position by position, and its operands."""
        path = self.path
        if self.index is not None:
            path = path.index_select(0, self.index.reshape(-1)).unflatten(0, self.index.shape)
        by = SPARSE if run.kernel is Kind.SPARSE else SHARED_FACTORS
        return by, [path, *self._named(run).values(), state, inputs]

    def _named(self, run: Run) -> dict[str, Tensor]:
        """A run's parameters under the names that its structure gives them."""
        return run.named([self._made.parameters[name] for name in run.names])

    def multiplies(self) -> bool:
        """Whether a kernel gives the product of all transitions."""
        return len(self.runs) == 1 and self.runs[0].kernel == PANELS

    def product(self, keep: bool) -> tuple[Tensor, Tensor, Tensor | None, list[Tensor]]:
        """All transitions as one, which no state is needed for.

        Returns:
            What `Panels.product` gives, and what `forward` can use of it if it was kept.
        """
        kept = self.blank_kept() if keep and self.index is None and self.keeps() else []
        return *self._only.product(kept[0] if kept else None), kept

    def forward(self, keep: bool, made: Sequence[Tensor] = ()) -> list[Tensor]:
        """Run all steps; what is kept are the transitions, or the matrices of a table.

        Those that `product` has `made` are taken as they are.
        """
        kept = list(made) or (self.blank_kept() if keep else [])
        rows = self._rows(self.state, 1), self._rows(self._dense, 2)
        results = [
            self._run(run, state, u, kept[0] if kept else None, bool(made))
            for run, state, u in zip(self.runs, *rows, strict=True)
        ]
        outputs = joined([states for states, _ in results], 2)
        factors = joined([divided for _, divided in results], 2 if self.rescale else 0)
        last, starts = outputs.select(1, -1).clone(), self.state.new_empty(0)
        return [outputs, last, factors, starts, *(kept if keep else [])]

    def _run(
        self, run: Run, state: Tensor, inputs: Tensor | None, kept: Tensor | None, made: bool
    ) -> tuple[Tensor, Tensor]:
        """States and factors of a run, and what is kept filled in, unless it is made already."""
        if run.kernel == PANELS:
            panels = self._only if len(self.runs) == 1 else self._panels(run, state, inputs)
            states, divided = panels.forward(kept, made)
            return states, state.new_empty(0) if divided is None else divided
        if self._tabulates(run):
            states, divided = self._by_matrices(run, state, inputs).forward(kept)
            return states, state.new_empty(0) if divided is None else divided
        kernel, operands = self._alone(run, state, inputs)
        states, factors, *_ = kernel.forward(self.rescale, operands)
        if self.rescale:  # one for all rows
            factors = factors.unsqueeze(2).repeat(1, 1, run.dim, 1)
        return states, factors

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
            self._rows(self.state, 1),
            self._rows(self._dense, 2),
            self._rows(outputs, 2),
            self._rows(factors, 2) if self.rescale else [factors] * len(self.runs),
            self._rows(in_outputs, 2),
            self._rows(in_last, 1),
        )
        for run, *rows_of_run in zip(self.runs, *rows, strict=True):
            in_run, moved, first, driven = self._run_back(
                run, kept[0] if kept else None, wanted, trained, *rows_of_run
            )
            in_parameters |= in_run
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

    def _run_back(
        self,
        run: Run,
        kept: Tensor | None,
        wanted: bool,
        trained: bool,
        state: Tensor,
        inputs: Tensor | None,
        states: Tensor,
        factors: Tensor,
        in_states: Tensor,
        in_last: Tensor | None,
    ) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor | None]:
        """Gradients of a run's parameters by name, of the path, the state and the inputs."""
        if run.kernel == PANELS:
            in_parameters, moved, first, driven = self._panels(run, state, inputs).backward(
                states, factors, kept, in_states, in_last, wanted, trained
            )
            return dict(zip(run.names, in_parameters, strict=True)), moved, first, driven
        held = self._named(run)
        if self._tabulates(run):
            by_matrices = self._by_matrices(run, state, inputs)
            in_run, moved, first, driven = by_matrices.backward(
                states, factors, kept, in_states, in_last
            )
            return _renamed(run, held, in_run), moved, first, driven
        in_last = torch.zeros_like(state) if in_last is None else in_last
        if self.rescale:
            factors = factors[:, :, 0]
        kernel, operands = self._alone(run, state, inputs)
        plan = (self.rescale, operands, [states, factors, None], (in_states, in_last), [])
        gradients: dict[str, Any] = dict(
            zip(kernel.task.operands, kernel.backward(*plan), strict=True)
        )
        first, driven, moved = (gradients[name] for name in ("state", "inputs", "increments"))
        if self.index is not None:
            flat = self.index.reshape(-1)
            moved = torch.zeros_like(self.path).index_add_(0, flat, moved.flatten(0, 1))
        return _renamed(run, held, gradients), moved, first, driven


def _renamed(run: Run, held: Iterable[str], gradients: Mapping[str, Any]) -> dict[str, Tensor]:
    """Gradients under the names of a run, from those that its structure gives them."""
    pairs = zip(run.names, map(gradients.get, held), strict=True)
    return {name: x for name, x in pairs if x is not None}
