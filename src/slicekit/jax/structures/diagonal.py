"""Diagonal matrices: A^i = diag(d^i). D-SLiCE; the field of S4D, S6 and Mamba."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import jax.numpy as jnp
from jax import Array

from slicekit.descriptions import diagonal as descriptions
from slicekit.jax.paths.lie_bases import LieBasis
from slicekit.jax.structures.base import (
    Drawn,
    Generator,
    Matrices,
    Parameters,
    Transition,
    weighted_sum,
)


class _Diagonals(Matrices):
    """What generators and transitions that are diagonal have in common; values (..., dim)."""

    values: Array
    stepwise: ClassVar[tuple[str, ...]] = ("values",)

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.values.shape[-1]

    def act(self, state: Array) -> Array:
        """Scale the rows of state (..., dim, columns)."""
        return self.values[..., None] * state

    def adjoint(self) -> Self:
        """The complex conjugate."""
        return type(self)(self.values.conj())


class DiagonalTransition(_Diagonals, Transition):
    """h is sent to values * h; values (..., dim), real or complex."""

    @property
    def closed(self) -> bool:
        """Yes."""
        return True

    def compose(self, earlier: Any) -> Self:
        """The elementwise product."""
        return type(self)(self.values * earlier.values)

    def sizes(self, state: Array) -> Array:
        """Every row is alone."""
        return jnp.abs(state)

    def where(self, valid: Array) -> Self:
        """One wherever valid is false."""
        return type(self)(jnp.where(valid[..., None], self.values, 1))


class DiagonalGenerator(_Diagonals, Generator):
    """A = diag(values); values (..., dim)."""

    def euler(self) -> DiagonalTransition:
        """1 + values."""
        return DiagonalTransition(1 + self.values)

    def exponential(self, substeps: int | None = None) -> DiagonalTransition:
        """Elementwise exponential: always positive for real values, so it never flips a sign."""
        return DiagonalTransition(jnp.exp(self.values))

    def bracket(self, other: Generator) -> Generator:
        """Zero: diagonal matrices commute."""
        if not isinstance(other, DiagonalGenerator):
            return super().bracket(other)
        return DiagonalGenerator(jnp.zeros_like(self.values * other.values))

    def norm_bound(self) -> Array:
        """Largest modulus."""
        return jnp.abs(self.values).max(-1)


@dataclass(frozen=True)
class Diagonal(descriptions.Diagonal, Drawn):
    """Diagonal A^i of size dim x dim, as `slicekit.Diagonal`.

    Args:
        dim: size of the state.
        scale: standard deviation of the initial entries.

    >>> d = Diagonal(3)
    >>> parameters = {"values": jnp.array([[1.0, 2.0, 3.0]])}
    >>> jnp.diagonal(d.combine(parameters, jnp.array([2.0])).as_dense())
    Array([2., 4., 6.], dtype=float32)
    """

    def combine(self, parameters: Parameters, increments: Array) -> DiagonalGenerator:
        """Σ_i Δω^i d^i for increments (..., channels)."""
        return DiagonalGenerator(weighted_sum(increments, parameters["values"]))

    def lift_parameters(self, parameters: Parameters, basis: LieBasis) -> Parameters:
        """Zero at every bracket."""
        values = parameters["values"]
        return {"values": jnp.pad(values, ((0, basis.size - basis.channels), (0, 0)))}
