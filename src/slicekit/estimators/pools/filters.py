"""Short dilated filters, each a linear CDE with a nilpotent matrix, pooled in many ways.

    u_t = Σ_c B_gc x_t^c,    z_t = Σ_j w_gkj u_{t-jd}    (groups g of filters k, nine taps j)

| block | holds, of every filter or group |
|---|---|
| shares | shares of time above four quantiles |
| maxima | the maximum |
| deviations | the deviation over time |
| leaders | the sum of z where the filter leads its group, and the share of time where it is last |
| stretches | the longest stretch above a quantile, the place of the maximum, the mean place above |

What filters see of increments are blocks of their own, called "moving shares" and so on: where
there are few cases, their noise would drown what is seen of the values.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slicekit.checks import check_shape
from slicekit.choices import kernel_serves
from slicekit.estimators.pools.base import (
    Features,
    Memory,
    Pool,
    Training,
    check_floats,
    check_level,
    draw_mixes,
    following,
    increments,
)
from slicekit.native.library import unsuited
from slicekit.native.sequences import FilterBank, pool_filters
from slicekit.paths import valid_mask

FILTERS, TAPS, THRESHOLDS, STRETCHED = 8, 9, 4, 3
LEVELLED, LEVEL = 0.5, 0.3
"""The share of filters that see the level of a series, and how much of it."""

MOVING = "moving "
"""How the names of blocks begin that are about increments."""

STILL = 1e-4
"""How far thresholds lie above what was seen, over its deviation."""

SAMPLE, PLACES = 20, 16
"""Series, and places in each, from which a group's thresholds are drawn."""


@dataclass(frozen=True, eq=False)
class FilterPool(Pool):
    """A bank of filters of one dilation.

    Args:
        level: of the pyramid.
        dilation: elements of the level from tap to tap.
        moves: whether increments are filtered, instead of values.
        mixes: (groups, channels).
        weights: (groups, filters, 9).
        thresholds: (groups, filters, 4), quantiles in training.
    """

    level: int
    dilation: int
    moves: bool
    mixes: Tensor
    weights: Tensor
    thresholds: Tensor

    def __post_init__(self) -> None:
        """Check what a file may say."""
        groups = len(self.mixes)
        check_level(self.level, dilation=self.dilation)
        check_shape("weights", self.weights, (groups, FILTERS, TAPS))
        check_shape("thresholds", self.thresholds, (groups, FILTERS, THRESHOLDS))
        check_floats(self.mixes, self.weights, self.thresholds)

    @classmethod
    def draw(
        cls,
        level: int,
        dilation: int,
        moves: bool,
        groups: int,
        paths: Training,
        random: np.random.Generator,
    ) -> "FilterPool":
        """Random filters, with thresholds from training paths."""
        mixes = draw_mixes(groups, paths.channels, random)
        weights = _draw_weights(groups, random)
        cases = torch.from_numpy(random.integers(0, len(paths), (groups, SAMPLE)))
        x, lengths, cases = paths.among(cases, level)
        x = increments(x) if moves else x
        shares = torch.from_numpy(random.uniform(size=(groups, SAMPLE, PLACES)))
        times = (shares * lengths[cases].unsqueeze(-1)).long()
        taps = (times.unsqueeze(-1) - dilation * torch.arange(TAPS)).clamp_min(0)
        mixed = _mixed(x, cases, taps.flatten(2), mixes).unflatten(-1, (PLACES, TAPS))
        z = torch.einsum("gspj,gkj->gksp", mixed, weights).flatten(2).sort(-1).values
        # Not where a series stands still: there the sign of z is a matter of rounding.
        z = z + STILL * z.std(-1, keepdim=True)
        size = SAMPLE * PLACES // THRESHOLDS
        places = np.arange(THRESHOLDS) + random.uniform(size=(groups, FILTERS, THRESHOLDS))
        chosen = torch.from_numpy((places * size).astype(np.int64)).clamp(max=z.shape[-1] - 1)
        return cls(level, dilation, moves, mixes, weights, z.gather(-1, chosen).contiguous())

    @property
    def past(self) -> int:
        """Elements before the present one that a filter sees."""
        return (TAPS - 1) * self.dilation

    def whole(self, x: Tensor, lengths: Tensor, threads: int) -> Memory:
        """The sums over whole series."""
        x = increments(x) if self.moves else x
        sums = self._nothing(len(x))
        self._add(sums, x, lengths, 0, torch.zeros_like(lengths), threads)
        return sums | {"count": lengths}

    def step(self, memory: Memory | None, x: Tensor) -> Memory:
        """The sums with one more element."""
        if memory is None:
            first = torch.zeros_like(x) if self.moves else x
            memory = self._nothing(len(x)) | {
                "count": torch.zeros(len(x), dtype=torch.int64),
                "past": first.unsqueeze(-1).repeat(1, 1, self.past),
                "last": x,
            }
        new = x - memory["last"] if self.moves else x
        sums = {name: memory[name].clone() for name in FilterBank.results}
        seen = torch.cat([memory["past"], new.unsqueeze(-1)], -1)
        self._add(sums, seen, torch.ones_like(memory["count"]), self.past, memory["count"], 1)
        return sums | {
            "count": memory["count"] + 1,
            "past": following(memory["past"], new),
            "last": x,
        }

    def features(self, memory: Memory) -> Features:
        """Shares and places are those of the series' own length."""
        pools, leaders, stretches = (memory[name] for name in FilterBank.results)
        count = memory["count"].double()[:, None, None, None]
        count_3 = count[..., 0]
        mean = pools[..., 5] / count_3
        deviation = (pools[..., 6] / count_3 - mean.square()).clamp_min(0).sqrt()
        above = pools[:, :, :STRETCHED, 1]
        middle = torch.where(above > 0, stretches[..., 3] / above.clamp_min(1), 0.5 * count_3)
        places = torch.stack([stretches[..., 1], stretches[..., 2], middle], -1) / count
        features = {
            "shares": pools[..., :4] / count,
            "maxima": pools[..., 4],
            "deviations": deviation,
            "leaders": leaders / count,
            "stretches": places,
        }
        kind = MOVING if self.moves else ""
        return {kind + name: y.flatten(1).float() for name, y in features.items()}

    def _nothing(self, cases: int) -> Memory:
        groups, filters = self.weights.shape[:2]
        shapes = ((filters, 7), (2, filters), (STRETCHED, 5))
        sums = {
            name: torch.zeros(cases, groups, *shape, dtype=torch.float64)
            for name, shape in zip(FilterBank.results, shapes, strict=True)
        }
        for name in ("pools", "stretches"):
            sums[name][..., 4] = -torch.inf
        return sums

    def _add(
        self, sums: Memory, x: Tensor, lengths: Tensor, history: int, begun: Tensor, threads: int
    ) -> None:
        operands = {
            "x": x,
            "lengths": lengths,
            "begun": begun,
            "mixes": self.mixes,
            "weights": self.weights,
            "thresholds": self.thresholds,
        }
        if kernel_serves("filter bank", unsuited(x)):
            pool_filters(operands, sums, dilation=self.dilation, history=history, threads=threads)
        else:
            add_pools(operands, sums, self.dilation, history)


def add_pools(operands: Memory, sums: Memory, dilation: int, history: int) -> None:
    """What `slicekit.native.sequences.pool_filters` does, in torch."""
    x, lengths = operands["x"], operands["lengths"]
    length = x.shape[-1] - history
    if not history:
        x = torch.cat([x[..., :1].expand(-1, -1, (TAPS - 1) * dilation), x], -1)
    steps = torch.arange(length)
    taps = x.shape[-1] - length + steps.unsqueeze(-1) - dilation * torch.arange(TAPS)
    active = valid_mask(lengths, length)
    for g, (mix, weights) in enumerate(zip(operands["mixes"], operands["weights"], strict=True)):
        z = torch.einsum("ntj,kj->nkt", torch.einsum("nct,c->nt", x, mix)[:, taps], weights)
        _add_group(
            {name: y[:, g] for name, y in sums.items()},
            z,
            active,
            operands["thresholds"][g],
            operands["begun"],
        )


def _add_group(sums: Memory, z: Tensor, active: Tensor, thresholds: Tensor, begun: Tensor) -> None:
    """Add the pools of one group's z (cases, filters, steps)."""
    here = active.unsqueeze(1)
    above = (z.unsqueeze(-1) > thresholds.unsqueeze(1)) & here.unsqueeze(-1)
    inside = z.double() * here
    pools, leaders, stretches = (sums[name] for name in FilterBank.results)
    pools[..., :4] += above.sum(2)
    largest, place = z.masked_fill(~here, -torch.inf).max(-1)
    pools[..., 4] = torch.maximum(pools[..., 4], largest.double())
    pools[..., 5] += inside.sum(-1)
    pools[..., 6] += inside.square().sum(-1)
    kinds = torch.arange(z.shape[1])[:, None]
    leaders[:, 0] += (inside * (z.argmax(1, keepdim=True) == kinds)).sum(-1)
    leaders[:, 1] += ((z.argmin(1, keepdim=True) == kinds) & here).sum(-1)
    count = stretches.shape[1]
    run, longest = stretches[..., 0].clone(), stretches[..., 1].clone()
    for t in range(z.shape[-1]):
        run = torch.where(
            active[:, t : t + 1], torch.where(above[:, :count, t, 1], run + 1, 0), run
        )
        longest = torch.maximum(longest, run)
    stretches[..., 0], stretches[..., 1] = run, longest
    places = torch.arange(z.shape[-1]) + begun[:, None, None]
    later = largest[:, :count] > stretches[..., 4]
    stretches[..., 2] = torch.where(later, (place[:, :count] + begun[:, None]), stretches[..., 2])
    stretches[..., 3] += (places * above[:, :count, :, 1]).sum(-1)
    stretches[..., 4] = torch.maximum(stretches[..., 4], largest[:, :count].double())


def _mixed(x: Tensor, cases: Tensor, places: Tensor, mixes: Tensor) -> Tensor:
    """Mixtures of paths at some places, of the channels alone that have a part in them.

    Args:
        x: (all cases, channels, length).
        cases: (groups, series), those of each group.
        places: (groups, series, places) in them.
        mixes: (groups, channels).

    Returns:
        (groups, series, places).
    """
    few = int((mixes != 0).sum(1).max())
    channels = mixes.abs().topk(few, 1).indices.sort(1).values  # (groups, few)
    seen = x[cases[:, :, None, None], channels[:, None, :, None], places.unsqueeze(2)]
    return torch.einsum("gsct,gc->gst", seen, mixes.gather(1, channels))


def _draw_weights(groups: int, random: np.random.Generator) -> Tensor:
    """Gaussian taps without a mean, half of the filters with a level; absolute values sum to 1."""
    taps = random.standard_normal((groups, FILTERS, TAPS))
    taps -= taps.mean(-1, keepdims=True)
    taps /= np.sqrt((taps**2).mean(-1, keepdims=True))
    levelled = random.uniform(size=(groups, FILTERS, 1)) < LEVELLED
    taps += LEVEL * random.standard_normal((groups, FILTERS, 1)) * levelled
    return torch.from_numpy((taps / np.abs(taps).sum(-1, keepdims=True)).astype(np.float32))
