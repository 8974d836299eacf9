"""Observations as clean elements: standardised, without gaps, with time beside the values.

Everything is fitted to the training data and looks at the past alone, so that a prefix of a series
is prepared as the prefix of the prepared series: a stream sees what a batch sees.

| channel | holds |
|---|---|
| values | standardised by mean and deviation in training, clipped; in a gap the last value |
| observed | 1 or 0, for every channel that has values and gaps in training |
| time | since the first element, over the longest duration in training; at most `CLOCK` |
| step | log(1 + time since the element before / usual step), if steps differ in training |

Before its first observation a channel has its mean. `time` is there if training had times.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.checks import check_positive, check_shape
from slicekit.estimators.inputs import Cases
from slicekit.paths import LastValue

CLIP = 5.0
ABSURD = 100.0
MIDDLE = 0.6745
"""The median distance of a normal distribution from its mean, in deviations."""

CLOCK = 2.0
STEPS = 20.0
REGULAR = 1e-3


@dataclass(frozen=True, eq=False)
class Memory:
    """What a stream must remember to prepare its next observation.

    Args:
        last: (batch, channels), the last values, standardised; 0 before the first observation.
        first: (batch,) float64, the time of the first element.
        before: (batch,) float64, the time of the element before.
    """

    last: Tensor
    first: Tensor
    before: Tensor


@dataclass(frozen=True, eq=False)
class Preparation:
    """A causal map from observations to elements.

    Args:
        centre, spread: (channels,) float64, mean and deviation of the values in training; a
            deviation is infinite where there was one value or none.
        gaps: (channels,) bool, which channels have an `observed` beside them: those with values
            and gaps in training.
        duration: the longest in training.
        step: the usual time from one element to the next, or None where all are the same.
        timed: whether there were times in training; otherwise they are 0, 1, ...
    """

    centre: Tensor
    spread: Tensor
    gaps: Tensor
    duration: float
    step: float | None
    timed: bool

    def __post_init__(self) -> None:
        """Check that the parts fit together: they may come from a file."""
        for name, dtype in (("centre", torch.float64), ("spread", torch.float64)):
            check_shape(name, getattr(self, name), (len(self.centre),))
            if getattr(self, name).dtype != dtype:
                raise TypeError(f"{name} has dtype {getattr(self, name).dtype}; expected {dtype}")
        check_shape("gaps", self.gaps, (len(self.centre),))
        if self.gaps.dtype != torch.bool or not isinstance(self.timed, bool):
            raise TypeError(f"gaps are {self.gaps.dtype} and timed={self.timed!r}; expected bool")
        check_positive("duration", self.duration)
        if self.step is not None:
            check_positive("step", self.step)

    @classmethod
    def fit(cls, cases: Cases) -> "Preparation":
        """From the training data, in float64 and channel by channel.

        A channel that is constant or never observed becomes zero, whatever it holds later.
        """
        channels = [statistics(x) for x in cases.observations.unbind(1)]
        centre, spread, gaps = (list(x) for x in zip(*channels, strict=True))
        duration, step = _clock(cases)
        return cls(
            torch.tensor(centre, dtype=torch.float64),
            torch.tensor(spread, dtype=torch.float64),
            torch.tensor(gaps),
            duration,
            step,
            cases.times is not None,
        )

    @property
    def inputs(self) -> int:
        """Channels of an observation."""
        return self.centre.shape[0]

    @property
    def channels(self) -> int:
        """Channels of an element."""
        clocks = self.timed + (self.step is not None)
        return self.inputs + int(self.gaps.sum()) + clocks

    def advance(
        self, values: Tensor, times: Tensor, memory: Memory | None
    ) -> tuple[Tensor, Memory]:
        """Elements of the next part of series.

        Args:
            values: (batch, length, inputs), with NaN in gaps.
            times: (batch, length) float64.
            memory: of the part before, or None at the start.

        Returns:
            (batch, length, channels) float32, and the memory after it.
        """
        if memory is None:
            memory = Memory(torch.zeros(len(values), self.inputs), times[:, 0], times[:, 0])
        scaled = ((values.double() - self.centre) / self.spread).clamp(-CLIP, CLIP).float()
        filled = LastValue().fill(torch.cat([memory.last[:, None], scaled], 1))[:, 1:]
        parts = [filled, ~values[..., self.gaps].isnan()]
        if self.timed:
            clock = (times - memory.first[:, None]) / self.duration
            parts.append(clock.clamp(max=CLOCK).unsqueeze(-1))
        if self.step is not None:
            passed = torch.diff(times, dim=1, prepend=memory.before[:, None]) / self.step
            parts.append(passed.clamp(0, STEPS).log1p().unsqueeze(-1))
        elements = torch.cat([part.float() for part in parts], -1)
        return elements, Memory(filled[:, -1], memory.first, times[:, -1])


def statistics(values: Tensor) -> tuple[float, float, bool]:
    """Mean, deviation and whether some are missing; outliers count as `CLIP` deviations.

    Where these make up most of the deviation, and the middle half of the values says that it is
    `ABSURD` times too large, deviations are counted from there. Without a second value the
    deviation is infinite, so that whatever comes is as the mean.
    """
    missing = values.isnan()
    known = values[~missing].double()
    if known.numel() == 0:
        return 0.0, math.inf, False
    whole = moments(known)
    if whole[1] == 0:
        return whole[0], math.inf, bool(missing.any())
    centre, spread = _without_outliers(known, *whole)
    if spread < whole[1] / 2:
        usual = _of_the_middle(known)
        if 0 < ABSURD * usual[1] < spread:
            centre, spread = _without_outliers(known, *usual)
    return centre, spread, bool(missing.any())


def _without_outliers(known: Tensor, centre: float, spread: float) -> tuple[float, float]:
    """Mean and deviation where no value counts as more than `CLIP` deviations of those given."""
    shift, narrower = moments(((known - centre) / spread).clamp(-CLIP, CLIP))
    return centre + spread * shift, spread * narrower


def _of_the_middle(known: Tensor) -> tuple[float, float]:
    """The median, and the deviation of a normal distribution with the same median distance."""
    centre = known.median()
    return centre.item(), (known - centre).abs().median().item() / MIDDLE


def moments(known: Tensor) -> tuple[float, float]:
    """Mean and deviation, exactly zero for a constant; the largest numbers do not overflow."""
    if known.min() == known.max():
        return known[0].item(), 0.0
    size = known.abs().max().item()
    spread = (known / size).std(correction=0).item()
    return (known / size).mean().item() * size, spread * size


def _clock(cases: Cases) -> tuple[float, float | None]:
    """The longest duration, and the usual step where steps differ."""
    if cases.times is None:
        return float(max(1, cases.longest - 1)), None
    ends = cases.lengths.cumsum(0)
    duration = (cases.times[ends - 1] - cases.times[ends - cases.lengths]).max().item()
    steps = torch.diff(cases.times)[torch.diff(cases.owners) == 0]
    if steps.numel() == 0:
        return 1.0, None
    usual = steps.median().item()
    same = ((steps - usual).abs() <= REGULAR * usual).all()
    return duration, None if same else usual
