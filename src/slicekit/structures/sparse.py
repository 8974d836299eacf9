"""Sparse matrices: A^i = mask^i ⊙ Gaussian, with a mask drawn once. S-SLiCE.

Only the entries inside the masks are stored, with their places. A(Δω) sums many masks and is not
sparse itself: it is formed step by step, and acts on the state.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from slicekit.structures.base import Facts, Parameters, Structure, normal, weighted_sum
from slicekit.structures.block_diagonal import BlockGenerator
from slicekit.structures.exponential import EulerAction, ExponentialAction, exponential_action

EPSILON = 3 / 7
"""Of the paper's S-SLiCE on A5: 1,024 entries expected at dim 128."""


@dataclass(frozen=True, eq=False)
class SparseGenerator(BlockGenerator):
    """A sum of sparse matrices as one block (..., 1, dim, dim), acting on the state."""

    def euler(self) -> EulerAction:
        """h + A h."""
        return EulerAction(self)

    def exponential(self, substeps: int | None = None) -> ExponentialAction:
        """exp(A) as an action on the state."""
        return exponential_action(self, substeps)


@dataclass(frozen=True)
class Sparse(Structure):
    """A^i with a random pattern of non-zero entries, fixed when the parameters are made.

    Args:
        dim: size of the state.
        density: probability p that an entry is kept; instead of epsilon.
        epsilon: the paper's ε in (0, 1): dim^(1 + ε) entries expected, p = dim^(ε - 1). Without
            density and epsilon it is 3/7, as in the paper's state tracking.
        scale: kept entries start with standard deviation scale / sqrt(dim p).

    Example:
        >>> Sparse(128).probability == Sparse(128, epsilon=3 / 7).probability
        True
        >>> Sparse(128).probability
        0.0625
    """

    dim: int
    density: float | None = None
    epsilon: float | None = None
    scale: float = field(default=1.0, kw_only=True)
    ragged = ("values", "places")
    facts: ClassVar[Facts] = Facts(
        model="S-SLiCE",
        matrix="mask ⊙ full",
        parameters="dω dh^(1+ε)",
        recurrent="dω dh^(1+ε)",
        composition="dh³",
        closed=False,
        expressive=True,
        theorem="the paper, Theorem on S-SLiCEs",
        citations=("walker2025slices",),
    )

    def __post_init__(self) -> None:
        """Check that at most one of density and epsilon is given, in its range."""
        if self.density is None and self.epsilon is None:
            object.__setattr__(self, "epsilon", EPSILON)
        elif self.density is not None and self.epsilon is not None:
            raise ValueError(
                f"density={self.density}, epsilon={self.epsilon}; expected at most one of them"
            )
        if self.density is not None and not 0 < self.density <= 1:
            raise ValueError(f"density={self.density}; expected a probability in (0, 1]")
        if self.epsilon is not None and not 0 < self.epsilon < 1:
            raise ValueError(f"epsilon={self.epsilon}; expected a number in (0, 1)")
        super().__post_init__()

    @property
    def probability(self) -> float:
        """p, the chance that an entry is kept."""
        if self.density is not None:
            return self.density
        assert self.epsilon is not None
        return round(self.dim ** (self.epsilon - 1), 15)

    def init(
        self, channels: int, generator: torch.Generator | None = None, *, increment: float = 1.0
    ) -> Parameters:
        """{"values": (kept,), "places": (kept,) integers into (channels, dim, dim)}."""
        kept = torch.rand(channels * self.dim**2, generator=generator) < self.probability
        places = kept.nonzero().squeeze(1)
        std = self.scale / (self.dim * self.probability) ** 0.5
        return {"values": normal((places.numel(),), std, generator), "places": places}

    def blank(self, channels: int) -> Parameters:
        """As expected; the true number of kept entries is random."""
        kept = self.parameter_count(channels)
        meta = torch.device("meta")
        places = torch.empty(kept, dtype=torch.int64, device=meta)
        return {"values": torch.empty(kept, device=meta), "places": places}

    def combine(self, parameters: Parameters, increments: Tensor) -> SparseGenerator:
        """Σ_i Δω^i A^i for increments (..., channels)."""
        values, places = parameters["values"], parameters["places"]
        channels = increments.shape[-1]
        full = values.new_zeros(channels * self.dim**2).index_put((places,), values)
        return SparseGenerator(weighted_sum(increments, full.view(channels, 1, self.dim, self.dim)))

    def parameter_count(self, channels: int) -> int:
        """Expected number of kept entries."""
        return round(channels * self.dim**2 * self.probability)

    def step_cost(self, channels: int) -> int:
        """One multiplication for each kept entry, and the action."""
        return self.parameter_count(channels) + self.dim**2
