"""Which way round does a path go? A task of series that needs order, at any resolution.

Glossary: a path is ω(t), 0 <= t <= 1, with two channels; a, b are the coefficients of its waves;
its area is the signed one, 1/2 ∮ ω¹ dω² − ω² dω¹, a coordinate of its signature at level 2.
"""

import math

import torch
from torch import Tensor

from slicekit.checks import check_whole
from slicekit.tasks.base import Batch, Task
from slicekit.tasks.ranges import check_range_of_lengths, check_split, draw_lengths
from slicekit.tasks.series_task import SERIES

CHANNELS, WAVES = 2, 3

FINE = 512
"""Points by which an area is computed."""


class Areas(Task):
    """Whether the signed area of a closed random path is positive, from noisy observations.

    ω(t) = Σ_k (a_k (cos 2πkt − 1) + b_k sin 2πkt) / k, with standard normal a_k and b_k in R² for k
    = 1, 2, 3. A series of n observations has the path at n equidistant times, so that the same
    generator gives the same paths, observed more and more finely as n grows. Read backwards, a path
    has the other class: no statistic that forgets the order can tell them apart.

    With `fold`, the area is that of sin(fold · ω) / fold, coordinate by coordinate: it has to be
    bent before it is integrated.

    Args:
        samples: observations of a series in training, validation and test.
        noise: standard deviation of the observations' errors.
        fold: how often paths are folded, 0 for not at all.

    Raises:
        ValueError: if there are fewer than two observations, or a number is negative.

    Example:
        >>> batch = Areas(samples=16).sample(3, (16, 16), torch.Generator().manual_seed(0))
        >>> batch.inputs.shape, batch.targets.flatten().tolist()
        (torch.Size([3, 16, 2]), [1, 1, 0])
    """

    name, channels, outputs, family, shortest = "areas", CHANNELS, 2, SERIES, 2

    def __init__(self, *, samples: int = 64, noise: float = 0.02, fold: float = 0.0) -> None:
        """Keep the numbers."""
        check_whole("samples", samples, self.shortest)
        for name, value in (("noise", noise), ("fold", fold)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name}={value}; expected 0 or more")
        both = (samples, samples)
        super().__init__(train_lengths=both, validation_lengths=both, test_lengths=both)
        self.noise, self.fold = noise, fold

    def sample(
        self,
        batch: int,
        lengths: tuple[int, int],
        generator: torch.Generator,
        split: str = "train",
    ) -> Batch:
        """Draw paths, and observe each of them as often as its length says."""
        check_whole("batch", batch)
        check_split(split)
        low, high = check_range_of_lengths("lengths", lengths, self.shortest)
        waves = torch.randn(2, batch, WAVES, CHANNELS, generator=generator, dtype=torch.float64)
        drawn = draw_lengths(batch, (low, high), generator)
        times = torch.arange(high, dtype=torch.float64) / (drawn.unsqueeze(1) - 1)
        errors = torch.randn(batch, high, CHANNELS, generator=generator)
        observed = path(waves, times).float() + self.noise * errors
        return Batch.series(observed, (self.area(waves) > 0).long(), drawn)

    def area(self, waves: Tensor) -> Tensor:
        """The signed area of paths, folded or not.

        Args:
            waves: (2, batch, 3, 2), the coefficients a and b.

        Returns:
            (batch,)
        """
        times = torch.linspace(0, 1, FINE, dtype=waves.dtype).expand(waves.shape[1], FINE)
        points = path(waves, times)
        if self.fold:
            points = torch.sin(self.fold * points) / self.fold
        before, after = points[:, :-1], points[:, 1:]
        crossed = before[..., 0] * after[..., 1] - before[..., 1] * after[..., 0]
        return crossed.sum(1) / 2


def path(waves: Tensor, times: Tensor) -> Tensor:
    """The paths of some waves.

    Args:
        waves: (2, batch, 3, channels), the coefficients a and b.
        times: (batch, length)

    Returns:
        (batch, length, channels)
    """
    number = torch.arange(1, waves.shape[2] + 1, dtype=waves.dtype)
    angles = 2 * math.pi * times.unsqueeze(-1) * number
    cosines, sines = (torch.cos(angles) - 1) / number, torch.sin(angles) / number
    return cosines @ waves[0] + sines @ waves[1]
