"""Observations as a path on a regular grid: standardised, with lines from one to the next.

A linear CDE is driven by a path in real time, whatever the times at which it was observed. So the
path is drawn through the observations as they are, and read at regular times; without times, these
are the observations themselves. A row in which nothing was observed is no observation; a channel
that lacks in a row keeps its last value, and has its mean before the first. All of it is fitted to
the training data and looks at the past alone: a prefix of a series gives a prefix of its path.
"""

import math
import warnings
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slicekit.checks import check_shape
from slicekit.estimators.inputs import Cases
from slicekit.estimators.pools.base import Held, Training
from slicekit.estimators.preparation import statistics
from slicekit.paths import LastValue, valid_mask

CLIP = 8.0
"""Deviations from which on values count by their logarithm, so that the height of a rare peak is
seen and a number that stands for none drowns nothing."""

FARTHEST = 1e30
"""Deviations beyond which all are alike."""

REGULAR = 1e-3
FINE = 0.1
"""Of the steps in training, the share that may be shorter than that of the grid."""

DENSER, LONGER = 4, 64
"""How many times the observations a grid may have, and the longest path in training a path."""

COARSE = 10
"""A grid whose step is so many times that of most observations does not show what they tell."""

TOGETHER = 0.25
"""Series whose first times differ by less than this share of the longest share their origin."""

LONGEST = 2**40
ROUNDING = 1e-6
AT_ONCE, HELD = 2**22, 2**27
"""Values that are read at once, in float64, and that paths of a set may have, in float32."""


def compressed(deviations: Tensor) -> Tensor:
    """Themselves up to `CLIP`, and from there on CLIP (1 + log(size / CLIP)), with their sign.

    >>> compressed(torch.tensor([1.0, -8.0, 80.0]))
    tensor([ 1.0000, -8.0000, 26.4207])
    """
    size = deviations.abs().clamp(CLIP, FARTHEST)
    return deviations.clamp(-CLIP, CLIP) * (1 + (size / CLIP).log())


@dataclass(frozen=True, eq=False)
class Trace:
    """What a stream must remember to go on with the path of a series.

    Args:
        rows: how many came; `known`: (channels,) in how many of them each channel was observed.
        origin: where the grid begins, None before the first observation.
        count: elements of the path so far.
        time, values: () and (channels,) of the last observation.
    """

    rows: int
    known: Tensor
    origin: float | None
    count: int
    time: float
    values: Tensor


@dataclass(frozen=True, eq=False)
class Path:
    """A causal map from observations to a path on a grid.

    Args:
        centre, spread: (channels,) float64, mean and deviation of the values in training; a
            deviation is infinite where there was one value or none.
        gaps: (channels,) bool, which channels have values and gaps in training.
        step: of the grid.
        origin: where grids begin that begin near it; None for the first time of each series.
        slack: how near.
        timed: whether there were times in training; otherwise they are 0, 1, ...
        length: elements of the longest path in training.
    """

    centre: Tensor
    spread: Tensor
    gaps: Tensor
    step: float
    origin: float | None
    slack: float
    timed: bool
    length: int

    def __post_init__(self) -> None:
        """Check what a file may say."""
        for name in ("spread", "gaps"):
            check_shape(name, getattr(self, name), (len(self.centre),))
        if not (0 < self.step < math.inf) or not self.slack >= 0:
            raise ValueError(f"step={self.step}, slack={self.slack}; expected them positive")
        if self.origin is not None and not math.isfinite(self.origin):
            raise ValueError(f"origin={self.origin}; expected a finite number or None")
        if not isinstance(self.length, int) or not 1 <= self.length <= LONGEST:
            raise ValueError(f"length={self.length!r}; expected one of 1..{LONGEST}")

    @classmethod
    def fit(cls, cases: Cases) -> "Path":
        """From the training data.

        Raises:
            ValueError: if nothing was observed at all.
        """
        channels = [statistics(x) for x in cases.observations.unbind(1)]
        centre, spread, gaps = (list(x) for x in zip(*channels, strict=True))
        if bool(cases.observations.isnan().all()):
            raise ValueError("X holds NaN alone: nothing was observed in any series")
        step, origin, slack = _clock(cases)
        plain = cls(
            torch.tensor(centre, dtype=torch.float64),
            torch.tensor(spread, dtype=torch.float64),
            torch.tensor(gaps),
            step,
            origin,
            slack,
            cases.times is not None,
            LONGEST,
        )
        longest = int(plain.lengths(cases).max())
        return replace(plain, length=longest)

    @property
    def channels(self) -> int:
        """Of observations and path."""
        return self.centre.shape[0]

    def lengths(self, cases: Cases) -> Tensor:
        """Elements of the paths, (cases,).

        Raises:
            ValueError: if one is much longer than those in training.
        """
        first, last, seen = _ends(cases)
        steps = ((last - self._origins(first)) / self.step + ROUNDING).floor()
        steps = torch.where(seen, steps, 0.0)
        self._check_length(steps.max().item() + 1, "a series")
        return steps.long() + 1

    def __call__(self, cases: Cases) -> tuple[Tensor, Tensor]:
        """Whole series.

        Returns:
            (cases, channels, length) float32, and the lengths (cases,). What stands past the end of
            a case does not count.
        """
        lengths = self.lengths(cases)
        path = torch.empty(len(cases), self.channels, int(lengths.max()))
        size = max(1, AT_ONCE // max(1, self.channels * max(path.shape[2], cases.longest)))
        for some in torch.arange(len(cases)).split(size):
            path[some] = self._read(cases.select(some), path.shape[2])
        return path, lengths

    def shares(self, cases: Cases) -> Tensor:
        """The share of rows in which each channel with gaps was observed, (cases, gaps)."""
        observed = ~cases.observations[:, self.gaps].isnan()
        known = torch.zeros(len(cases), observed.shape[1], dtype=torch.int64)
        known.index_add_(0, cases.owners, observed.long())
        return (known / cases.lengths[:, None]).float()

    def _read(self, cases: Cases, length: int) -> Tensor:
        values, times = cases.padded()
        rows = values.shape[1]
        past = ~valid_mask(cases.lengths, rows)
        empty = values.isnan().all(-1) | past
        before = torch.zeros(len(cases), 1, self.channels)
        values = LastValue().fill(torch.cat([before, self._scaled(values)], 1))[:, 1:].mT
        if cases.times is None and not bool((empty & ~past).any()):
            return torch.nn.functional.pad(values, (0, length - rows))
        order = empty.long().argsort(dim=1, stable=True)
        count = (~empty).sum(1).clamp_min(1)
        times = times.gather(1, order).masked_fill(~valid_mask(count, rows), torch.inf)
        nothing = empty.all(1)
        times[nothing, 0] = 0.0
        grid = self._origins(times[:, :1]) + self.step * torch.arange(length, dtype=torch.float64)
        after = torch.searchsorted(times, grid + ROUNDING * self.step, right=True)
        left = (after - 1).clamp_min(0)
        right = torch.minimum(after, count[:, None] - 1)
        start, end = times.gather(1, left), times.gather(1, right)
        share = ((grid - start) / (end - start).clamp_min(1e-300)).clamp(0, 1)
        share = torch.where(right > left, share, 0.0).float().unsqueeze(1)

        def at(places: Tensor) -> Tensor:
            chosen = order.gather(1, places).unsqueeze(1).expand(-1, self.channels, -1)
            return values.gather(2, chosen)

        return at(left) * (1 - share) + at(right) * share

    def advance(
        self, observation: Tensor, time: float, trace: Trace | None
    ) -> tuple[Tensor, Trace]:
        """One more observation of one series.

        Args:
            observation: (channels,), with NaN in gaps.
            time: of it.
            trace: after the observation before, or None at the start.

        Returns:
            The new elements of the path (channels, count), of which there may be none, and what to
            remember.

        Raises:
            ValueError: if there would be many more than the longest path in training has.
        """
        if trace is None:
            trace = Trace(0, torch.zeros(self.channels), None, 0, 0.0, torch.zeros(self.channels))
        missing = observation.isnan()
        rows, known = trace.rows + 1, trace.known + ~missing
        if bool(missing.all()):
            return torch.empty(self.channels, 0), Trace(
                rows, known, trace.origin, trace.count, trace.time, trace.values
            )
        values = torch.where(missing, trace.values, self._scaled(observation))
        origin, before, since = trace.origin, trace.values, trace.time
        if origin is None:
            origin = float(self._origins(torch.tensor(time, dtype=torch.float64)))
            before, since = values, time
        steps = (time - origin) / self.step + ROUNDING
        self._check_length(steps + 1 - trace.count, f"the gap before time={time:g}")
        count = int(steps) + 1
        grid = origin + self.step * torch.arange(trace.count, count, dtype=torch.float64)
        share = ((grid - since) / max(time - since, 1e-300)).clamp(0, 1).float()
        if time == since:
            share = torch.zeros_like(share)
        elements = before[:, None] * (1 - share) + values[:, None] * share
        return elements, Trace(rows, known, origin, count, time, values)

    def _check_length(self, length: float, what: str) -> None:
        """Raise ValueError for a path, or a part of one, that is much longer than in training."""
        if length > LONGER * self.length:
            raise ValueError(
                f"{what} lasts {length / self.length:.0f} times as long as the longest in "
                "training; are its times in the same unit?"
            )

    def _scaled(self, values: Tensor) -> Tensor:
        return compressed((values.double() - self.centre) / self.spread).float()

    def _origins(self, first: Tensor) -> Tensor:
        if self.origin is None:
            return first
        late = first - self.origin
        return torch.where((late >= 0) & (late <= self.slack), self.origin, first)


def training_paths(path: Path, cases: Cases) -> Training:
    """The paths of a set: in memory, or read when they are asked for where all would be too many.

    Args:
        path: how series are read.
        cases: the series.
    """
    size = len(cases) * path.channels * int(path.lengths(cases).max())
    return Held(*path(cases)) if size <= HELD else _Asked(path, cases)


class _Asked(Training):
    """Paths that are read when they are asked for."""

    def __init__(self, path: Path, cases: Cases) -> None:
        self._path, self._cases = path, cases
        self.channels, self.lengths = path.channels, path.lengths(cases)

    def read(self, indices: Tensor) -> Tensor:
        return self._path(self._cases.select(indices))[0]


def _ends(cases: Cases) -> tuple[Tensor, Tensor, Tensor]:
    """First and last times with an observation, (cases,) each, and whether there is one."""
    known = ~cases.observations.isnan().all(-1)
    owners, times = cases.owners[known], cases.clock[known]
    ends = torch.full((2, len(cases)), torch.inf, dtype=torch.float64)
    first = ends[0].scatter_reduce(0, owners, times, "amin")
    last = (-ends[1]).scatter_reduce(0, owners, times, "amax")
    seen = first.isfinite()
    return torch.where(seen, first, 0.0), torch.where(seen, last, 0.0), seen


def _clock(cases: Cases) -> tuple[float, float | None, float]:
    """Step, origin and slack of the grid."""
    if cases.times is None:
        return 1.0, 0.0, torch.inf
    first, last, seen = _ends(cases)
    duration = (last - first).max().item()
    steps = torch.diff(cases.times)[torch.diff(cases.owners) == 0]
    if steps.numel() == 0 or duration == 0:
        return 1.0, None, 0.0
    fine = steps.kthvalue(1 + int(FINE * (len(steps) - 1))).values.item()
    usual = steps.median().item()
    if bool(((steps - usual).abs() <= REGULAR * usual).all()):
        fine = steps.mean().item()
    least = duration / (DENSER * cases.longest)
    if least > COARSE * usual:
        _warn_of_bursts(least, usual, fine)
    step = max(fine, least)
    starts = first[seen]
    if (starts.max() - starts.min()).item() <= TOGETHER * duration:
        return step, starts.min().item(), TOGETHER * duration
    return step, None, 0.0


def _warn_of_bursts(step: float, usual: float, fine: float) -> None:
    warnings.warn(
        f"observations come in bursts: most are within {usual:g} of the one before, the closest "
        f"within {fine:g}, but series last so long that they are read in steps of {step:g}, which "
        "hide what happens in a burst; leave times out, or make each burst a series of its own",
        UserWarning,
        stacklevel=2,
    )
