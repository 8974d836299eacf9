"""Sparse matrices: A^i = mask^i ⊙ Gaussian, with a mask drawn once. S-SLiCE.

Only the entries inside the masks are stored, with their places. A(Δω) sums many masks and is not
sparse itself: it is formed step by step, and acts on the state.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from slicekit.descriptions import sparse as descriptions
from slicekit.jax.structures.base import Drawn, Parameters, weighted_sum
from slicekit.jax.structures.block_diagonal import BlockGenerator
from slicekit.jax.structures.exponential import EulerAction, ExponentialAction, exponential_action

_blank: ContextVar[bool] = ContextVar("blank", default=False)


@contextmanager
def blank() -> Iterator[None]:
    """Inside, `init` draws nothing and gives zeros of the expected size: only shapes are wanted."""
    token = _blank.set(True)
    try:
        yield
    finally:
        _blank.reset(token)


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
    """A^i with a random pattern of non-zero entries, as `slicekit.Sparse`.

    Args:
        dim: size of the state.
        density: probability p that an entry is kept; instead of epsilon.
        epsilon: the paper's ε in (0, 1): dim^(1 + ε) entries expected, p = dim^(ε - 1). Without
            density and epsilon it is 3/7, as in the paper's state tracking.
        scale: kept entries start with standard deviation scale / sqrt(dim p).
    """

    def init(self, channels: int, key: Array, *, increment: float = 1.0) -> Parameters:
        """{"values": (kept,), "places": (kept,) integers into (channels, dim, dim)}.

        How many are kept is random, so this can't be traced by `jax.jit`.
        """
        if _blank.get():
            size = (self.expected(channels),)
            return {"values": jnp.zeros(size), "places": jnp.zeros(size, int)}
        chosen, drawn = jax.random.split(key)
        kept = jax.random.uniform(chosen, (channels * self.dim**2,)) < self.probability
        places = np.flatnonzero(np.asarray(kept))
        values = self.std * jax.random.normal(drawn, (len(places),))
        return {"values": values, "places": jnp.asarray(places)}

    def shapes(self, channels: int) -> dict[str, tuple[int, ...]]:
        """As expected; the true number of kept entries is random."""
        kept = (self.expected(channels),)
        return {"values": kept, "places": kept}

    def combine(self, parameters: Parameters, increments: Array) -> SparseGenerator:
        """Σ_i Δω^i A^i for increments (..., channels)."""
        values, places = parameters["values"], parameters["places"]
        channels = increments.shape[-1]
        full = jnp.zeros(channels * self.dim**2, values.dtype).at[places].set(values)
        return SparseGenerator(
            weighted_sum(increments, full.reshape(channels, 1, self.dim, self.dim))
        )
