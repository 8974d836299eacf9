"""Sparse matrices: A^i = mask^i ⊙ Gaussian, with a mask drawn once. S-SLiCE.

Only the entries inside the masks are stored, with their places. A(Δω) sums many masks and is not
sparse itself: it is formed step by step, and acts on the state.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.descriptions import sparse as descriptions
from slicekit.structures.base import Drawn, Parameters, normal, weighted_sum
from slicekit.structures.block_diagonal import BlockGenerator
from slicekit.structures.exponential import EulerAction, ExponentialAction, exponential_action


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
class Sparse(descriptions.Sparse, Drawn):
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

    def init(
        self, channels: int, generator: torch.Generator | None = None, *, increment: float = 1.0
    ) -> Parameters:
        """{"values": (kept,), "places": (kept,) integers into (channels, dim, dim)}."""
        kept = torch.rand(channels * self.dim**2, generator=generator) < self.probability
        if kept.is_meta:  # where there is nothing to draw
            return Sparse.blank(self, channels)
        places = kept.nonzero().squeeze(1)
        values = normal((places.numel(),), self.std, generator)
        return {"values": values, "places": places}

    def blank(self, channels: int) -> Parameters:
        """As expected; the true number of kept entries is random."""
        kept = self.expected(channels)
        meta = torch.device("meta")
        places = torch.empty(kept, dtype=torch.int64, device=meta)
        return {"values": torch.empty(kept, device=meta), "places": places}

    def check_pattern(self, parameters: Parameters, channels: int) -> None:
        """Places are increasing integers into (channels, dim, dim), one for each value."""
        values, places = parameters["values"], parameters["places"]
        if places.ndim != 1 or places.dtype != torch.int64 or places.shape != values.shape:
            raise ValueError(
                f"places has dtype {places.dtype} and shape {tuple(places.shape)}, values has "
                f"shape {tuple(values.shape)}; expected one integer for each value"
            )
        end = channels * self.dim**2
        if places.numel() and not (
            places[0] >= 0 and places[-1] < end and bool((places.diff() > 0).all())
        ):
            raise ValueError(f"places do not increase within 0..{end - 1}")

    def combine(self, parameters: Parameters, increments: Tensor) -> SparseGenerator:
        """Σ_i Δω^i A^i for increments (..., channels)."""
        values, places = parameters["values"], parameters["places"]
        if values.shape != places.shape:  # which index_put would stretch
            shapes = f"values has shape {tuple(values.shape)}, places {tuple(places.shape)}"
            raise ValueError(f"{shapes}; expected one place for each value")
        channels = increments.shape[-1]
        full = values.new_zeros(channels * self.dim**2).index_put((places,), values)
        return SparseGenerator(weighted_sum(increments, full.view(channels, 1, self.dim, self.dim)))
