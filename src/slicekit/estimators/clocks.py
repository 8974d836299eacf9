"""Times as users have them, as numbers: dates and durations become seconds."""

from datetime import UTC
from typing import Any

import numpy as np

from slicekit.estimators.containers import unmasked

SECOND = np.timedelta64(1, "s")
NUMPYS = (np.datetime64, np.timedelta64)


def seconds(times: Any, name: str = "times") -> tuple[np.ndarray, bool]:
    """Times as float64.

    Args:
        times: numbers, dates (datetime64, datetime, pandas' own) or durations, of any shape.
        name: what to call them in an error.

    Returns:
        Numbers as they are, dates as seconds since 1970 (UTC), durations as seconds; and whether
        they are dates.

    Raises:
        ValueError: if they are none of these.

    >>> seconds(np.array(["1970-01-01T00:00:02"], dtype="datetime64[ms]"))
    (array([2.]), True)
    """
    if getattr(times, "tz", None) is not None and hasattr(times, "tz_convert"):
        times = times.tz_convert(None)
    array = np.asarray(unmasked(times))
    if array.dtype == object and array.size:
        array = _objects(array, name)
    if array.dtype.kind == "M":
        return _divided(array - np.datetime64(0, "s"), name), True
    if array.dtype.kind == "m":
        return _divided(array, name), False
    try:
        return array.astype(np.float64), False
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} can't be read as numbers or dates: {error}") from error


def holds_times(values: Any) -> bool:
    """Whether there are dates or durations among values, of any shape.

    >>> holds_times(np.array(["NaT"], dtype="datetime64[s]")), holds_times([1.0, 2.0])
    (True, False)
    """
    array = np.asarray(values)
    return array.dtype.kind in "mM" or (array.dtype == object and any(map(_is_time, array.flat)))


def same_date(time: float) -> str:
    """What to add to an error about dates that do not differ as seconds since 1970, in float64."""
    return (
        f"; dates that are less than {np.spacing(abs(time)):.2g} s apart are the same here: give "
        "the times of such series as durations since a start of theirs"
    )


def _is_time(x: Any) -> bool:
    """Whether x is a date or a duration, of NumPy, Python or pandas."""
    return isinstance(x, NUMPYS) or hasattr(x, "isoformat") or hasattr(x, "total_seconds")


def _objects(array: np.ndarray, name: str) -> np.ndarray:
    """An array of Python's or pandas' dates as one of NumPy's."""
    first = array.flat[0]
    if not _is_time(first):
        return array
    kind = "timedelta64[us]" if hasattr(first, "total_seconds") else "datetime64[us]"
    try:
        return np.array([_numpys(x, kind) for x in array.flat]).reshape(array.shape)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} can't be read as dates: {error}") from error


def _numpys(time: Any, kind: str) -> Any:
    """A date without a zone, in UTC, or a duration, as NumPy's: in microseconds if it is Python's.

    In nanoseconds, dates before 1678 or after 2262 would be others.
    """
    if isinstance(time, NUMPYS):
        return time
    if getattr(time, "tzinfo", None) is not None:
        time = time.astimezone(UTC).replace(tzinfo=None)
    for way in ("to_datetime64", "to_timedelta64"):  # of pandas
        if hasattr(time, way):
            return getattr(time, way)()
    return np.array(time, dtype=kind)[()]


def _divided(durations: np.ndarray, name: str) -> np.ndarray:
    if np.isnat(durations).any():
        raise ValueError(f"{name} holds NaT; expected a time for every observation")
    whole = durations // SECOND
    return whole.astype(np.float64) + (durations - whole * SECOND) / SECOND
