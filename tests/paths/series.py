"""Padded batches of series with gaps, as a space for hypothesis to search."""

from dataclasses import dataclass

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

quick = settings(max_examples=30, deadline=None)


@dataclass(frozen=True)
class Series:
    """Values (batch, length, channels) float64; times (batch, length); lengths (batch,)."""

    values: Tensor
    missing: Tensor
    times: Tensor
    lengths: Tensor

    @property
    def with_gaps(self) -> Tensor:
        return self.values.masked_fill(self.missing, torch.nan)

    @property
    def padding(self) -> Tensor:
        return torch.arange(self.values.shape[1]) >= self.lengths[:, None]


@st.composite
def series(draw: st.DrawFn) -> Series:
    """Any sizes, any share of gaps (none and all included), irregular times, any lengths."""
    batch, length, channels = draw(st.tuples(*[st.integers(1, top) for top in (3, 9, 3)]))
    share = draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
    values = torch.randn(batch, length, channels, generator=generator, dtype=torch.float64)
    missing = torch.rand(batch, length, channels, generator=generator) < share
    steps = 0.01 + torch.rand(batch, length, generator=generator, dtype=torch.float64)
    lengths = torch.randint(0, length + 1, (batch,), generator=generator)
    return Series(values, missing, steps.cumsum(dim=1) - 2, lengths)
