"""Values brought to [-1, 1], and time as a channel of its own."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from slicekit.tasks.archives.series import Series


@dataclass(frozen=True)
class Scaling:
    """The affine map of each channel that takes its range to [-1, 1]; plain data.

    A channel that never changes becomes 0. Other series than those it was fitted on may leave
    [-1, 1]. The paper fits on all cases, those of the test included.

    Args:
        minimum: of each channel.
        maximum: of each channel.

    Raises:
        ValueError: if they do not fit together.

    Example:
        >>> import numpy as np
        >>> series = Series.of([np.array([[0.0], [1.0], [4.0]])], [0.0])
        >>> scaling = Scaling.fit(series)
        >>> scaling, scaling(series).values.flatten()
        (Scaling(minimum=(0.0,), maximum=(4.0,)), tensor([-1.0000, -0.5000,  1.0000]))
    """

    minimum: tuple[float, ...]
    maximum: tuple[float, ...]

    def __post_init__(self) -> None:
        fits = len(self.minimum) == len(self.maximum) and all(
            math.isfinite(high - low) and low <= high
            for low, high in zip(self.minimum, self.maximum, strict=True)
        )
        if not fits:
            raise ValueError(
                f"minimum={self.minimum} and maximum={self.maximum}; expected as many finite "
                "numbers in each, none of the first above that of the second"
            )

    @classmethod
    def fit(cls, series: Series) -> "Scaling":
        """The map for the range of these series, missing values aside.

        Args:
            series: at least one case; a channel without any value counts as one that is always 0.

        Raises:
            ValueError: if there is no case.
        """
        if len(series) == 0:
            raise ValueError("series is empty; expected at least one case")
        lows, highs = [], []
        for values in series.observations.unbind(1):
            seen = values[~values.isnan()]
            low, high = seen.aminmax() if len(seen) else (0.0, 0.0)
            lows.append(float(low))
            highs.append(float(high))
        return cls(tuple(lows), tuple(highs))

    def __call__(self, series: Series) -> Series:
        """The series on the new scale; missing values stay missing.

        Args:
            series: with as many channels as the map.

        Raises:
            ValueError: if it has another number of channels.
        """
        if series.channels != len(self.minimum):
            raise ValueError(
                f"series has {series.channels} channels; expected {len(self.minimum)}, "
                "those that the scaling was fitted on"
            )
        observations = torch.empty_like(series.observations)
        for channel, (low, high) in enumerate(zip(self.minimum, self.maximum, strict=True)):
            one = series.observations[:, channel].double()
            # Doubled after the division, and in double precision, so that the ends are exact.
            scaled = 2 * ((one - low) / (high - low)) - 1 if high > low else 0 * (one - low)
            observations[:, channel] = scaled
        return replace(series, observations=observations)

    def as_table(self) -> dict[str, Any]:
        """As lists of numbers, for JSON or TOML."""
        return {name: list(x) for name, x in asdict(self).items()}

    @classmethod
    def from_table(cls, table: Mapping[str, Sequence[float]]) -> "Scaling":
        """From what `as_table` gave.

        >>> Scaling.from_table(Scaling((0.0,), (1.0,)).as_table())
        Scaling(minimum=(0.0,), maximum=(1.0,))
        """
        return cls(tuple(map(float, table["minimum"])), tuple(map(float, table["maximum"])))


def with_time_channel(series: Series) -> Series:
    """The series with time as a new channel 0: t_i = i / length, with the case's own length.

    Timestamps, if there are any, take the place of i: moved and stretched for each case so that the
    first is 0 and the last (length - 1) / length, as if they were regular.

    Args:
        series: with any number of channels.

    Returns:
        One channel more.

    >>> import numpy as np
    >>> with_time_channel(Series.of([np.full((4, 1), 7.0)], [0.0])).values[0, :, 0]
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    lengths = series.lengths.repeat_interleave(series.lengths).double()
    if series.times is None:
        steps = series.positions.double()
    else:
        first, last = (series.times[at] for at in (series.starts, series.lengths.cumsum(0) - 1))
        spans = torch.where(last > first, last - first, 1)
        moved = series.times - first.repeat_interleave(series.lengths)
        steps = moved / spans.repeat_interleave(series.lengths) * (lengths - 1)
    time = (steps / lengths).float()
    return replace(series, observations=torch.cat([time[:, None], series.observations], dim=1))
