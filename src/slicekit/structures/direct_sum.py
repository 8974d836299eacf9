"""Structures side by side: A^i = diag(A^i_1, ..., A^i_p), each part of its own kind."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from slicekit.descriptions import composite as descriptions
from slicekit.paths.lie_bases import LieBasis
from slicekit.structures.base import (
    Drawn,
    Generator,
    Matrices,
    Parameters,
    Structure,
    Transition,
)


def _split_tensors(parts: tuple[Matrices, ...], tensors: tuple[Tensor, ...]) -> list:
    """Deal out a flat tuple, stepwise tensors of all parts first, then the shared ones."""
    steps = [part.stepwise_count() for part in parts]
    totals = [len(part.tensors()) for part in parts]
    at, shared_at, dealt = 0, sum(steps), []
    for step, total in zip(steps, totals, strict=True):
        part_tensors = (*tensors[at : at + step], *tensors[shared_at : shared_at + total - step])
        at, shared_at = at + step, shared_at + total - step
        dealt.append(part_tensors)
    return dealt


@dataclass(frozen=True, eq=False)
class _Sum(Matrices):
    """What generators and transitions of a direct sum have in common."""

    parts: tuple

    @property
    def dim(self) -> int:
        """Size of the state: the parts' sizes added up."""
        return sum(part.dim for part in self.parts)

    def split(self, state: Tensor) -> tuple[Tensor, ...]:
        """Each part's rows of state (..., dim, columns)."""
        return state.split([part.dim for part in self.parts], dim=-2)

    def act(self, state: Tensor) -> Tensor:
        """Each part acts on its own rows."""
        rows = self.split(state)
        return torch.cat([p.act(x) for p, x in zip(self.parts, rows, strict=True)], dim=-2)

    def adjoint(self) -> "Matrices":
        """Part by part."""
        return type(self)(tuple(part.adjoint() for part in self.parts))

    def stepwise_count(self) -> int:
        """Stepwise tensors of all parts."""
        return sum(part.stepwise_count() for part in self.parts)

    def tensors(self) -> tuple[Tensor, ...]:
        """Stepwise tensors of all parts, then their shared ones."""
        stepwise = [x for p in self.parts for x in p.tensors()[: p.stepwise_count()]]
        shared = [x for p in self.parts for x in p.tensors()[p.stepwise_count() :]]
        return (*stepwise, *shared)

    def with_tensors(self, tensors: tuple[Tensor, ...]) -> Self:
        """The same sum with other tensors."""
        dealt = _split_tensors(self.parts, tensors)
        parts = (
            p.with_tensors(part_tensors) for p, part_tensors in zip(self.parts, dealt, strict=True)
        )
        return type(self)(tuple(parts))

    def pullback(self, before: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Part by part, in the order of `tensors`."""
        rows = zip(self.parts, self.split(before), self.split(cotangent), strict=True)
        gradients = [(part.stepwise_count(), part.pullback(b, c)) for part, b, c in rows]
        stepwise = [x for count, pulled in gradients for x in pulled[:count]]
        return (*stepwise, *(x for count, pulled in gradients for x in pulled[count:]))


@dataclass(frozen=True, eq=False)
class SumTransition(_Sum, Transition):
    """Transitions side by side; closed where every part is."""

    parts: tuple[Transition, ...]

    @property
    def closed(self) -> bool:  # type: ignore[override]
        """Whether every part is closed."""
        return all(part.closed for part in self.parts)

    def compose(self, earlier: Any) -> Self:
        """Part by part."""
        pairs = zip(self.parts, earlier.parts, strict=True)
        return type(self)(tuple(later.compose(first) for later, first in pairs))

    def where(self, valid: Tensor) -> Self:
        """Part by part."""
        return type(self)(tuple(part.where(valid) for part in self.parts))

    def isometry_defect(self) -> Tensor:
        """The parts' added up, so that a small part counts as much as a large one."""
        return torch.stack([part.isometry_defect() for part in self.parts]).sum(0)

    def sizes(self, state: Tensor) -> Tensor:
        """Part by part."""
        rows = zip(self.parts, self.split(state), strict=True)
        return torch.cat([part.sizes(x) for part, x in rows], -2)


@dataclass(frozen=True, eq=False)
class SumGenerator(_Sum, Generator):
    """Generators side by side."""

    parts: tuple[Generator, ...]

    def _each(self, flow: Callable[[Generator], Transition]) -> SumTransition:
        return SumTransition(tuple(flow(part) for part in self.parts))

    def euler(self) -> SumTransition:
        """I + A in every part."""
        return self._each(lambda part: part.euler())

    def exponential(self, substeps: int | None = None) -> SumTransition:
        """exp(A) in every part."""
        return self._each(lambda part: part.exponential(substeps))

    def natural(self) -> SumTransition:
        """Every part's own natural flow."""
        return self._each(lambda part: part.natural())

    @property
    def takes_euler_steps(self) -> bool:
        """Whether every part does, unless a subclass has a choice of its own."""
        parts = type(self).natural is SumGenerator.natural
        return parts and all(part.takes_euler_steps for part in self.parts)

    def bracket(self, other: Generator) -> Generator:
        """Part by part, where both have the same parts."""
        if isinstance(other, SumGenerator) and [p.dim for p in other.parts] == [
            p.dim for p in self.parts
        ]:
            pairs = zip(self.parts, other.parts, strict=True)
            return SumGenerator(tuple(a.bracket(b) for a, b in pairs))
        return super().bracket(other)

    def norm_bound(self) -> Tensor:
        """The largest of the parts' bounds."""
        return torch.stack([part.norm_bound() for part in self.parts]).amax(0)


def _beside(transitions: list[Transition]) -> Transition:
    return transitions[0] if len(transitions) == 1 else SumTransition(tuple(transitions))


class Composite(descriptions.Composite, Drawn):
    """A structure made of parts; with a single part it behaves as that part does."""

    parts: tuple[Structure, ...]

    def init(
        self, channels: int, generator: torch.Generator | None = None, *, increment: float = 1.0
    ) -> Parameters:
        """The parts' parameters, with the names part0_..., part1_... where there are several."""
        return self.gathered(
            part.init(channels, generator, increment=increment) for part in self.parts
        )

    def blank(self, channels: int) -> Parameters:
        """The parts' parameters without data."""
        return self.gathered(part.blank(channels) for part in self.parts)

    def check_pattern(self, parameters: Parameters, channels: int) -> None:
        """Part by part."""
        for part, theta in zip(self.parts, self.own(parameters), strict=True):
            part.check_pattern(theta, channels)

    def combine(self, parameters: Parameters, increments: Tensor) -> Generator:
        """The parts' generators side by side."""
        owned = zip(self.parts, self.own(parameters), strict=True)
        generators = [part.combine(theta, increments) for part, theta in owned]
        return generators[0] if len(generators) == 1 else SumGenerator(tuple(generators))

    def euler(self, parameters: Parameters, increments: Tensor) -> Transition:
        """I + A(Δω) in every part."""
        owned = zip(self.parts, self.own(parameters), strict=True)
        transitions = [part.euler(theta, increments) for part, theta in owned]
        return _beside(transitions)

    def natural(self, parameters: Parameters, increments: Tensor) -> Transition:
        """Every part's own choice."""
        if self.takes_euler_steps:
            return self.euler(parameters, increments)
        if type(self).exponential_only:
            return self.combine(parameters, increments).exponential()
        owned = zip(self.parts, self.own(parameters), strict=True)
        return _beside([part.natural(theta, increments) for part, theta in owned])

    @property
    def takes_euler_steps(self) -> bool:
        """Whether every part does, unless a subclass says otherwise of the whole."""
        parts = type(self).natural is Composite.natural and not self.exponential_only
        return parts and all(part.takes_euler_steps for part in self.parts)

    def beside(self, parts: list[Structure]) -> "DirectSum":
        """Those parts side by side."""
        return DirectSum(*parts)

    def lift_parameters(self, parameters: Parameters, basis: LieBasis) -> Parameters:
        """Part by part."""
        owned = zip(self.parts, self.own(parameters), strict=True)
        return self.gathered(part.lift_parameters(theta, basis) for part, theta in owned)

    @property
    def bilinear(self) -> bool:
        """Whether every part's pullback is known."""
        return self.computes_as(Composite) and all(part.bilinear for part in self.parts)

    def pullback(
        self, parameters: Parameters, increments: Tensor, gradients: tuple[Tensor, ...]
    ) -> tuple[Parameters, Tensor]:
        """The parts' gradients; those of the increments are added up."""
        in_parameters: Parameters = {}
        in_increments: list[Tensor] = []
        at = 0
        owned = self.own(parameters)
        for prefix, part, theta in zip(self.prefixes, self.parts, owned, strict=True):
            mine, moved = part.pullback(theta, increments, gradients[at : at + len(theta)])
            in_parameters |= {prefix + name: x for name, x in mine.items()}
            in_increments.append(moved)
            at += len(theta)
        total = in_increments[0]
        for moved in in_increments[1:]:
            total += moved
        return in_parameters, total


@dataclass(frozen=True, init=False)
class DirectSum(descriptions.DirectSum, Composite):
    """Any structures side by side on the diagonal.

    Args:
        structures: the parts, from the top left.

    Example:
        >>> from slicekit.structures import Dense, Diagonal
        >>> DirectSum(Diagonal(256), Dense(16)).dim
        272
    """

    part_class = Structure
