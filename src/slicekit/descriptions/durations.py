"""A window's length in time, as a description, and the words in which paths in time are refused."""

from collections.abc import Sequence
from dataclasses import dataclass

from slicekit.descriptions.checks import check_positive, check_whole, place

SNAP = 1e-6
"""A position within this part of a window from an edge is on the edge."""

MOST_WINDOWS = 1 << 24
"""How many windows a path may have."""


@dataclass(frozen=True)
class Duration:
    """A window's length in time; see `slicekit.Duration`."""

    time: float
    channel: int = 0

    def __post_init__(self) -> None:
        """Check what was given."""
        check_positive("time", self.time)
        check_whole("channel", self.channel, least=0, of=int)


def check_channel(channel: int, sizes: Sequence[int]) -> None:
    """Raise ValueError unless increments of these sizes have that channel."""
    if channel >= sizes[-1]:
        raise ValueError(f"channel={channel} is no channel of increments {tuple(sizes)}")


def check_windows(windows: int) -> None:
    """Raise ValueError if a path would have too many windows.

    >>> check_windows(1 << 30)
    Traceback (most recent call last):
    ValueError: a path would have 1073741824 windows; expected at most 16777216; give a longer \
duration, or look for a wrong timestamp
    """
    if windows > MOST_WINDOWS:
        raise ValueError(
            f"a path would have {windows} windows; expected at most {MOST_WINDOWS}; "
            "give a longer duration, or look for a wrong timestamp"
        )


def backwards(step: float, position: Sequence[int], channel: int) -> ValueError:
    """What is raised where time goes back: by that step, at (batch, position)."""
    return ValueError(
        f"increments goes by {step:g} in time at "
        f"{place(position, ('batch', 'position'))}, channel {channel}; "
        "expected steps of time that are finite and not negative"
    )
