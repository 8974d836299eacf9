"""All that is seen of a path: pools on the levels of its pyramid, which give blocks of features.

Level l of the pyramid holds the means of 2^l elements each. Filters of dilation 1, 2, 4 and 8 look
at the path itself; longer ones are filters of dilation 8 on a higher level, so that all of them
together cost little more than those on the path. A series that is shorter than an element of a
level has one element there, its mean.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slicekit.estimators.pools import (
    BandPool,
    CovariancePool,
    FilterPool,
    MeanPool,
    Memory,
    Pool,
    RotationPool,
)
from slicekit.estimators.pools.base import Training, level_of, octaves
from slicekit.estimators.pools.covariances import DELAYS

OBSERVED = "means"
"""The block that shares of observed values belong to."""

GROUPS, MANY, FULL = 16, 4000, 64
"""Groups of filters of one dilation; for more cases than that, as many of all dilations."""

DIRECT = 3
"""log2 of the longest dilation on a level."""

PARTS = 8
ROWS, STACKED = 64, 32
"""Most channels of a covariance, and of one with delays; half as many for `SEVERAL` cases."""

SEVERAL = 1000
SAMPLE = 200
"""Series from which floors of covariances are taken."""

AT_ONCE = 2**24
"""Numbers of paths and sums that are held at once."""


@dataclass(frozen=True)
class StepMemory:
    """What a stream must remember.

    Args:
        count: elements of the path.
        sums: (channels,) of the elements that are not in an element of their level yet, by level.
        pools: of each pool, None before the first element of its level.
    """

    count: int
    sums: tuple[Tensor, ...]
    pools: tuple[Memory | None, ...]


@dataclass(frozen=True)
class Blocks:
    """Pools, drawn at random and fitted to training paths.

    Args:
        pools: each looks at one level.
    """

    pools: tuple[Pool, ...]

    @classmethod
    def draw(cls, paths: Training, groups: int | None, random: np.random.Generator) -> "Blocks":
        """For training paths; None chooses the groups."""
        cases, channels, length = len(paths), paths.channels, int(paths.lengths.max())
        if groups is None:
            groups = GROUPS
            if cases > MANY:
                groups = max(GROUPS // 2, min(4 * GROUPS, FULL // octaves(length)))
        pools: list[Pool] = []
        for octave in range(octaves(length)):
            level = max(0, octave - DIRECT)
            for moves in (False, True):
                dilation = 2 ** min(octave, DIRECT)
                pools.append(FilterPool.draw(level, dilation, moves, groups, paths, random))
            pools.append(RotationPool.draw(octave, length, min(PARTS, length), channels, random))
        pools.append(MeanPool(length))
        some = torch.from_numpy(random.permutation(cases)[:SAMPLE])
        sample = paths.read(some)
        shrink = 1 if cases <= SEVERAL else 2
        for block, delays, moves, most in _covariances(channels, length, shrink):
            pools.append(
                CovariancePool.draw(
                    block, channels, delays, moves, most, sample, paths.lengths[some], random
                )
            )
        for octave in range(max(1, int(np.log2(max(2, length // 4))))):
            level = max(0, octave - DIRECT)
            pools.append(BandPool(level, 2 ** (octave - level), length))
        return cls(tuple(pools))

    def __call__(self, x: Tensor, lengths: Tensor, threads: int = 1) -> dict[str, Tensor]:
        """Of whole paths (cases, channels, length): (cases, features) by the names of blocks."""
        collected: dict[str, list[Tensor]] = {}
        seen: dict[int, tuple[Tensor, Tensor]] = {}
        for pool in self.pools:
            if pool.level not in seen:
                seen[pool.level] = level_of(x, lengths, pool.level)
            sums = pool.whole(*seen[pool.level], threads)
            for name, features in pool.features(sums).items():
                collected.setdefault(name, []).append(features)
        return {name: torch.cat(parts, 1) for name, parts in collected.items()}

    def advance(self, x: Tensor, memory: StepMemory | None) -> StepMemory:
        """One more element (channels,) of one path."""
        levels = 1 + max(pool.level for pool in self.pools)
        if memory is None:
            nothing = torch.zeros_like(x, dtype=torch.float64)
            memory = StepMemory(0, (nothing,) * levels, (None,) * len(self.pools))
        count, sums = memory.count + 1, [before + x for before in memory.sums]
        complete = [count % 2**level == 0 for level in range(levels)]
        pools = tuple(
            pool.step(before, _mean(sums, pool.level, 2**pool.level))
            if complete[pool.level]
            else before
            for pool, before in zip(self.pools, memory.pools, strict=True)
        )
        left = tuple(torch.zeros_like(s) if c else s for s, c in zip(sums, complete, strict=True))
        return StepMemory(count, left, pools)

    def features(self, memory: StepMemory) -> dict[str, Tensor]:
        """Of the path so far: (1, features) by the names of blocks."""
        collected: dict[str, list[Tensor]] = {}
        for pool, pooled in zip(self.pools, memory.pools, strict=True):
            if pooled is None:
                pooled = pool.step(None, _mean(memory.sums, pool.level, memory.count))
            for name, features in pool.features(pooled).items():
                collected.setdefault(name, []).append(features)
        return {name: torch.cat(parts, 1) for name, parts in collected.items()}

    def at_once(self, channels: int, length: int) -> int:
        """How many series are looked at in one go, within bounded memory."""
        groups = sum(p.mixes.shape[0] for p in self.pools if isinstance(p, FilterPool))
        filters = 8 * groups
        return max(1, AT_ONCE // (4 * channels * length + 20 * filters))


def _mean(sums: list[Tensor] | tuple[Tensor, ...], level: int, count: int) -> Tensor:
    return (sums[level] / count).float().unsqueeze(0)


def _covariances(
    channels: int, length: int, shrink: int
) -> list[tuple[str, tuple[int, ...], str, int]]:
    """Block, delays, moves and most channels of each covariance."""
    count = min(len(DELAYS), STACKED // channels)
    delays = tuple(d for d in DELAYS[:count] if d < max(1, length // 3))
    stacked = ("delays", delays, "none", channels)
    if count <= 1:
        stacked = ("delays", (0,), "both", STACKED // shrink)
    rows = ROWS // shrink
    return [("covariances", (0,), "none", rows), ("covariances", (0,), "only", rows), stacked]
