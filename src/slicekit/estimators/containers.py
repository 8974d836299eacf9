"""Series as people have them: data frames of several shapes, as lists of arrays and their times.

| what is given | read as |
|---|---|
| a frame with columns `id` and `time` | long: a row for each observation, the rest are channels |
| a frame with a two-level index | the same, with (case, time) as the index: pd-multiindex |
| a frame whose cells are series | a row for each case, a column for each channel: nested |
| a list of frames | a frame for each case, a row for each time, a column for each channel |

Any other frame is a table (cases, length) of series with one channel. pandas is never imported
here: who hands over a frame has it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

Pair = tuple[np.ndarray, Any]
"""A series (channels, length), and its times (length,)."""


def from_long(
    frame: Any, id: str = "id", time: str = "time", channels: Sequence[str] | None = None
) -> tuple[list[Pair], np.ndarray]:
    """Series from a frame in long form: a row for each observation.

    Args:
        frame: a pandas DataFrame.
        id: the column that tells the series apart.
        time: the column of times, numbers or dates, increasing within each series.
        channels: the columns of values; None for all others.

    Returns:
        A list of pairs (channels, length_i) and times (length_i,), which `fit` and `predict` take,
        and the ids of the series, in the order of their first rows.

    Raises:
        ValueError: if a column is missing or no number, or times do not increase.
    """
    for name in (id, time, *(channels or ())):
        if name not in frame.columns:
            raise ValueError(f"the frame has no column {name!r}; it has {list(frame.columns)}")
    if frame.empty:
        raise ValueError("the frame has no rows; expected a row for each observation")
    others = [c for c in frame.columns if c not in (id, time)]
    values = _values(frame[others if channels is None else list(channels)], "the frame")
    pairs, ids = [], []
    for key, rows in frame.groupby(id, sort=False).indices.items():
        times = frame[time].iloc[rows]
        _check_sorted(times, f"series {key!r}")
        pairs.append((values[:, rows], times.to_numpy()))
        ids.append(key)
    missing = int(frame[id].isna().sum())
    if missing:
        raise ValueError(f"{missing} rows have no {id!r}; expected one in every row")
    return pairs, np.array(ids)


def unpacked(X: Any, times: Any) -> tuple[Any, Any]:
    """X and times as arrays or lists of them, whatever X came in; other things stay as they are.

    Raises:
        ValueError: if times are given twice, or a frame can't be read.
    """
    pairs = None
    if _is_frame(X):
        pairs = _of_frame(X)
    elif isinstance(X, list | tuple) and len(X) and all(_is_frame(x) for x in X):
        pairs = [_of_case(x, f"X[{i}]") for i, x in enumerate(X)]
    if pairs is None:
        return X, times
    own = [t for _, t in pairs]
    if any(t is None for t in own):
        own = None
    if own is not None and times is not None:
        raise ValueError("times is given, but the frames of X hold times already; give one")
    return [x for x, _ in pairs], times if own is None else own


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "iloc") and hasattr(X, "index")


def _of_frame(X: Any) -> list[Pair] | None:
    """The series of a long or nested frame, None for a table."""
    if X.index.nlevels == 2:
        return _of_index(X)
    if X.index.nlevels > 2:
        raise ValueError(f"X has an index of {X.index.nlevels} levels; expected (case, time)")
    names = {str(c).lower(): c for c in X.columns}
    if {"id", "time"} <= names.keys():
        return from_long(X, names["id"], names["time"])[0]
    if len(X) and X.shape[1] and all(np.ndim(cell) == 1 for cell in X.iloc[0]):
        return [_of_cells(cells, i) for i, cells in enumerate(X.itertuples(index=False))]
    lone = [names[n] for n in ("id", "time") if n in names]
    if lone:
        raise ValueError(
            f"X has a column {lone[0]!r}, so it seems to be in long form; name both columns with "
            "slicekit.estimators.from_long(frame, id=..., time=...)"
        )
    return None


def _of_index(X: Any) -> list[Pair]:
    values, pairs = _values(X, "X"), []
    indices = X.groupby(level=0, sort=False).indices
    for key, rows in indices.items():
        times = X.index.get_level_values(1)[rows]
        _check_sorted(times, f"series {key!r}")
        pairs.append((values[:, rows], times.to_numpy()))
    if all(_is_count(t) for _, t in pairs):
        return [(x, None) for x, _ in pairs]
    return pairs


def _of_case(frame: Any, name: str) -> Pair:
    """A frame of one case: rows are times."""
    times: Any = frame.index
    if times.nlevels > 1:
        raise ValueError(f"{name} has an index of {times.nlevels} levels; expected times")
    if times.dtype.kind not in "iufMm":
        raise ValueError(f"{name} has an index of {times.dtype}; expected numbers or dates")
    _check_sorted(times, name)
    times = times.to_numpy()
    return _values(frame, name), None if _is_count(times) else times


def _of_cells(cells: Sequence[Any], row: int) -> Pair:
    lengths = {len(cell) for cell in cells}
    if len(lengths) > 1:
        raise ValueError(
            f"X has channels of lengths {sorted(lengths)} in row {row}; expected the same for all"
        )
    return np.stack([np.asarray(cell, dtype=np.float64) for cell in cells]), None


def _values(frame: Any, name: str) -> np.ndarray:
    """(channels, rows) float64."""
    if frame.shape[1] == 0:
        raise ValueError(f"{name} has no column of values")
    for column, kind in frame.dtypes.items():
        if getattr(kind, "kind", "O") not in "iufb":
            raise ValueError(
                f"{name} has a column {column!r} of {kind}; expected numbers in every channel"
            )
    return np.ascontiguousarray(frame.to_numpy(dtype=np.float64, na_value=np.nan).T)


def _check_sorted(times: Any, name: str) -> None:
    """Raise ValueError unless times increase, of a pandas Series or Index."""
    if times.isna().any():
        raise ValueError(f"{name} has rows without a time")
    if times.is_monotonic_increasing and times.is_unique:
        return
    if not times.is_unique:
        twice = times[times.duplicated()]
        first = twice.iloc[0] if hasattr(twice, "iloc") else twice[0]
        raise ValueError(f"{name} has the time {first} more than once; expected each time once")
    raise ValueError(f"the times of {name} are not sorted; sort the frame by time first")


def _is_count(times: np.ndarray) -> bool:
    """Whether times are 0, 1, 2, ... and tell nothing."""
    return times.dtype.kind in "iu" and bool((times == np.arange(len(times))).all())
