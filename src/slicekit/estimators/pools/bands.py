"""Log-energies of octave bands: differences of moving averages over windows w and 2w."""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.estimators.pools.base import Features, Memory, Parts, Pool, check_level, following

PARTS = (1, 2, 4)
FLOOR = 1e-6


@dataclass(frozen=True, eq=False)
class BandPool(Pool):
    """One band.

    Args:
        level: of the pyramid.
        window: w, in elements of the level; the other is twice as wide.
        length: of the longest path in training.
    """

    level: int
    window: int
    length: int

    def __post_init__(self) -> None:
        """Check what a file may say."""
        check_level(self.level, window=self.window, length=self.length)

    def _scales(self) -> list[Parts]:
        return [Parts(count, self.length, 2**self.level) for count in PARTS]

    def _energy(self, x: Tensor) -> Tensor:
        """(cases, channels, length) -> the squared difference of the averages, likewise."""
        totals = torch.nn.functional.pad(x.double().cumsum(-1), (1, 0))
        steps = torch.arange(x.shape[-1])

        def average(window: int) -> Tensor:
            first = (steps + 1 - window).clamp_min(0)
            return (totals[..., 1:] - totals[..., first]) / (steps + 1 - first)

        return (average(self.window) - average(2 * self.window)).square()

    def whole(self, x: Tensor, lengths: Tensor, threads: int) -> Memory:
        """The sums over whole series."""
        energy = self._energy(x)
        sums = [parts.sums(energy, lengths) for parts in self._scales()]
        return {"sums": torch.cat(sums, -1), "count": lengths}

    def step(self, memory: Memory | None, x: Tensor) -> Memory:
        """The sums with one more element."""
        scales, size = self._scales(), 2 * self.window
        if memory is None:
            memory = {
                "sums": torch.zeros(*x.shape, sum(PARTS), dtype=torch.float64),
                "count": torch.zeros(len(x), dtype=torch.int64),
                "past": torch.zeros(*x.shape, size),
            }
        past, count = following(memory["past"], x), int(memory["count"][0])

        def average(window: int) -> Tensor:
            return past[..., -window:].double().sum(-1) / min(count + 1, window)

        energy = (average(self.window) - average(size)).square()
        sums, at = memory["sums"].clone(), 0
        for parts in scales:
            sums[:, :, at + parts.now(count)] += energy
            at += parts.count
        return {"sums": sums, "count": memory["count"] + 1, "past": past}

    def features(self, memory: Memory) -> Features:
        """Logarithms of the mean energies."""
        scales = self._scales()
        sums = memory["sums"].split([parts.count for parts in scales], -1)
        means = [p.means(y, memory["count"]) for p, y in zip(scales, sums, strict=True)]
        return {"bands": (torch.cat(means, -1) + FLOOR).log().flatten(1).float()}
