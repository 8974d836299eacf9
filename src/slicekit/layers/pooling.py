"""One vector for a whole sequence, which can also be had element by element."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.checks import HALF
from slicekit.layers.state import State, last_valid
from slicekit.paths import valid_mask


class Pooling(ABC):
    """A policy: (batch, length, width) -> (batch, width), with a state to go on from."""

    @abstractmethod
    def __call__(
        self, x: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """The pooled vector of everything up to the end of x, and the state after it."""


@dataclass(frozen=True)
class Mean(Pooling):
    """The mean over all valid positions."""

    def __call__(
        self, x: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Sum and count so far; the mean of an empty sequence is zero."""
        # Half precision can't count: in bfloat16, 256 + 1 is 256.
        work = torch.float32 if x.dtype in HALF else x.dtype
        if lengths is None:
            lengths = torch.full((x.shape[0],), x.shape[1], device=x.device)
        else:
            x = x.masked_fill(~valid_mask(lengths, x.shape[1]).unsqueeze(-1), 0)
        total, count = x.sum(1, dtype=work), lengths.to(work)
        if state is not None:
            total, count = total + state["sum"], count + state["count"]
        pooled = total / count.clamp_min(1).unsqueeze(-1)
        return pooled.to(x.dtype), State({"sum": total, "count": count})


@dataclass(frozen=True)
class Last(Pooling):
    """The last valid position."""

    def __call__(
        self, x: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """The newest element, or the one before if nothing has come; at first that is zero."""
        last = last_valid(x, lengths)
        if lengths is not None:
            before = torch.zeros_like(last) if state is None else state["last"]
            last = torch.where(lengths.unsqueeze(-1) > 0, last, before)
        return last, State({"last": last.clone()})
