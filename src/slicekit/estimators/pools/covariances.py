"""Logarithms of covariance matrices: of values, of their increments, and of delayed values.

The covariance of increments and that of delayed values hold what areas between channels hold: the
second-order terms of the signature, averaged over time.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slicekit.estimators.pools.base import (
    Features,
    Memory,
    Pool,
    check_floats,
    check_level,
    following,
    increments,
)
from slicekit.paths import valid_mask

DELAYS = (0, 1, 2, 4, 8, 16, 32, 64)
FLOOR = 1e-3
"""Added to the diagonal, over the mean variance in training."""


@dataclass(frozen=True, eq=False)
class CovariancePool(Pool):
    """A covariance over time of channels, their increments or their delays.

    Args:
        block: that the features belong to.
        mixes: (channels, mixtures) whose covariance it is, where channels are too many; or empty.
        delays: of each, in elements.
        moves: "none" for values, "only" for increments, "both" for values and increments.
        floor: what is added to the diagonal.
    """

    block: str
    mixes: Tensor
    delays: tuple[int, ...]
    moves: str
    floor: float
    level: int = 0

    def __post_init__(self) -> None:
        """Check what a file may say."""
        check_level(self.level)
        if not self.delays or not set(self.delays) <= set(DELAYS):
            raise ValueError(f"delays={self.delays}; expected some of {DELAYS}")
        if self.moves not in ("none", "only", "both"):
            raise ValueError(f"moves={self.moves!r}; expected 'none', 'only' or 'both'")
        check_floats(self.mixes)

    @classmethod
    def draw(
        cls,
        block: str,
        channels: int,
        delays: tuple[int, ...],
        moves: str,
        most: int,
        x: Tensor,
        lengths: Tensor,
        random: np.random.Generator,
    ) -> "CovariancePool":
        """With a floor from some training series."""
        mixes = torch.zeros(0, 0)
        if channels > most:
            mixes = torch.from_numpy(
                (random.standard_normal((channels, most)) / np.sqrt(channels)).astype(np.float32)
            )
        plain = cls(block, mixes, delays, moves, 0.0)
        covariance = plain._covariance(plain.whole(x, lengths, 1))
        variance = covariance.diagonal(dim1=1, dim2=2).mean().item()
        return cls(block, mixes, delays, moves, FLOOR * variance + 1e-9)

    def _seen(self, x: Tensor) -> Tensor:
        """(cases, channels, length) -> the rows whose covariance is taken."""
        if self.mixes.numel():
            x = torch.einsum("nct,cm->nmt", x, self.mixes)
        if self.moves == "only":
            return increments(x)
        if self.moves == "both":
            return torch.cat([x, increments(x)], 1)
        first, length = x[..., :1], x.shape[-1]
        shifted = [
            torch.cat([first.expand(-1, -1, min(d, length)), x[..., : max(0, length - d)]], -1)
            for d in self.delays
        ]
        return torch.cat(shifted, 1)

    def whole(self, x: Tensor, lengths: Tensor, threads: int) -> Memory:
        """The sums over whole series."""
        seen = self._seen(x) * valid_mask(lengths, x.shape[-1]).unsqueeze(1)
        first = seen.double().sum(-1)
        centre = (first / lengths[:, None]).float().unsqueeze(-1)
        valid = valid_mask(lengths, x.shape[-1]).unsqueeze(1)
        around = (seen - centre) * valid
        squares = (around @ around.mT).double()
        rest = around.double().sum(-1)
        centre = centre.squeeze(-1).double()
        # Back to sums around zero, as a stream has them.
        outer = centre.unsqueeze(2) * rest.unsqueeze(1)
        whole = lengths[:, None, None] * centre.unsqueeze(2) * centre.unsqueeze(1)
        return {"sums": first, "squares": squares + outer + outer.mT + whole, "count": lengths}

    def step(self, memory: Memory | None, x: Tensor) -> Memory:
        """The sums with one more element."""
        size = 1 + max(1, *self.delays)
        if memory is None:
            past = x.unsqueeze(-1).repeat(1, 1, size)
            width = self._seen(past[..., :1]).shape[1]
            memory = {
                "sums": torch.zeros(len(x), width, dtype=torch.float64),
                "squares": torch.zeros(len(x), width, width, dtype=torch.float64),
                "count": torch.zeros(len(x), dtype=torch.int64),
                "past": past,
            }
        past = following(memory["past"], x)
        seen = self._seen(past)[..., -1].double()
        return {
            "sums": memory["sums"] + seen,
            "squares": memory["squares"] + seen.unsqueeze(2) * seen.unsqueeze(1),
            "count": memory["count"] + 1,
            "past": past,
        }

    def _covariance(self, memory: Memory) -> Tensor:
        count = memory["count"].double()[:, None]
        mean = memory["sums"] / count
        covariance = memory["squares"] / count.unsqueeze(-1) - mean.unsqueeze(2) * mean.unsqueeze(1)
        return (covariance + covariance.mT) / 2

    def features(self, memory: Memory) -> Features:
        """The upper triangle of the logarithm; its norm is that of the matrix."""
        covariance = self._covariance(memory)
        size = covariance.shape[1]
        values, vectors = torch.linalg.eigh(covariance + self.floor * torch.eye(size))
        logs = values.clamp_min(1e-12).log().unsqueeze(1)
        matrix = (vectors * logs) @ vectors.mT
        i, j = torch.triu_indices(size, size)
        scale = torch.where(i == j, 1.0, 2**0.5)
        return {self.block: (matrix[:, i, j] * scale).float()}
