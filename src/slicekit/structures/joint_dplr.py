"""Diagonal plus low rank, jointly: A(Δω) = diag(D(Δω)) + U(Δω) V(Δω)^T, quadratic in Δω.

This is what the authors' token experiments and the delta-rule family use: the rank stays r however
many channels there are, and steps compose chunk by chunk.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from slicekit.descriptions import low_rank as descriptions
from slicekit.structures.base import (
    Drawn,
    Generator,
    Matrices,
    Parameters,
    Transition,
    weighted_sum,
    weighted_sum_pullback,
)
from slicekit.structures.diagonal import ones_unless
from slicekit.structures.exponential import exponential_action


@dataclass(frozen=True, eq=False)
class _LowRankMatrices(Matrices):
    """diag(diagonal) + left right^*: what generators and transitions have in common.

    Args:
        diagonal: (..., dim).
        left: (..., dim, rank).
        right: (..., dim, rank).
    """

    diagonal: Tensor
    left: Tensor
    right: Tensor
    stepwise: ClassVar[tuple[str, ...]] = ("diagonal", "left", "right")

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.diagonal.shape[-1]

    def act(self, state: Tensor) -> Tensor:
        """Two thin products and a scaling of state (..., dim, columns)."""
        return self.diagonal.unsqueeze(-1) * state + self.left @ (self.right.mH @ state)

    def adjoint(self) -> Self:
        """left and right change places."""
        return type(self)(self.diagonal.conj(), self.right, self.left)

    def pullback(self, before: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Thin outer products; nothing of size dim x dim."""
        in_diagonal = (cotangent * before.conj()).sum(-1)
        in_left = cotangent @ (self.right.mH @ before).mH
        in_right = before @ (self.left.mH @ cotangent).mH
        return in_diagonal, in_left, in_right


@dataclass(frozen=True, eq=False)
class LowRankTransition(_LowRankMatrices, Transition):
    """h is sent to (diag(diagonal) + left right^*) h.

    Args:
        diagonal: (..., dim).
        left: (..., dim, rank).
        right: (..., dim, rank).
    """

    def where(self, valid: Tensor) -> Self:
        """The identity wherever valid is false."""
        thin = valid.unsqueeze(-1).unsqueeze(-1)
        return type(self)(
            ones_unless(valid, self.diagonal),
            torch.where(thin, self.left, 0.0),
            self.right.where(thin, 0.0),
        )


@dataclass(frozen=True, eq=False)
class LowRankGenerator(_LowRankMatrices, Generator):
    """A = diag(diagonal) + left right^*, shapes as in LowRankTransition."""

    def euler(self) -> LowRankTransition:
        """I + A keeps the rank."""
        return LowRankTransition(1 + self.diagonal, self.left, self.right)

    def exponential(self, substeps: int | None = None) -> Transition:
        """exp(A) as an action on the state."""
        return exponential_action(self, substeps)

    def norm_bound(self) -> Tensor:
        """max |d| + ||U|| ||V||."""
        thin = torch.linalg.matrix_norm(self.left) * torch.linalg.matrix_norm(self.right)
        return self.diagonal.abs().amax(-1) + thin


@dataclass(frozen=True)
class JointDPLR(descriptions.JointDPLR, Drawn):
    """diag(D(Δω)) + U(Δω) V(Δω)^T, where D, U and V are linear in Δω.

    Args:
        dim: size of the state.
        rank: number of columns of U and V.
        scale: standard deviation of the initial diagonal; U V^T starts with entries of standard
            deviation scale^2 / sqrt(dim).

    Example:
        >>> JointDPLR(57, 4).parameter_count(channels=58)
        29754
    """

    def combine(self, parameters: Parameters, increments: Tensor) -> LowRankGenerator:
        """D(Δω), U(Δω) and V(Δω) for increments (..., channels)."""
        return LowRankGenerator(
            weighted_sum(increments, parameters["diagonal"]),
            weighted_sum(increments, parameters["left"]),
            weighted_sum(increments, parameters["right"]),
        )

    @property
    def bilinear(self) -> bool:
        """D, U and V are one product each."""
        return self.computes_as(JointDPLR)

    def pullback(
        self, parameters: Parameters, increments: Tensor, gradients: tuple[Tensor, ...]
    ) -> tuple[Parameters, Tensor]:
        """Two products for each of D, U and V."""
        in_parameters: Parameters = {}
        total = torch.zeros_like(increments)
        for name, gradient in zip(("diagonal", "left", "right"), gradients, strict=True):
            in_parameters[name], moved = weighted_sum_pullback(
                increments, parameters[name], gradient
            )
            total += moved
        return in_parameters, total
