"""What a user hands over as X and times, brought to one form. Channels come first there: from here
on they come last."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data
from torch import Tensor

from slicekit.estimators.clocks import seconds
from slicekit.estimators.containers import unpacked
from slicekit.paths import pad, valid_mask
from slicekit.paths.times import check_times

# Options of scikit-learn's checks, whose annotations are narrower than what they take.
REAL: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}


@dataclass(frozen=True, eq=False)
class Cases:
    """Series of one set.

    Args:
        values: (cases, length, channels), floating; NaN where nothing was observed, zero past the
            end of a case.
        lengths: (cases,) int64, each at least 1.
        times: (cases, length) float64, strictly increasing within each case; None is 0, 1, ...
        flat: whether the user gave a 2-D array.
        dated: whether times are dates, in seconds since 1970.
    """

    values: Tensor
    lengths: Tensor
    times: Tensor | None
    flat: bool = False
    dated: bool = False

    def __len__(self) -> int:
        """How many there are."""
        return self.values.shape[0]

    @property
    def channels(self) -> int:
        """Of every series."""
        return self.values.shape[2]

    def select(self, indices: Tensor | slice) -> "Cases":
        """Some of the cases, cut to the longest of them."""
        lengths = self.lengths[indices]
        longest = int(lengths.max()) if lengths.numel() else 0
        times = None if self.times is None else self.times[indices][:, :longest]
        return Cases(self.values[indices][:, :longest], lengths, times, self.flat, self.dated)

    def prefix(self, share: float) -> "Cases":
        """The first observations of each case, so large a share of them, at least one."""
        lengths = (share * self.lengths).round().long().clamp_min(1)
        longest = int(lengths.max())
        valid = valid_mask(lengths, longest)
        values = self.values[:, :longest].masked_fill(~valid.unsqueeze(-1), 0)
        times = None if self.times is None else self.times[:, :longest].masked_fill(~valid, 0)
        return Cases(values, lengths, times, self.flat, self.dated)


def read_cases(estimator: Any, X: Any, times: Any = None, *, reset: bool) -> Cases:
    """Check X and times.

    Args:
        estimator: named in errors; for a 2-D array it is given scikit-learn's `n_features_in_` and
            `feature_names_in_`.
        X: a 3-D array (cases, channels, length), a list of 2-D arrays (channels, length_i), or a
            2-D array (cases, length) or list of 1-D arrays for series of one channel. A list may
            also hold pairs of a 2-D array (channels, length_i) and its times (length_i,). Data
            frames: see `slicekit.estimators.containers`.
        times: (length,) for all cases, (cases, length), a list of 1-D arrays (length_i,), or None;
            numbers or dates.
        reset: whether this is what the estimator is fitted to.

    Returns:
        The cases.

    Raises:
        TypeError: if X is sparse.
        ValueError: if a shape does not fit, X holds infinity or times do not increase strictly.
    """
    if reset:
        for name in ("n_features_in_", "feature_names_in_"):
            vars(estimator).pop(name, None)
    X, times = unpacked(X, times)
    X, times = _unpaired(X, times)
    series = _as_list(X)
    if series is not None:
        values, lengths = _read_list(series)
        flat = False
    else:
        values, flat = _read_array(estimator, X, reset)
        lengths = torch.full((values.shape[0],), values.shape[1])
    grid, dated = _read_times(times, values, lengths)
    return Cases(values, lengths, grid, flat, dated)


def _unpaired(X: Any, times: Any) -> tuple[Any, Any]:
    """Pairs of series and times, apart; what is no list of pairs stays as it is."""
    if not isinstance(X, list | tuple) or not any(_is_pair(x) for x in X):
        return X, times
    if times is not None:
        raise ValueError("times is given, but X holds pairs (series, times) already; give one")
    for i, x in enumerate(X):
        if not _is_pair(x):
            raise ValueError(
                f"X[{i}] is a {type(x).__name__}, others are pairs (series, times); expected a "
                "pair of a 2-D array (channels, length) and its times (length,) for all"
            )
    return [series for series, _ in X], [times for _, times in X]


def _is_pair(x: Any) -> bool:
    return isinstance(x, tuple) and len(x) == 2 and (_rank(x[0]), _rank(x[1])) == (2, 1)


def _as_list(X: Any) -> list[Any] | None:
    """The series of a list, None where X is to be read as one array."""
    ragged = isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1
    if not (isinstance(X, list | tuple) or ragged) or len(X) == 0:
        return None
    ranks = [_rank(x) for x in X]
    if all(rank == 2 for rank in ranks):
        return list(X)
    if all(rank == 1 for rank in ranks) and len({len(x) for x in X}) > 1:
        return [np.asarray(x)[None] for x in X]
    if any(rank == 2 for rank in ranks):
        i = next(i for i, rank in enumerate(ranks) if rank != 2)
        raise ValueError(
            f"X[{i}] has {ranks[i]} dimensions, others have 2; expected (channels, length) for all"
        )
    return None


def _rank(x: Any) -> int:
    try:
        return np.ndim(x)
    except ValueError:  # nested lists of unequal lengths
        return -1


def _read_list(series: list[Any]) -> tuple[Tensor, Tensor]:
    arrays = []
    for i, x in enumerate(series):
        array = check_array(
            x, **REAL, ensure_min_samples=0, ensure_min_features=0, input_name=f"X[{i}]"
        )
        _check_not_empty(array.shape, f"X[{i}]", "(channels, length)")
        if array.shape[0] != len(series[0]):
            raise ValueError(
                f"X[{i}] has {array.shape[0]} channels, X[0] has {len(series[0])}; expected the "
                "same channels in every series"
            )
        arrays.append(array)
    dtype = np.result_type(*arrays)
    return pad([_tensor(x.astype(dtype, copy=False)).t() for x in arrays])


def _read_array(estimator: Any, X: Any, reset: bool) -> tuple[Tensor, bool]:
    if getattr(X, "ndim", None) == 3:
        array = check_array(X, **REAL, allow_nd=True, estimator=estimator)
        _check_not_empty(array.shape, "X", "(cases, channels, length)")
        return _tensor(array).transpose(1, 2), False
    array: Any = validate_data(estimator, X, reset=reset, **REAL, allow_nd=True)
    if array.ndim > 2:
        raise ValueError(
            f"Found array with dim {array.ndim}, X of shape {array.shape}; expected "
            "(cases, channels, length)"
        )
    return _tensor(array).unsqueeze(-1), True


def _check_not_empty(shape: tuple[int, ...], name: str, expected: str) -> None:
    if 0 in shape:
        raise ValueError(f"{name} has shape {shape}, so it is empty; expected {expected}")


def _tensor(array: np.ndarray) -> Tensor:
    """The same memory where torch can have it: not if it is read-only or runs backwards."""
    plain = array.flags.writeable and all(step >= 0 for step in array.strides)
    return torch.from_numpy(array if plain else array.copy())


def _read_times(times: Any, values: Tensor, lengths: Tensor) -> tuple[Tensor | None, bool]:
    """Times (cases, length) float64, and whether they are dates."""
    if times is None:
        return None, False
    cases, length = values.shape[:2]
    if isinstance(times, list | tuple) and all(_rank(t) == 1 for t in times):
        grid, dated = _times_of_list(times, lengths)
    else:
        numbers, dated = seconds(times)
        grid = torch.from_numpy(numbers.copy())
        if grid.shape not in ((length,), (cases, length)):
            raise ValueError(
                f"times has shape {tuple(grid.shape)}; expected ({length},), ({cases}, {length}) "
                f"or a list of {cases} 1-D arrays"
            )
    grid = check_times(grid, values, valid_mask(lengths, length)).expand(cases, length)
    return torch.where(valid_mask(lengths, length), grid, 0.0), dated


def _times_of_list(times: Any, lengths: Tensor) -> tuple[Tensor, bool]:
    if len(times) != len(lengths):
        raise ValueError(f"times has {len(times)} series, X has {len(lengths)}; expected as many")
    rows = [seconds(t, f"times[{i}]") for i, t in enumerate(times)]
    for i, ((row, dated), length) in enumerate(zip(rows, lengths.tolist(), strict=True)):
        if len(row) != length:
            raise ValueError(f"times[{i}] has length {len(row)}; expected {length}, that of X[{i}]")
        if dated != rows[0][1]:
            kinds = ("numbers", "dates")
            raise ValueError(
                f"times[{i}] holds {kinds[dated]}, times[0] {kinds[rows[0][1]]}; expected one kind"
            )
    padded = pad([torch.from_numpy(row.copy())[:, None] for row, _ in rows])[0]
    return padded.squeeze(-1), rows[0][1]
