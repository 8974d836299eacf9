"""Where a scan's transitions come from: made from increments, looked up in a table, or given.

A source can make the transitions of all steps at once, one by one, or of a window of steps, and can
pull gradients of a window's transitions back to what they were made of.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from slicekit.dispatch import vjp
from slicekit.flows import Flow, flow_named
from slicekit.handles import recall
from slicekit.structures import (
    BlockTransition,
    DiagonalTransition,
    DirectSum,
    LowRankTransition,
    Matrices,
    Parameters,
    RotationTransition,
    Structure,
    SumTransition,
    Transition,
)
from slicekit.structures.base import OURS

Pullback = Callable[[tuple[Tensor, ...]], None]

Recipe = tuple[Structure | None, Flow | None, list[str]]
"""What makes a source again, with its tensors: structure, flow and the names of its parameters; of
given transitions, the kinds of their parts."""


class Source(ABC):
    """Transitions of a batch of sequences.

    Attributes:
        batch, length: how many sequences and steps.
        dim: size of the state.
        tensors: everything the transitions are made of, differentiable tensors and others.
    """

    batch: int
    length: int
    dim: int
    tensors: tuple[Tensor, ...]

    @abstractmethod
    def each(self, change: Callable[[Tensor], Tensor]) -> Transition:
        """The transitions of some steps, in the order that a change of (batch, length) gives."""

    def whole(self) -> Transition:
        """The transitions of all steps, with leading shape (batch, length)."""
        return self.each(lambda x: x)

    def window(self, start: int, stop: int) -> Transition:
        """The transitions of steps start..stop, time first: (stop - start, batch)."""
        return self.each(_window(start, stop))

    @abstractmethod
    def steps(self) -> Iterator[Transition]:
        """The transitions step by step, with leading shape (batch,)."""

    @abstractmethod
    def part(self, start: int, stop: int) -> "Source":
        """The source of steps start..stop alone."""

    def open_gradients(self) -> None:
        """Prepare to accumulate gradients of `tensors`."""
        self._gradients = [
            torch.zeros_like(x) if _has_gradient(x) else x.new_empty(0) for x in self.tensors
        ]

    @abstractmethod
    def window_with_pullback(
        self, start: int, stop: int, kept: Transition | None
    ) -> tuple[Transition, Pullback]:
        """A window and a function that adds its transitions' gradients to those of `tensors`."""

    def gradients(self) -> tuple[Tensor, ...]:
        """The accumulated gradients, in the order of `tensors`; of integer tensors, empty ones."""
        return tuple(self._gradients)

    @abstractmethod
    def unruled(self) -> str:
        """What of it has no rules without a tape, or not those of what it does; "" if all has."""

    @property
    def keeps(self) -> bool:
        """Whether the backward pass gains from transitions kept by the forward pass."""
        return False

    @abstractmethod
    def step_bytes(self) -> int:
        """Size of the transitions of one step of the whole batch."""

    @property
    @abstractmethod
    def recipe(self) -> Recipe:
        """From which, with `tensors`, `rebuild` makes this source again."""


def _window(start: int, stop: int) -> Callable[[Tensor], Tensor]:
    """The change that takes some steps, time first."""
    return lambda x: x[:, start:stop].transpose(0, 1).contiguous()


def _bytes(matrices: Matrices) -> int:
    stepwise = matrices.tensors()[: matrices.stepwise_count()]
    return sum(x.numel() * x.element_size() for x in stepwise)


def _has_gradient(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _is_ours(structure: Structure) -> bool:
    parts = structure.parts if isinstance(structure, DirectSum) else ()
    return type(structure).__module__.startswith(OURS) and all(map(_is_ours, parts))


class Made(Source):
    """Transitions made from increments (batch, length, channels).

    Attributes:
        structure, flow, parameters: what transitions are made by.
        path: the increments, or the rows of a table (vocabulary, channels).
        index: (batch, length) rows of the table, or None.
    """

    def __init__(
        self,
        structure: Structure,
        flow: Flow,
        parameters: Parameters,
        path: Tensor,
        index: Tensor | None = None,
    ) -> None:
        """Keep the pieces; nothing is computed yet."""
        self.structure, self.flow, self.parameters = structure, flow, parameters
        self.path, self.index, self.dim = path, index, structure.dim
        self.batch, self.length = (path if index is None else index).shape[:2]
        self.tensors = (*parameters.values(), path, *(() if index is None else (index,)))

    def make(self, increments: Tensor) -> Transition:
        """The transitions of increments (..., channels)."""
        return self.flow.transition(self.structure, self.parameters, increments)

    def driven(self, elements: Tensor) -> Transition:
        """The transitions of some of the `elements`."""
        return self.make(elements)

    @property
    def elements(self) -> Tensor:
        """What drives each step, (batch, length, ...): an increment, or a row of the table."""
        return self.path if self.index is None else self.index

    def each(self, change: Callable[[Tensor], Tensor]) -> Transition:
        """Made for these steps alone."""
        return self.driven(change(self.elements))

    def steps(self) -> Iterator[Transition]:
        """One by one, so that no more than one step's transitions exist."""
        yield from map(self.driven, self.elements.unbind(1))

    def part(self, start: int, stop: int) -> "Made":
        """Of some of the elements."""
        some = self.elements[:, start:stop]
        path = (some,) if self.index is None else (self.path, some.contiguous())
        return type(self)(self.structure, self.flow, self.parameters, *path)

    def unruled(self) -> str:
        """Our own all have; of others a transition is looked at."""
        if _is_ours(self.structure) and type(self.flow).__module__.startswith(OURS):
            return ""
        made = self.make(self.path[..., :1, :].detach())
        if all(type(leaf).agrees("adjoint", "pullback", "sizes") for leaf in leaves(made)):
            return ""
        kind = type(self.structure).__name__
        return f"{kind}, whose transitions override act, but inherit adjoint, pullback or sizes"

    @property
    def direct(self) -> bool:
        """Whether transitions are bilinear in parameters and increments, but for the identity."""
        return self.structure.bilinear and self.flow.is_euler(self.structure)

    @property
    def recipe(self) -> Recipe:
        """Structure, flow and names."""
        return self.structure, self.flow, list(self.parameters)

    def _pull(
        self, increments: Tensor, kept: Transition | None = None
    ) -> tuple[Transition, Callable[[tuple[Tensor, ...]], tuple[Parameters, Tensor]]]:
        """Transitions and a function from their gradients to those of parameters and increments.

        Through the structure's own pullback, also of transitions that were `kept`, or automatic
        differentiation.
        """
        structure, parameters = self.structure, self.parameters
        if self.direct:
            made = self.make(increments) if kept is None else kept
            return made, partial(structure.pullback, parameters, increments)
        names = [name for name, x in parameters.items() if _has_gradient(x)]
        skeleton: list[Transition] = []

        def tensors_of(*primals: Tensor) -> tuple[Tensor, ...]:
            *values, moved = primals
            trained = parameters | dict(zip(names, values, strict=True))
            made = self.flow.transition(structure, trained, moved)
            skeleton[:] = [made]
            return made.tensors()

        values = tuple(parameters[name] for name in names)
        tensors, pull_tensors = vjp(tensors_of, *values, increments)

        def pull(grads: tuple[Tensor, ...]) -> tuple[Parameters, Tensor]:
            *in_values, moved = pull_tensors(grads)
            return dict(zip(names, in_values, strict=True)), moved

        return skeleton[0].with_tensors(tensors), pull

    def step_bytes(self) -> int:
        """That of a row's generator, which is as large as its transition, for each sequence."""
        increment = self.path.new_zeros(1, self.path.shape[-1])
        return self.batch * _bytes(self.structure.combine(self.parameters, increment))

    @property
    def keeps(self) -> bool:
        """Where the pullback needs no second look at how they were made; a table's are few."""
        return self.direct and self.index is None

    def window_with_pullback(
        self, start: int, stop: int, kept: Transition | None
    ) -> tuple[Transition, Pullback]:
        """The gradients of the increments are those of the window's alone."""
        transition, pull = self._pull(_window(start, stop)(self.path), kept)

        def accumulate(grads: tuple[Tensor, ...]) -> None:
            in_parameters, moved = pull(grads)
            self._add(in_parameters)
            self._gradients[-1][:, start:stop] = moved.transpose(0, 1)

        return transition, accumulate

    def _add(self, in_parameters: Parameters) -> None:
        for total, name in zip(self._gradients, self.parameters, strict=False):
            if name in in_parameters:
                total += in_parameters[name]


class FromTable(Made):
    """Transitions made once per row of a table and looked up by index (batch, length)."""

    index: Tensor
    _rows: Transition | None = None

    def rows(self) -> Transition:
        """The transitions of the table's rows, made once."""
        if self._rows is None:
            self._rows = self.make(self.path)
        return self._rows

    def driven(self, elements: Tensor) -> Transition:
        """Of rows, looked up."""
        flat = elements.reshape(-1)
        return self.rows().map(lambda x: x.index_select(0, flat).unflatten(0, elements.shape))

    def open_gradients(self) -> None:
        """Also of the rows' transitions."""
        super().open_gradients()
        self._rows, self._pull_rows = self._pull(self.path)
        self._in_rows = tuple(torch.zeros_like(x) for x in self._rows.tensors())

    def window_with_pullback(
        self, start: int, stop: int, kept: Transition | None
    ) -> tuple[Transition, Pullback]:
        """Gradients are gathered row by row and pulled back once, at the end."""
        index = _window(start, stop)(self.index).view(-1)
        count = self.rows().stepwise_count()

        def accumulate(grads: tuple[Tensor, ...]) -> None:
            for i, (total, x) in enumerate(zip(self._in_rows, grads, strict=True)):
                if i < count:
                    total.index_add_(0, index, x.flatten(0, 1))
                else:
                    total += x

        return self.window(start, stop), accumulate

    def gradients(self) -> tuple[Tensor, ...]:
        """Those of the rows' transitions are pulled back first."""
        in_parameters, self._gradients[-2] = self._pull_rows(self._in_rows)
        self._add(in_parameters)
        return super().gradients()


LEAVES: dict[str, type[Transition]] = {
    cls.__name__: cls
    for cls in (DiagonalTransition, BlockTransition, RotationTransition, LowRankTransition)
}


def leaves(transition: Transition) -> list[Transition]:
    """The parts of a direct sum that are no sums themselves; otherwise the transition alone."""
    if type(transition) is SumTransition:
        return [leaf for part in transition.parts for leaf in leaves(part)]
    return [transition]


class FromTransitions(Source):
    """Transitions that someone else made, with leading shape (batch, length)."""

    def __init__(self, transition: Transition) -> None:
        """Keep the transitions."""
        self.transition = transition
        self.dim = transition.dim
        self.tensors = transition.tensors()
        self.batch, self.length = self.tensors[0].shape[:2]

    def each(self, change: Callable[[Tensor], Tensor]) -> Transition:
        """Picked from those that were given."""
        return self.transition.map(change)

    def steps(self) -> Iterator[Transition]:
        """Unbound along the length."""
        yield from self.transition.unbind(1)

    def part(self, start: int, stop: int) -> "FromTransitions":
        """Some of them."""
        return FromTransitions(self.transition.map(lambda x: x[:, start:stop]))

    def step_bytes(self) -> int:
        """A length-th of what was given."""
        return _bytes(self.transition) // self.length

    def window_with_pullback(
        self, start: int, stop: int, kept: Transition | None
    ) -> tuple[Transition, Pullback]:
        """The gradients of the transitions are what is asked for."""

        def accumulate(grads: tuple[Tensor, ...]) -> None:
            for total, x in zip(self._gradients, grads, strict=True):
                total[:, start:stop] = x.transpose(0, 1)

        return self.window(start, stop), accumulate

    def unruled(self) -> str:
        """Every part must be of a kind that `rebuild` knows."""
        known = all(type(leaf) in LEAVES.values() for leaf in leaves(self.transition))
        return "" if known else type(self.transition).__name__

    @property
    def recipe(self) -> Recipe:
        """The kinds of the parts."""
        return None, None, [type(leaf).__name__ for leaf in leaves(self.transition)]


def rebuild(
    structure: Structure | str | None,
    flow: Flow | str | None,
    names: Sequence[str],
    tensors: Sequence[Tensor],
) -> Source:
    """The source of a recipe, in which keys may stand for structure and flow, and its tensors."""
    if structure is None or flow is None:
        parts, at = [], 0
        for cls in (LEAVES[name] for name in names):
            parts.append(cls(*tensors[at : at + len(cls.stepwise)]))
            at += len(cls.stepwise)
        return FromTransitions(parts[0] if len(parts) == 1 else SumTransition(tuple(parts)))
    made_by = recall(structure) if isinstance(structure, str) else structure
    flow = flow_named(flow) if isinstance(flow, str) else flow
    path = tensors[len(names) :]
    made = Made if len(path) == 1 else FromTable
    return made(made_by, flow, dict(zip(names, tensors, strict=False)), *path)
