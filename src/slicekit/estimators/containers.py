"""Series as people have them: data frames of several shapes, as lists of arrays and their times.

| what is given | read as |
|---|---|
| a frame with columns `id` and `time` | long: a row for each observation, the rest are channels |
| a frame with a two-level index | the same, with (case, time) as the index: pd-multiindex |
| a frame whose cells are series | a row for each case, a column for each channel: nested |
| a list of frames | a frame for each case, a row for each time, a column for each channel |

Any other frame is a table (cases, length) of series with one channel. Channels go by the names of
their columns, in whatever order these stand. Masked cells of an array are gaps. pandas is never
imported here: who hands over a frame has it.
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
        ValueError: if a column is missing, there twice or no number, or times do not increase.
    """
    for name in (id, time, *(channels or ())):
        if name not in frame.columns:
            raise ValueError(f"the frame has no column {name!r}; it has {list(frame.columns)}")
    used = frame.columns if channels is None else [id, time, *channels]
    _check_once([c for c in frame.columns if c in used], "the frame")
    if frame.empty:
        raise ValueError("the frame has no rows; expected a row for each observation")
    others = [c for c in frame.columns if c not in (id, time)]
    values = _values(frame[others if channels is None else list(channels)], "the frame")
    pairs, ids = [], []
    for key, rows in frame.groupby(id, sort=False).indices.items():
        times = frame[time].iloc[rows]
        _check_sorted(times, f"series {_plain(key)!r}")
        pairs.append((values[:, rows], times.to_numpy()))
        ids.append(key)
    missing = int(frame[id].isna().sum())
    if missing:
        raise ValueError(f"{missing} rows have no {id!r}; expected one in every row")
    return pairs, np.array(ids)


def unpacked(
    X: Any, times: Any, names: list[str] | None = None
) -> tuple[Any, Any, list[str] | None]:
    """X and times as arrays or lists of them, whatever X came in; other things stay as they are.

    Args:
        X, times: see `read_cases` of `slicekit.estimators.inputs`.
        names: of the channels that an estimator was fitted to, if they have any: frames must have
            the same, and are brought to that order.

    Returns:
        X, times, and the names of the channels, None where nothing tells them.

    Raises:
        ValueError: if times are given twice, a frame can't be read, or its channels are others.
    """
    pairs = None
    if is_frame(X):
        pairs, names = _of_frame(X, names)
    elif isinstance(X, list | tuple) and len(X) and all(is_frame(x) for x in X):
        names = [str(c) for c in X[0].columns] if names is None else names
        every = enumerate(X)
        pairs = [_of_case(_in_order(x, (), names, f"X[{i}]"), f"X[{i}]") for i, x in every]
    if pairs is None:
        return X, times, None
    stamps = [t for _, t in pairs]
    if any(t is None for t in stamps):
        stamps = None
    if stamps is not None and times is not None:
        raise ValueError("times is given, but the frames of X hold times already; give one")
    return [x for x, _ in pairs], times if stamps is None else stamps, names


def observed(x: Any, names: list[str] | None) -> np.ndarray:
    """One observation (channels,), or (batch, channels), as float64, with NaN in gaps.

    Args:
        x: an array, or a pandas Series whose index, or a frame whose columns, name the channels.
        names: of the channels that an estimator was fitted to, if they have any: those of x must
            be the same, and are brought to that order.

    Raises:
        ValueError: if x has other names.
    """
    if not hasattr(x, "iloc"):
        return np.asarray(unmasked(x), dtype=np.float64)
    labels = list(x.columns if is_frame(x) else x.index)
    order = slice(None) if names is None else _order(labels, names, "observation")
    return x.to_numpy(dtype=np.float64, na_value=np.nan)[..., order]


def unmasked(x: Any) -> Any:
    """Masked cells as NaN, in an array or in those that a list holds; other things as they are.

    >>> unmasked([np.ma.masked_greater([1, 2], 1)])
    [array([ 1., nan])]
    """
    if isinstance(x, np.ma.MaskedArray):
        return _filled(x)
    if type(x) in (list, tuple):
        return type(x)(unmasked(part) for part in x)
    if isinstance(x, np.ndarray) and x.dtype == object and x.ndim == 1:
        held = np.empty_like(x)
        for i, part in enumerate(x):
            held[i] = unmasked(part)
        return held
    return x


def _filled(x: Any) -> np.ndarray:
    """A masked array with NaN, or NaT, in the cells that are masked."""
    if not np.ma.is_masked(x):
        return x.data
    if x.dtype.kind in "mM":
        return x.filled(np.array("NaT", x.dtype))
    able = x if x.dtype.kind in "fcO" else x.astype(np.float64 if x.dtype.kind in "iub" else object)
    return able.filled(np.nan)


def is_frame(X: Any) -> bool:
    """Whether X is a frame of pandas, or like one."""
    return hasattr(X, "columns") and hasattr(X, "iloc") and hasattr(X, "index")


def case_ids(X: Any) -> Any:
    """A pandas Index of the series of a frame whose rows are observations; None for others."""
    if not is_frame(X):
        return None
    if X.index.nlevels == 2:
        return X.index.get_level_values(0).unique()
    known = {str(c).lower(): c for c in X.columns}
    if not {"id", "time"} <= known.keys():
        return None
    return X.set_index(known["id"]).index.unique()


def _in_order(frame: Any, first: Sequence[Any], names: list[str], told: str) -> Any:
    """A frame with the columns `first`, then its channels in the order of their names.

    Raises:
        ValueError: if they have other names, or a name is there twice.
    """
    columns = list(frame.columns)
    _check_once(columns, told)
    places = [i for i, c in enumerate(columns) if c not in first]
    order = _order([columns[i] for i in places], names, told)
    return frame.iloc[:, [*(columns.index(c) for c in first), *(places[i] for i in order)]]


def _order(labels: Sequence[Any], names: list[str], told: str) -> list[int]:
    """Where the channel of each name stands among labels.

    Raises:
        ValueError: if they have other names, or a name is there twice.
    """
    _check_once(labels, told)
    there = [str(label) for label in labels]
    if sorted(there) != sorted(names):
        raise ValueError(f"{told} has the channels {there}; expected {names}")
    return [there.index(name) for name in names]


def _check_once(labels: Sequence[Any], told: str) -> None:
    """Raise ValueError if two labels are the same name."""
    there = [str(label) for label in labels]
    if len(set(there)) < len(there):
        twice = next(name for name in there if there.count(name) > 1)
        raise ValueError(f"{told} has the name {twice!r} more than once; expected each name once")


def _of_frame(X: Any, names: list[str] | None) -> tuple[list[Pair] | None, list[str] | None]:
    """The series of a long or nested frame, None for a table; and the names of the channels."""
    if X.index.nlevels > 2:
        raise ValueError(f"X has an index of {X.index.nlevels} levels; expected (case, time)")
    known = {str(c).lower(): c for c in X.columns}
    long = {"id", "time"} <= known.keys()
    nested = len(X) and X.shape[1] and all(np.ndim(cell) == 1 for cell in X.iloc[0])
    if X.index.nlevels == 1 and not long and not nested:
        _check_table(X, known)
        return None, None
    first = [known["id"], known["time"]] if long and X.index.nlevels == 1 else []
    names = [str(c) for c in X.columns if c not in first] if names is None else names
    X = _in_order(X, first, names, "X")
    if X.index.nlevels == 2:
        return _of_index(X), names
    if long:
        return from_long(X, *first)[0], names
    return [_of_cells(cells, i) for i, cells in enumerate(X.itertuples(index=False))], names


def _check_table(X: Any, known: dict[str, Any]) -> None:
    """Raise ValueError if a table (cases, length) seems to be in long form."""
    dates = [c for c, kind in X.dtypes.items() if getattr(kind, "kind", "O") in "Mm"]
    lone = [known[n] for n in ("id", "time") if n in known]
    for column in (lone + dates)[:1]:
        raise ValueError(
            f"X has a column {column!r}, so it seems to be in long form; name both columns with "
            "slicekit.estimators.from_long(frame, id=..., time=...)"
        )


def _plain(key: Any) -> Any:
    """A number of NumPy as Python's own."""
    return key.item() if isinstance(key, np.generic) else key


def _of_index(X: Any) -> list[Pair]:
    values, pairs = _values(X, "X"), []
    indices = X.groupby(level=0, sort=False).indices
    for key, rows in indices.items():
        times = X.index.get_level_values(1)[rows]
        _check_sorted(times, f"series {_plain(key)!r}")
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
    return np.stack([np.asarray(unmasked(cell), dtype=np.float64) for cell in cells]), None


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
