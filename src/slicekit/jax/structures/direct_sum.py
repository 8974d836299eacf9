"""Structures side by side: A^i = diag(A^i_1, ..., A^i_p), each part of its own kind."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from slicekit.descriptions import composite as descriptions
from slicekit.jax.paths.lie_bases import LieBasis
from slicekit.jax.structures.base import (
    Drawn,
    Generator,
    Matrices,
    Parameters,
    Structure,
    Transition,
)


class _Sum(Matrices):
    """What generators and transitions of a direct sum have in common."""

    parts: tuple[Any, ...]

    @property
    def dim(self) -> int:
        """Size of the state: the parts' sizes added up."""
        return sum(part.dim for part in self.parts)

    def act(self, state: Array) -> Array:
        """Each part acts on its own rows."""
        rows = zip(self.parts, self.split(state), strict=True)
        return jnp.concatenate([part.act(x) for part, x in rows], axis=-2)

    def split(self, state: Array) -> list[Array]:
        """The rows of each part of state (..., dim, columns)."""
        edges = np.cumsum([part.dim for part in self.parts])[:-1].tolist()
        return jnp.split(state, edges, axis=-2)

    def as_dense(self) -> Array:
        """(..., dim, dim)."""
        blocks, at, rows = [part.as_dense() for part in self.parts], 0, []
        for block in blocks:
            size = block.shape[-1]
            room = [(0, 0)] * (block.ndim - 1) + [(at, self.dim - at - size)]
            rows.append(jnp.pad(block, room))
            at += size
        return jnp.concatenate(rows, axis=-2)

    def adjoint(self) -> "Matrices":
        """Part by part."""
        return type(self)(tuple(part.adjoint() for part in self.parts))

    def stepwise_count(self) -> int:
        """Stepwise arrays of all parts."""
        return sum(part.stepwise_count() for part in self.parts)

    def arrays(self) -> tuple[Array, ...]:
        """Stepwise arrays of all parts, then their shared ones."""
        stepwise = [x for p in self.parts for x in p.arrays()[: p.stepwise_count()]]
        shared = [x for p in self.parts for x in p.arrays()[p.stepwise_count() :]]
        return (*stepwise, *shared)

    def with_arrays(self, arrays: tuple[Array, ...]) -> Self:
        """The same sum with other arrays."""
        at, shared_at, parts = 0, self.stepwise_count(), []
        for part in self.parts:
            step, total = part.stepwise_count(), len(part.arrays())
            part_arrays = (*arrays[at : at + step], *arrays[shared_at : shared_at + total - step])
            at, shared_at = at + step, shared_at + total - step
            parts.append(part.with_arrays(part_arrays))
        return type(self)(tuple(parts))


class SumTransition(_Sum, Transition):
    """Transitions side by side; closed where every part is."""

    @property
    def closed(self) -> bool:
        """Whether every part is closed."""
        return all(part.closed for part in self.parts)

    def compose(self, earlier: Any) -> Self:
        """Part by part."""
        pairs = zip(self.parts, earlier.parts, strict=True)
        return type(self)(tuple(later.compose(first) for later, first in pairs))

    def sizes(self, state: Array) -> Array:
        """Part by part."""
        rows = zip(self.parts, self.split(state), strict=True)
        return jnp.concatenate([part.sizes(x) for part, x in rows], axis=-2)

    def where(self, valid: Array) -> Self:
        """Part by part."""
        return type(self)(tuple(part.where(valid) for part in self.parts))


class SumGenerator(_Sum, Generator):
    """Generators side by side."""

    def _each(self, flow: Callable[[Any], Transition]) -> SumTransition:
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

    def norm_bound(self) -> Array:
        """The largest of the parts' bounds."""
        return jnp.stack([part.norm_bound() for part in self.parts]).max(0)


def _beside(transitions: list[Transition]) -> Transition:
    return transitions[0] if len(transitions) == 1 else SumTransition(tuple(transitions))


class Composite(descriptions.Composite, Drawn):
    """A structure made of parts; with a single part it behaves as that part does."""

    parts: tuple[Any, ...]

    def init(self, channels: int, key: Array, *, increment: float = 1.0) -> Parameters:
        """The parts' parameters, with the names part0_..., part1_... where there are several."""
        keys = jax.random.split(key, len(self.parts))
        pairs = zip(self.parts, keys, strict=True)
        return self.gathered(
            part.init(channels, part_key, increment=increment) for part, part_key in pairs
        )

    def shapes(self, channels: int) -> dict[str, tuple[int, ...]]:
        """Those of all parts."""
        return self.gathered(part.shapes(channels) for part in self.parts)

    def combine(self, parameters: Parameters, increments: Array) -> Generator:
        """The parts' generators side by side."""
        owned = zip(self.parts, self.own(parameters), strict=True)
        generators = [part.combine(theta, increments) for part, theta in owned]
        return generators[0] if len(generators) == 1 else SumGenerator(tuple(generators))

    def euler(self, parameters: Parameters, increments: Array) -> Transition:
        """I + A(Δω) in every part."""
        owned = zip(self.parts, self.own(parameters), strict=True)
        transitions = [part.euler(theta, increments) for part, theta in owned]
        return _beside(transitions)

    def natural(self, parameters: Parameters, increments: Array) -> Transition:
        """Every part's own choice."""
        if type(self).exponential_only:
            return self.combine(parameters, increments).exponential()
        owned = zip(self.parts, self.own(parameters), strict=True)
        return _beside([part.natural(theta, increments) for part, theta in owned])

    def beside(self, parts: list[Structure]) -> "DirectSum":
        """Those parts side by side."""
        return DirectSum(*parts)

    def lift_parameters(self, parameters: Parameters, basis: LieBasis) -> Parameters:
        """Part by part."""
        owned = zip(self.parts, self.own(parameters), strict=True)
        return self.gathered(part.lift_parameters(theta, basis) for part, theta in owned)


@dataclass(frozen=True, init=False)
class DirectSum(descriptions.DirectSum, Composite):
    """Any structures side by side on the diagonal, as `slicekit.DirectSum`.

    Args:
        structures: the parts, from the top left.

    >>> from slicekit.jax import Dense, Diagonal
    >>> DirectSum(Diagonal(256), Dense(16)).dim
    272
    """

    part_class = Structure
