"""The two passes of the native scan: the same contract as `chunked.steps`, by C++ kernels."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from slicekit.native import shared_factors, sparse
from slicekit.native.arrays import plain
from slicekit.native.kinds import Kind
from slicekit.native.panels import Panels
from slicekit.native.table import Table
from slicekit.scans.inputs import input_pullback, input_window
from slicekit.scans.native import token_matrices
from slicekit.scans.native.given import GivenPasses
from slicekit.scans.native.runs import PANELS, Run, runs_of
from slicekit.scans.passes import PassShapes
from slicekit.scans.sources import FromIncrements, FromTable, FromTransitions, Source, leaves

RESTORE_EVERY = 32
"""Steps after which rotations get their norm back: it costs a kernel less than `kernels.run`."""


@dataclass(eq=False)
class NativePasses(PassShapes):
    """One recurrence, run by kernels.

    Attributes:
        source: where the transitions come from.
        state: (batch, dim, columns), the initial state.
        inputs: no tensor, one (dense inputs) or two (outer products).
        readout: (batch, length, dim) or None.
        size: bytes of transitions that may be kept for the backward pass.
        rescale: steps between two divisions of a projective state; 0 for a plain one.
    """

    partial: ClassVar[bool] = True
    source: Source
    state: Tensor
    inputs: tuple[Tensor, ...]
    readout: Tensor | None
    size: int
    rescale: int

    @property
    def length(self) -> int:
        """Number of steps."""
        return self.source.length

    @cached_property
    def _engine(self) -> "_Made | _Given":
        return _Given(self) if isinstance(self.source, FromTransitions) else _Made(self)

    def start_shape(self) -> tuple[int, ...]:
        """What a readout's backward pass starts from; nothing without one."""
        return self._engine.start_shape()

    def keeps(self) -> bool:
        """Whether the transitions should be kept for the backward pass."""
        return self._engine.kept_numbers() > 0

    def blank_kept(self) -> list[Tensor]:
        """What `forward` keeps, for its shapes."""
        return [self.state.new_empty(self._engine.kept_numbers())]

    def multiplies(self) -> bool:
        """Whether a kernel gives the product of all transitions."""
        return isinstance(self._engine, _Made) and self._engine.multiplies()

    def product(self, keep: bool) -> tuple[Tensor, Tensor, Tensor | None, list[Tensor]]:
        """All transitions as one, which no state is needed for.

        Returns:
            What `Panels.product` gives, and what `forward` can use of it if it was kept.
        """
        assert isinstance(self._engine, _Made)
        return self._engine.product(keep)

    def forward(self, keep: bool, made: list[Tensor] | None = None) -> list[Tensor]:
        """Run all steps: outputs, last state, factors, starts, and the transitions if kept.

        Args:
            keep: whether to keep them.
            made: what `product` kept of them.
        """
        if made:
            assert isinstance(self._engine, _Made)
            return self._engine.forward(keep, made)
        return self._engine.forward(keep)

    def backward(
        self, saved: list[Tensor], in_outputs: Tensor, in_last: Tensor | None, needed: list[bool]
    ) -> list[Tensor]:
        """Gradients of the source's tensors, the state, the inputs and the readout.

        That of the path is left out where it is not needed, and so are those of the parameters
        where none is.
        """
        in_outputs, in_last = plain(in_outputs), None if in_last is None else plain(in_last)
        kept = [plain(x) for x in saved]  # hooks on saved tensors may have moved them
        return self._engine.backward(kept, in_outputs, in_last, needed)


class _Made:
    """Transitions made from increments or a table."""

    def __init__(self, passes: NativePasses) -> None:
        source = passes.source
        assert isinstance(source, FromIncrements | FromTable)
        runs = runs_of(source.structure, source.flow)
        assert not isinstance(runs, str), runs
        self.passes, self.source, self.runs = passes, source, runs
        self.path = source.table if isinstance(source, FromTable) else source.increments
        self.index = plain(source.index) if isinstance(source, FromTable) else None

    def start_shape(self) -> tuple[int, ...]:
        return (0,)

    def kept_numbers(self) -> int:
        """What `forward` keeps at most."""
        return self._kept_numbers

    @cached_property
    def _kept_numbers(self) -> int:
        """Of the transitions, or of what a table is made of, where one kernel keeps them."""
        first, *others = self.runs
        if others:
            return 0
        passes = self.passes
        if first.kernel == PANELS and self.index is None:
            return self._only.worth_keeping(passes.size)
        if first.kernel == PANELS:
            numbers = sum(self.source.parameters[name].numel() for name in first.bounded)
        else:
            numbers = self.path.shape[0] * first.dim**2 if self._tabulates(first) else 0
        return numbers if numbers * passes.state.element_size() <= passes.size else 0

    @cached_property
    def _only(self) -> Panels:
        """The problem of the only run."""
        return self._panels(self.runs[0], self.passes.state, self._dense())

    def _panels(self, run: Run, state: Tensor, inputs: Tensor | None) -> Panels:
        """The problem of a run."""
        bound = run.bind([self.source.parameters[name] for name in run.names])
        return self._panels_of(run, bound, state, inputs)

    def _kept_panels(
        self, run: Run, kept: Tensor | None, state: Tensor, inputs: Tensor | None
    ) -> Panels:
        """As in the forward pass, whose bounded parameters a table keeps."""
        if self.index is None or kept is None:
            return self._panels(run, state, inputs)
        tensors = [self.source.parameters[name] for name in run.names]
        sizes = [
            x.numel() if name in run.bounded else 0
            for name, x in zip(run.names, tensors, strict=True)
        ]
        pieces = zip(run.names, tensors, kept.split(sizes), strict=True)
        tensors = [own.view_as(x) if name in run.bounded else x for name, x, own in pieces]
        return self._panels_of(run, tensors, state, inputs)

    def _panels_of(
        self, run: Run, tensors: list[Tensor], state: Tensor, inputs: Tensor | None
    ) -> Panels:
        return Panels(
            run.parts,
            tuple(plain(x) for x in tensors),
            plain(self.path),
            self.index,
            plain(state),
            inputs,
            self.passes.rescale,
            RESTORE_EVERY,
        )

    def _dense(self) -> Tensor | None:
        """Affine inputs (batch, length, dim, columns)."""
        window = input_window(self.passes.inputs, 0, self.source.length)
        return None if window is None else plain(window.transpose(0, 1))

    def _rows(self, x: Tensor | None, axis: int) -> list[Any]:
        """Each run's rows of a state, or of states."""
        if len(self.runs) == 1 or x is None:
            return [x] * len(self.runs)
        return [plain(part) for part in x.split([run.dim for run in self.runs], axis)]

    def _increments(self) -> Tensor:
        """Position by position, for kernels that have no use for a table."""
        if self.index is None:
            return self.path
        return self.path.index_select(0, self.index.reshape(-1)).unflatten(0, self.index.shape)

    def _tabulates(self, run: Run) -> bool:
        """Whether a part's matrices are made once per token, and not position by position."""
        if self.index is None:
            return False
        positions = self.index.numel() * self.passes.state.shape[-1]
        return token_matrices.pays(run, self._named(run), self.path, positions)

    def _matrices(self, run: Run, kept: Tensor | None) -> Tensor:
        """Those of the tokens, written to the memory that keeps them."""
        return token_matrices.make(run, self._named(run), self.path, kept)

    def _table(self, matrices: Tensor, state: Tensor, inputs: Tensor | None) -> Table:
        assert self.index is not None
        return Table(matrices, self.index, state, inputs, self.passes.rescale)

    def multiplies(self) -> bool:
        return len(self.runs) == 1 and self.runs[0].kernel == PANELS

    def product(self, keep: bool) -> tuple[Tensor, Tensor, Tensor | None, list[Tensor]]:
        state, numbers = self.passes.state, self.kept_numbers()
        keep = keep and self.index is None and numbers > 0
        kept = [state.new_empty(numbers)] if keep else []
        panels = self._panels(self.runs[0], state, self._dense())
        return *panels.product(kept[0] if kept else None), kept

    def forward(self, keep: bool, made: list[Tensor] | None = None) -> list[Tensor]:
        passes = self.passes
        kept = made or ([passes.state.new_empty(self.kept_numbers())] if keep else [])
        saved, starts = kept if keep else [], passes.state.new_empty(0)
        if len(self.runs) == 1 and self.runs[0].kernel == PANELS and self.index is None:
            outputs, factors = self._only.forward(kept[0] if kept else None, bool(made))
            return [outputs, outputs.select(1, -1).clone(), factors, starts, *saved]
        states, inputs = self._rows(passes.state, 1), self._rows(self._dense(), 2)
        results = [
            self._run(run, state, u, kept[0] if kept else None)
            for run, state, u in zip(self.runs, states, inputs, strict=True)
        ]
        outputs, factors = results[0]
        if len(results) > 1:
            outputs = torch.cat([states for states, _ in results], 2)
        if len(results) > 1 and passes.rescale:
            factors = torch.cat([divided for _, divided in results], 2)
        return [outputs, outputs[:, -1].clone(), factors, starts, *saved]

    def _run(
        self, run: Run, state: Tensor, inputs: Tensor | None, kept: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if run.kernel == PANELS:
            panels = self._panels(run, state, inputs)
            if kept is None:
                return panels.forward(None)
            pairs = zip(run.names, panels.parameters, strict=True)
            bound = [x.flatten() for name, x in pairs if name in run.bounded]
            torch.cat(bound, out=kept)
            return panels.forward(None)
        if self._tabulates(run):
            table = self._table(self._matrices(run, kept), state, inputs)
            states, factors = table.forward()
            return states, self._each_row(run, factors)
        kernel = sparse if run.kernel is Kind.SPARSE else shared_factors
        states, _, factors = kernel.forward(
            self._named(run), self._increments(), state, inputs, self.passes.rescale
        )
        return states, self._each_row(run, factors)

    def _each_row(self, run: Run, factors: Tensor) -> Tensor:
        """Factors that hold for all rows of a part, for each of them."""
        return factors.unsqueeze(2).repeat(1, 1, run.dim, 1) if self.passes.rescale else factors

    def _named(self, run: Run) -> dict[str, Tensor]:
        """A run's parameters under the names that its structure gives them."""
        return {name.rpartition("_")[2]: self.source.parameters[name] for name in run.names}

    def backward(
        self, saved: list[Tensor], in_states: Tensor, in_last: Tensor | None, needed: list[bool]
    ) -> list[Tensor]:
        passes = self.passes
        wanted = needed[len(self.source.parameters)]
        trained = any(needed[: len(self.source.parameters)])
        outputs, _, factors, _, *kept = saved
        in_parameters: dict[str, Tensor] = {}
        in_path: Tensor | None = None
        in_state, in_dense = [], []
        rows = (
            self._rows(passes.state, 1),
            self._rows(self._dense(), 2),
            self._rows(outputs, 2),
            self._rows(in_states, 2),
            self._rows(in_last, 1),
            self._rows(factors, 2) if passes.rescale else [factors] * len(self.runs),
        )
        for run, state, u, states, own, last, divided in zip(self.runs, *rows, strict=True):
            found, moved, first, driven = self._run_back(
                run,
                state,
                u,
                (states, divided, kept[0] if kept else None),
                own,
                last,
                wanted,
                trained,
            )
            in_parameters |= found
            if in_path is None or not wanted:
                in_path = moved if wanted else moved.new_empty(0)
            else:
                in_path = in_path + moved
            in_state.append(first)
            in_dense.append(driven)
        assert in_path is not None
        tensors = [
            in_parameters.get(name, x.new_empty(0)) for name, x in self.source.parameters.items()
        ]
        tail = [] if self.index is None else [self.index.new_empty(0)]
        state_gradient = in_state[0] if len(in_state) == 1 else torch.cat(in_state, 1)
        return [*tensors, in_path, *tail, state_gradient, *self._input_gradients(in_dense)]

    def _input_gradients(self, found: list[Any]) -> list[Tensor]:
        inputs = self.passes.inputs
        if not inputs:
            return []
        dense = found[0] if len(found) == 1 else torch.cat(found, 2)
        pulled = input_pullback(inputs, 0, self.source.length, dense.transpose(0, 1))
        return [x.contiguous() for x in pulled]

    def _run_back(
        self,
        run: Run,
        state: Tensor,
        inputs: Tensor | None,
        saved: tuple[Tensor, Tensor, Tensor | None],
        in_states: Tensor,
        in_last: Tensor | None,
        wanted: bool,
        trained: bool,
    ) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor | None]:
        states, factors, kept = saved
        if run.kernel == PANELS:
            panels = self._kept_panels(run, kept, state, inputs)
            transitions = kept if self.index is None else None
            found, moved, first, driven = panels.backward(
                states, factors, transitions, in_states, in_last, wanted, trained
            )
            found = run.pull(panels.parameters, found)
            return dict(zip(run.names, found, strict=True)), moved, first, driven
        in_last = torch.zeros_like(state) if in_last is None else in_last
        if self.passes.rescale:
            factors = factors[:, :, 0]  # one for all rows
        own = {name.rpartition("_")[2]: name for name in run.names}
        if self._tabulates(run):
            square = (-1, run.dim, run.dim)
            matrices = self._matrices(run, None) if kept is None else kept.view(square)
            table = self._table(matrices, state, inputs)
            in_matrices, first, driven = table.backward(states, factors, in_states, in_last)
            found, moved = token_matrices.pull(run, self._named(run), self.path, in_matrices)
            return {own[name]: x for name, x in found.items()}, moved, first, driven
        kernel = sparse if run.kernel is Kind.SPARSE else shared_factors
        found, moved, first, driven = kernel.backward(
            self._named(run),
            self._increments(),
            state,
            inputs,
            self.passes.rescale,
            states,
            factors,
            in_states,
            in_last,
        )
        if self.index is not None:
            flat = self.index.reshape(-1)
            moved = torch.zeros_like(self.path).index_add_(0, flat, moved.flatten(0, 1))
        return {own[name]: x for name, x in found.items()}, moved, first, driven


class _Given:
    """Transitions that someone else made, each part of a sum on its own rows of the state."""

    def __init__(self, passes: NativePasses) -> None:
        assert isinstance(passes.source, FromTransitions)
        self.passes = passes
        self.parts = leaves(passes.source.transition)

    def start_shape(self) -> tuple[int, ...]:
        return self._passes(0).start_shape() if len(self.parts) == 1 else (0,)

    def kept_numbers(self) -> int:
        return 0

    def _rows(self, x: Tensor, axis: int, number: int) -> Tensor:
        if len(self.parts) == 1:
            return x
        first = sum(part.dim for part in self.parts[:number])
        return x.narrow(axis, first, self.parts[number].dim)

    def _passes(self, number: int) -> GivenPasses:
        passes = self.passes
        inputs = tuple(
            self._rows(x, 2, number) if i == 0 else x for i, x in enumerate(passes.inputs)
        )
        state = self._rows(passes.state, 1, number)
        return GivenPasses(self.parts[number], state, inputs, passes.readout, passes.rescale)

    def forward(self, keep: bool) -> list[Tensor]:
        results = [self._passes(i).forward() for i in range(len(self.parts))]
        if len(results) == 1:
            return results[0]
        outputs, last = (torch.cat([r[i] for r in results], 2 - i) for i in range(2))
        factors = results[0][2]
        if self.passes.rescale:
            factors = torch.cat([r[2] for r in results], 2)
        return [outputs, last, factors, results[0][3]]

    def backward(
        self, saved: list[Tensor], in_outputs: Tensor, in_last: Tensor | None, needed: list[bool]
    ) -> list[Tensor]:
        in_last = torch.zeros_like(saved[1]) if in_last is None else in_last
        if len(self.parts) == 1:
            return self._passes(0).backward(saved, in_outputs, in_last)
        tensors: list[Tensor] = []
        rest: list[list[Tensor]] = []
        for i, part in enumerate(self.parts):
            factors = self._rows(saved[2], 2, i) if self.passes.rescale else saved[2]
            own = [
                self._rows(saved[0], 2, i).contiguous(),
                self._rows(saved[1], 1, i).contiguous(),
                factors.contiguous(),
                *saved[3:],
            ]
            found = self._passes(i).backward(
                own,
                self._rows(in_outputs, 2, i).contiguous(),
                self._rows(in_last, 1, i).contiguous(),
            )
            count = len(part.tensors())
            tensors += found[:count]
            rest.append(found[count:])
        state = torch.cat([r[0] for r in rest], 1)
        left = [torch.cat([r[1] for r in rest], 2)] if self.passes.inputs else []
        right = [torch.stack([r[2] for r in rest]).sum(0)] if len(self.passes.inputs) > 1 else []
        return [*tensors, state, *left, *right]
