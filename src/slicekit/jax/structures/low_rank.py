"""Diagonal plus low rank: linear in Δω as the paper has it (`DPLR`), or jointly (`JointDPLR`).

DPLR: A(Δω) h = d h + U (w * (V^T h)), with the same factors at every step and weights w = Δω.
JointDPLR: A(Δω) = diag(D(Δω)) + U(Δω) V(Δω)^T, quadratic in Δω, of rank r for any channels.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import jax.numpy as jnp
from jax import Array

from slicekit.descriptions import low_rank as descriptions
from slicekit.jax.structures.base import (
    Drawn,
    Generator,
    Matrices,
    Parameters,
    Transition,
    weighted_sum,
)
from slicekit.jax.structures.exponential import EulerAction, ExponentialAction, exponential_action


class SharedFactorGenerator(Generator):
    """A = diag(diagonal) + left diag(weights) right^T with factors that hold for every step.

    Args:
        diagonal: (..., dim).
        weights: (..., channels * rank).
        left: (dim, channels * rank).
        right: (dim, channels * rank).
    """

    diagonal: Array
    weights: Array
    left: Array
    right: Array
    stepwise: ClassVar[tuple[str, ...]] = ("diagonal", "weights")
    shared: ClassVar[tuple[str, ...]] = ("left", "right")

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.diagonal.shape[-1]

    def act(self, state: Array) -> Array:
        """Two products with the shared factors for state (..., dim, columns)."""
        inner = (state.mT @ self.right) * self.weights[..., None, :]
        return self.diagonal[..., None] * state + (inner @ self.left.T).mT

    def adjoint(self) -> "SharedFactorGenerator":
        """left and right change places."""
        return SharedFactorGenerator(self.diagonal, self.weights, self.right, self.left)

    def euler(self) -> EulerAction:
        """h + A h."""
        return EulerAction(self)

    def exponential(self, substeps: int | None = None) -> ExponentialAction:
        """exp(A) as an action on the state."""
        return exponential_action(self, substeps)

    def norm_bound(self) -> Array:
        """max |d| + Σ_j |w_j| ||u_j|| ||v_j||."""
        lengths = jnp.linalg.norm(self.left, axis=0) * jnp.linalg.norm(self.right, axis=0)
        return jnp.abs(self.diagonal).max(-1) + jnp.abs(self.weights) @ lengths


class _LowRankMatrices(Matrices):
    """diag(diagonal) + left right^*: what generators and transitions have in common.

    Args:
        diagonal: (..., dim).
        left: (..., dim, rank).
        right: (..., dim, rank).
    """

    diagonal: Array
    left: Array
    right: Array
    stepwise: ClassVar[tuple[str, ...]] = ("diagonal", "left", "right")

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.diagonal.shape[-1]

    def act(self, state: Array) -> Array:
        """Two thin products and a scaling of state (..., dim, columns)."""
        return self.diagonal[..., None] * state + self.left @ (self.right.mT.conj() @ state)

    def adjoint(self) -> Self:
        """left and right change places."""
        return type(self)(self.diagonal.conj(), self.right, self.left)


class LowRankTransition(_LowRankMatrices, Transition):
    """h is sent to (diag(diagonal) + left right^*) h.

    Args:
        diagonal: (..., dim).
        left: (..., dim, rank).
        right: (..., dim, rank).
    """

    def where(self, valid: Array) -> Self:
        """The identity wherever valid is false."""
        return type(self)(
            jnp.where(valid[..., None], self.diagonal, 1),
            jnp.where(valid[..., None, None], self.left, 0),
            jnp.where(valid[..., None, None], self.right, 0),
        )


class LowRankGenerator(_LowRankMatrices, Generator):
    """A = diag(diagonal) + left right^*, shapes as in LowRankTransition."""

    def euler(self) -> LowRankTransition:
        """I + A keeps the rank."""
        return LowRankTransition(1 + self.diagonal, self.left, self.right)

    def exponential(self, substeps: int | None = None) -> ExponentialAction:
        """exp(A) as an action on the state."""
        return exponential_action(self, substeps)

    def norm_bound(self) -> Array:
        """max |d| + ||U|| ||V||."""
        thin = jnp.linalg.norm(self.left, axis=(-2, -1)) * jnp.linalg.norm(
            self.right, axis=(-2, -1)
        )
        return jnp.abs(self.diagonal).max(-1) + thin


@dataclass(frozen=True)
class DPLR(descriptions.DPLR, Drawn):
    """diag(d^i) + Σ_j u^{i,j} (v^{i,j})^T, linear in Δω, as `slicekit.DPLR`.

    Args:
        dim: size of the state.
        rank: number of outer products in each A^i.
        scale: standard deviation of the initial diagonal; U V^T starts with entries of standard
            deviation scale^2 / sqrt(dim).
    """

    def combine(self, parameters: Parameters, increments: Array) -> SharedFactorGenerator:
        """Weights Δω^i, repeated for each of the rank factors of channel i."""
        left, right = (
            jnp.moveaxis(parameters[name], 1, 0).reshape(self.dim, -1) for name in ("left", "right")
        )
        return SharedFactorGenerator(
            weighted_sum(increments, parameters["diagonal"]),
            jnp.repeat(increments, self.rank, axis=-1),
            left,
            right,
        )


@dataclass(frozen=True)
class JointDPLR(descriptions.JointDPLR, Drawn):
    """diag(D(Δω)) + U(Δω) V(Δω)^T, where D, U and V are linear in Δω, as `slicekit.JointDPLR`.

    Args:
        dim: size of the state.
        rank: number of columns of U and V.
        scale: standard deviation of the initial diagonal; U V^T starts with entries of standard
            deviation scale^2 / sqrt(dim).
    """

    def combine(self, parameters: Parameters, increments: Array) -> LowRankGenerator:
        """D(Δω), U(Δω) and V(Δω) for increments (..., channels)."""
        return LowRankGenerator(
            weighted_sum(increments, parameters["diagonal"]),
            weighted_sum(increments, parameters["left"]),
            weighted_sum(increments, parameters["right"]),
        )
