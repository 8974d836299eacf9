"""One vector for a whole sequence, which can also be had element by element."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from slicekit.jax.checks import is_half
from slicekit.jax.layers.state import State, last_valid
from slicekit.jax.paths import valid_mask


class Pooling(ABC):
    """A policy: (batch, length, width) -> (batch, width), with a state to go on from."""

    @abstractmethod
    def __call__(
        self, x: Array, state: State | None = None, lengths: Array | None = None
    ) -> tuple[Array, State]:
        """The pooled vector of everything up to the end of x, and the state after it."""


@dataclass(frozen=True)
class Mean(Pooling):
    """The mean over all valid positions."""

    def __call__(
        self, x: Array, state: State | None = None, lengths: Array | None = None
    ) -> tuple[Array, State]:
        """Sum and count so far; the mean of an empty sequence is zero."""
        # Half precision can't count: in bfloat16, 256 + 1 is 256.
        wide = x.astype(jnp.float32) if is_half(x.dtype) else x
        if lengths is None:
            lengths = jnp.full((x.shape[0],), x.shape[1])
        else:
            wide = jnp.where(valid_mask(lengths, x.shape[1])[..., None], wide, 0)
        total, count = wide.sum(1), lengths.astype(wide.dtype)
        if state is not None:
            total, count = total + state["sum"], count + state["count"]
        pooled = total / jnp.maximum(count, 1)[:, None]
        return pooled.astype(x.dtype), State({"sum": total, "count": count})


@dataclass(frozen=True)
class Last(Pooling):
    """The last valid position."""

    def __call__(
        self, x: Array, state: State | None = None, lengths: Array | None = None
    ) -> tuple[Array, State]:
        """The newest element, or the one before if nothing has come; at first that is zero."""
        last = last_valid(x, lengths)
        if lengths is not None:
            before = jnp.zeros_like(last) if state is None else state["last"]
            last = jnp.where(lengths[:, None] > 0, last, before)
        return last, State({"last": last})
