"""Means over ever smaller parts of a series."""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.estimators.pools.base import Features, Memory, Parts, Pool, check_level

SCALES = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, eq=False)
class MeanPool(Pool):
    """Means of the channels.

    Args:
        length: of the longest path in training.
    """

    length: int
    level: int = 0

    def __post_init__(self) -> None:
        """Check what a file may say."""
        check_level(self.level, length=self.length)

    def _scales(self) -> list[Parts]:
        return [Parts(s, self.length) for s in SCALES if s == 1 or s <= self.length // 2]

    def whole(self, x: Tensor, lengths: Tensor, threads: int) -> Memory:
        """The sums over whole series."""
        sums = [parts.sums(x, lengths) for parts in self._scales()]
        return {"sums": torch.cat(sums, -1), "count": lengths}

    def step(self, memory: Memory | None, x: Tensor) -> Memory:
        """The sums with one more element."""
        scales = self._scales()
        if memory is None:
            size = sum(parts.count for parts in scales)
            memory = {
                "sums": torch.zeros(*x.shape, size, dtype=torch.float64),
                "count": torch.zeros(len(x), dtype=torch.int64),
            }
        sums, at, count = memory["sums"].clone(), 0, int(memory["count"][0])
        for parts in scales:
            sums[:, :, at + parts.now(count)] += x
            at += parts.count
        return {"sums": sums, "count": memory["count"] + 1}

    def features(self, memory: Memory) -> Features:
        """All means."""
        scales = self._scales()
        sums = memory["sums"].split([parts.count for parts in scales], -1)
        means = [p.means(y, memory["count"]) for p, y in zip(scales, sums, strict=True)]
        return {"means": torch.cat(means, -1).flatten(1).float()}
