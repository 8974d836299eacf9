"""Diagonal plus low rank, as the paper defines it: A^i = diag(d^i) + Σ_j u^{i,j} (v^{i,j})^T.

A(Δω) is linear in Δω, so its low-rank part has rank up to channels x rank; but the factors are the
same at every step and only their weights change: A(Δω) h = d h + U (w * (V^T h)).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from slicekit.descriptions import low_rank as descriptions
from slicekit.structures.base import Drawn, Generator, Parameters, weighted_sum
from slicekit.structures.exponential import EulerAction, ExponentialAction, exponential_action


def _times(rows: Tensor, factor: Tensor) -> Tensor:
    """rows (..., n) times one factor (n, m) for all: a single product, not one for each batch."""
    return (rows.reshape(-1, rows.shape[-1]) @ factor).reshape(*rows.shape[:-1], factor.shape[1])


@dataclass(frozen=True, eq=False)
class SharedFactorGenerator(Generator):
    """A = diag(diagonal) + left diag(weights) right^T with factors that hold for every step.

    Args:
        diagonal: (..., dim).
        weights: (..., channels * rank).
        left: (dim, channels * rank).
        right: (dim, channels * rank).
    """

    diagonal: Tensor
    weights: Tensor
    left: Tensor
    right: Tensor
    stepwise: ClassVar[tuple[str, ...]] = ("diagonal", "weights")
    shared: ClassVar[tuple[str, ...]] = ("left", "right")

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.diagonal.shape[-1]

    def act(self, state: Tensor) -> Tensor:
        """Two products with the shared factors for state (..., dim, columns)."""
        inner = _times(state.mT, self.right) * self.weights.unsqueeze(-2)
        return self.diagonal.unsqueeze(-1) * state + _times(inner, self.left.t()).mT

    def adjoint(self) -> "SharedFactorGenerator":
        """left and right change places."""
        return SharedFactorGenerator(self.diagonal, self.weights, self.right, self.left)

    def euler(self) -> EulerAction:
        """h + A h."""
        return EulerAction(self)

    def exponential(self, substeps: int | None = None) -> ExponentialAction:
        """exp(A) as an action on the state."""
        return exponential_action(self, substeps)

    def norm_bound(self) -> Tensor:
        """max |d| + Σ_j |w_j| ||u_j|| ||v_j||."""
        lengths = torch.linalg.vector_norm(self.left, dim=0)
        lengths = lengths * torch.linalg.vector_norm(self.right, dim=0)
        return self.diagonal.abs().amax(-1) + self.weights.abs() @ lengths

    def pullback(self, before: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Four products with the factors for all steps at once."""
        rows, moved = before.mT, cotangent.mT
        inner, outer = _times(rows, self.right), _times(moved, self.left)
        weights = self.weights.unsqueeze(-2)
        in_left = moved.flatten(0, -2).t() @ (inner * weights).flatten(0, -2)
        in_right = rows.flatten(0, -2).t() @ (outer * weights).flatten(0, -2)
        in_diagonal = (cotangent * before).sum(-1)
        return in_diagonal, (inner * outer).sum(-2), in_left, in_right


@dataclass(frozen=True)
class DPLR(descriptions.DPLR, Drawn):
    """diag(d^i) + Σ_j u^{i,j} (v^{i,j})^T, linear in Δω.

    Args:
        dim: size of the state.
        rank: number of outer products in each A^i.
        scale: standard deviation of the initial diagonal; U V^T starts with entries of standard
            deviation scale^2 / sqrt(dim).

    Example:
        >>> DPLR(57, 4).parameter_count(channels=58)
        29754
    """

    def combine(self, parameters: Parameters, increments: Tensor) -> SharedFactorGenerator:
        """Weights Δω^i, repeated for each of the rank factors of channel i."""
        left, right = (parameters[name].movedim(1, 0).flatten(1) for name in ("left", "right"))
        return SharedFactorGenerator(
            weighted_sum(increments, parameters["diagonal"]),
            increments.repeat_interleave(self.rank, dim=-1),
            left,
            right,
        )
