"""How long a study may take: runs that would likely pass the end of it are not begun."""

import re
import time

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
FORMS = "hours, minutes or seconds as in 8h, 30m, 90s or 1h30m"

_WRITTEN = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


def seconds_of(budget: str) -> float:
    """A time as it is written on the command line, in seconds.

    Raises:
        ValueError: if it is no time.

    >>> seconds_of("8h"), seconds_of("1h30m"), seconds_of("90s")
    (28800.0, 5400.0, 90.0)
    >>> seconds_of("8 hours")
    Traceback (most recent call last):
    ValueError: budget='8 hours'; expected hours, minutes or seconds as in 8h, 30m, 90s or 1h30m
    """
    written = _WRITTEN.fullmatch(budget)
    if written is None or not budget:
        raise ValueError(f"budget={budget!r}; expected {FORMS}")
    return sum(
        float(x or 0) * unit for x, unit in zip(written.groups(), UNITS.values(), strict=True)
    )


class Budget:
    """A stretch of time that begins now.

    Args:
        seconds: how long it is; None has no end.

    Raises:
        ValueError: if it is negative.
    """

    def __init__(self, seconds: float | None = None) -> None:
        """Begin."""
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"budget={seconds}; expected a number of seconds, 0 or more")
        self.seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds until its end, None if it has none."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether its end has come."""
        return self.left == 0

    def allows(self, seconds: float | None) -> bool:
        """Whether something that takes so long, None if no one knows, may begin."""
        left = self.left
        return left is None or left > (seconds or 0.0)
