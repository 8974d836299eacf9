"""Diagonal matrices: A^i = diag(d^i). D-SLiCE; the field of S4D, S6 and Mamba."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from slicekit.descriptions import diagonal as descriptions
from slicekit.paths.lie_bases import LieBasis
from slicekit.structures.base import (
    Drawn,
    Generator,
    Matrices,
    Parameters,
    Transition,
    weighted_sum,
    weighted_sum_pullback,
)


def narrowed(diagonal: Tensor) -> Tensor:
    """(..., 1) if the last axis is one number expanded, which fast paths know by its zero stride.

    Args:
        diagonal: (..., dim).
    """
    return diagonal[..., :1] if diagonal.stride(-1) == 0 else diagonal


def ones_unless(valid: Tensor, diagonal: Tensor) -> Tensor:
    """The diagonal (..., dim), one wherever valid is false; expanded numbers stay expanded."""
    return torch.where(valid.unsqueeze(-1), narrowed(diagonal), 1.0).expand_as(diagonal)


@dataclass(frozen=True, eq=False)
class _Diagonals(Matrices):
    """What generators and transitions that are diagonal have in common; values (..., dim)."""

    values: Tensor
    stepwise: ClassVar[tuple[str, ...]] = ("values",)

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.values.shape[-1]

    def act(self, state: Tensor) -> Tensor:
        """Scale the rows of state (..., dim, columns)."""
        return self.values.unsqueeze(-1) * state

    def adjoint(self) -> Self:
        """The complex conjugate."""
        return type(self)(self.values.conj())

    def pullback(self, before: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Gradient in the values, summed over columns."""
        gradient = (cotangent * before.conj()).sum(-1)
        return (gradient if self.values.is_complex() else gradient.real,)


@dataclass(frozen=True, eq=False)
class DiagonalTransition(_Diagonals, Transition):
    """h is sent to values * h; values (..., dim), real or complex."""

    closed: ClassVar[bool] = True

    def compose(self, earlier: Any) -> Self:
        """The elementwise product."""
        return type(self)(self.values * earlier.values)

    def where(self, valid: Tensor) -> Self:
        """One wherever valid is false."""
        return type(self)(ones_unless(valid, self.values))

    def sizes(self, state: Tensor) -> Tensor:
        """Every row is alone."""
        return state.abs()

    def isometry_defect(self) -> Tensor:
        """Exact: how far the moduli are from one."""
        return (self.values.abs().square() - 1).square().mean(-1)


@dataclass(frozen=True, eq=False)
class DiagonalGenerator(_Diagonals, Generator):
    """A = diag(values); values (..., dim)."""

    def euler(self) -> DiagonalTransition:
        """1 + values."""
        return DiagonalTransition(1 + self.values)

    def exponential(self, substeps: int | None = None) -> DiagonalTransition:
        """Elementwise exponential: always positive for real values, so it never flips a sign."""
        return DiagonalTransition(self.values.exp())

    def bracket(self, other: Generator) -> Generator:
        """Zero: diagonal matrices commute."""
        if not isinstance(other, DiagonalGenerator):
            return super().bracket(other)
        return DiagonalGenerator(torch.zeros_like(self.values * other.values))

    def norm_bound(self) -> Tensor:
        """Largest modulus."""
        return self.values.abs().amax(-1)


@dataclass(frozen=True)
class Diagonal(descriptions.Diagonal, Drawn):
    """Diagonal A^i of size dim x dim.

    Args:
        dim: size of the state.
        scale: standard deviation of the initial entries.

    Example:
        >>> import torch
        >>> d = Diagonal(3)
        >>> parameters = {"values": torch.tensor([[1.0, 2.0, 3.0]])}
        >>> d.combine(parameters, torch.tensor([2.0])).as_dense().diagonal()
        tensor([2., 4., 6.])
    """

    def combine(self, parameters: Parameters, increments: Tensor) -> DiagonalGenerator:
        """Σ_i Δω^i d^i for increments (..., channels)."""
        return DiagonalGenerator(weighted_sum(increments, parameters["values"]))

    def lift_parameters(self, parameters: Parameters, basis: LieBasis) -> Parameters:
        """Zero at every bracket."""
        values = parameters["values"]
        return {"values": F.pad(values, (0, 0, 0, basis.size - basis.channels))}

    @property
    def bilinear(self) -> bool:
        """A(Δω) is one product."""
        return self.computes_as(Diagonal)

    def pullback(
        self, parameters: Parameters, increments: Tensor, gradients: tuple[Tensor, ...]
    ) -> tuple[Parameters, Tensor]:
        """Two products, one for the parameters and one for the increments."""
        values, moved = weighted_sum_pullback(increments, parameters["values"], gradients[0])
        return {"values": values}, moved
