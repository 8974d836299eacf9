"""What a user hands over as X and times, brought to one form. Channels come first there: from here
on they come last."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import validate_data
from torch import Tensor

from slicekit.estimators.clocks import same_date, seconds
from slicekit.estimators.containers import is_frame, unmasked, unpacked
from slicekit.paths import valid_mask

# Options of scikit-learn's checks, whose annotations are narrower than what they take.
REAL: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}


@dataclass(frozen=True, eq=False)
class Cases:
    """Series of one set, each at its own length.

    Args:
        observations: (total, channels), floating, those of the first case, then those of the
            second, and so on; NaN where nothing was observed.
        lengths: (cases,) int64, each at least 1; their sum is the total.
        times: (total,) float64, strictly increasing within each case; None is 0, 1, ...
        flat: whether the user gave a 2-D array.
        dated: whether times are dates, in seconds since 1970.
    """

    observations: Tensor
    lengths: Tensor
    times: Tensor | None
    flat: bool = False
    dated: bool = False

    def __len__(self) -> int:
        """How many there are."""
        return len(self.lengths)

    @property
    def channels(self) -> int:
        """Of every series."""
        return self.observations.shape[1]

    @property
    def longest(self) -> int:
        """The length of the longest."""
        return int(self.lengths.max()) if len(self) else 0

    @cached_property
    def owners(self) -> Tensor:
        """(total,) int64, the case of each observation."""
        return torch.arange(len(self)).repeat_interleave(self.lengths)

    @cached_property
    def clock(self) -> Tensor:
        """(total,) float64, the times, or the places within the cases."""
        if self.times is not None:
            return self.times
        return (torch.arange(len(self.observations)) - self._starts[self.owners]).double()

    @cached_property
    def _starts(self) -> Tensor:
        return self.lengths.cumsum(0) - self.lengths

    def select(self, indices: Tensor) -> "Cases":
        """Some of the cases, in that order."""
        lengths = self.lengths[indices]
        moved = self._starts[indices] - (lengths.cumsum(0) - lengths)
        rows = torch.arange(int(lengths.sum())) + moved.repeat_interleave(lengths)
        return self._at(rows, lengths)

    def prefix(self, share: float) -> "Cases":
        """The first observations of each case, so large a share of them, at least one."""
        lengths = (share * self.lengths).round().long().clamp_min(1)
        places = torch.arange(len(self.observations)) - self._starts[self.owners]
        return self._at((places < lengths[self.owners]).nonzero().squeeze(1), lengths)

    def _at(self, rows: Tensor, lengths: Tensor) -> "Cases":
        times = None if self.times is None else self.times[rows]
        return Cases(self.observations[rows], lengths, times, self.flat, self.dated)

    def padded(self) -> tuple[Tensor, Tensor]:
        """All in one array: values (cases, longest, channels) and times (cases, longest).

        Past the end of a case, both are zero.
        """
        return self._in_rows(self.observations), self._in_rows(self.clock.unsqueeze(1))[..., 0]

    def _in_rows(self, x: Tensor) -> Tensor:
        shape = (len(self), self.longest, x.shape[1])
        if len(x) == shape[0] * shape[1]:
            return x.reshape(shape)
        rows = x.new_zeros(shape)
        rows[valid_mask(self.lengths, self.longest)] = x
        return rows


def read_cases(estimator: Any, X: Any, times: Any = None, *, reset: bool) -> Cases:
    """Check X and times.

    Args:
        estimator: named in errors; for a 2-D array it is given scikit-learn's `n_features_in_` and
            `feature_names_in_`, for frames whose columns are channels `channel_names_in_`.
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
        for name in ("n_features_in_", "feature_names_in_", "channel_names_in_"):
            vars(estimator).pop(name, None)
    X, times, names = unpacked(unmasked(X), times, channel_names(estimator))
    if reset and names is not None:
        estimator.channel_names_in_ = np.array(names)
    if isinstance(X, list | tuple) and not X:
        raise ValueError(f"X is an empty {type(X).__name__}; expected at least one series")
    X, times = _unpaired(X, times)
    series = _as_list(X)
    if series is not None:
        observations, lengths = _read_list(series)
        flat = False
    else:
        values, flat = _read_array(estimator, X, reset)
        observations = values.flatten(0, 1)
        lengths = torch.full((values.shape[0],), values.shape[1])
    clock, dated = _read_times(times, lengths)
    return Cases(observations, lengths, clock, flat, dated)


def channel_names(estimator: Any) -> list[str] | None:
    """Those of the frames that an estimator was fitted to."""
    names = getattr(estimator, "channel_names_in_", None)
    return None if names is None else list(names.tolist())


def check_answers(X: Any, cases: Cases, y: Any) -> None:
    """Raise ValueError unless there is an answer for each case."""
    if cases.flat and is_frame(X) and len(y) != len(cases):
        raise ValueError(
            f"X is a table of {len(cases)} series with one channel, a row each, but y has {len(y)} "
            "answers; name the columns of a frame in long form with "
            "slicekit.estimators.from_long(frame, id=..., time=...)"
        )
    check_consistent_length(cases.lengths, y)


def _unpaired(X: Any, times: Any) -> tuple[Any, Any]:
    """Pairs of series and times, apart; what is no list of pairs stays as it is."""
    if not isinstance(X, list | tuple):
        return X, times
    paired = [is_pair(x, f"X[{i}]") for i, x in enumerate(X)]
    if not any(paired):
        return X, times
    if times is not None:
        raise ValueError("times is given, but X holds pairs (series, times) already; give one")
    if not all(paired):
        i = paired.index(False)
        raise ValueError(
            f"X[{i}] is a {type(X[i]).__name__}, others are pairs (series, times); expected a "
            "pair of a 2-D array (channels, length) and its times (length,) for all"
        )
    return [series for series, _ in X], [times for _, times in X]


def is_pair(x: Any, name: str) -> bool:
    """Whether x is a series (channels, length) with its times (length,), in a tuple.

    Args:
        x: what may be one.
        name: what to call it in an error.

    Raises:
        ValueError: if it is a list of these, or a tuple that may also be a series of two channels.
    """
    if not isinstance(x, list | tuple) or len(x) != 2:
        return False
    ranks = (_rank(x[0]), _rank(x[1]))
    if ranks == (1, 1) and isinstance(x, tuple):
        raise ValueError(
            f"{name} is a tuple of two 1-D arrays: a series and its times, or two channels? "
            "Expected a pair (series[None], times), whose series is (channels, length), or a 2-D "
            "array of the channels"
        )
    if ranks == (2, 1) and isinstance(x, list):
        raise ValueError(
            f"{name} is a list of a 2-D array and a 1-D array; expected a tuple (series, times) of "
            "a series (channels, length) and its times (length,)"
        )
    return ranks == (2, 1)


def _as_list(X: Any) -> list[Any] | None:
    """The series of a list, None where X is to be read as one array."""
    ragged = isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1
    if not (isinstance(X, list | tuple) or ragged) or len(X) == 0:
        return None
    ranks = [_rank(x) for x in X]
    if all(rank == 2 for rank in ranks):
        return list(X)
    if all(rank == 1 for rank in ranks) and (ragged or len({len(x) for x in X}) > 1):
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
    observations = np.concatenate([x.T for x in arrays])
    return torch.from_numpy(observations), torch.tensor([x.shape[1] for x in arrays])


def _read_array(estimator: Any, X: Any, reset: bool) -> tuple[Tensor, bool]:
    if getattr(X, "ndim", None) == 3:
        array = check_array(X, **REAL, allow_nd=True, estimator=estimator, input_name="X")
        _check_not_empty(array.shape, "X", "(cases, channels, length)")
        return _tensor(array).transpose(1, 2), False
    if isinstance(X, list | tuple):  # of 1-D arrays, which do not fix the length
        array: Any = check_array(X, **REAL, allow_nd=True, estimator=estimator, input_name="X")
    else:
        array = validate_data(estimator, X, reset=reset, **REAL, allow_nd=True)
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


def _read_times(times: Any, lengths: Tensor) -> tuple[Tensor | None, bool]:
    """Times (total,) float64, and whether they are dates."""
    if times is None:
        return None, False
    if isinstance(times, list | tuple) and all(_rank(t) == 1 for t in times):
        clock, dated = _times_of_list(times, lengths)
    else:
        numbers, dated = seconds(times)
        cases, length = len(lengths), int(lengths.max())
        if numbers.shape not in ((length,), (cases, length)):
            raise ValueError(
                f"times has shape {numbers.shape}; expected ({length},), ({cases}, {length}) "
                f"or a list of {cases} 1-D arrays"
            )
        grid = torch.from_numpy(numbers.copy()).expand(cases, length)
        clock = grid[valid_mask(lengths, length)]
    _check_increasing(clock, lengths, dated)
    return clock, dated


def _check_increasing(clock: Tensor, lengths: Tensor, dated: bool) -> None:
    """Raise ValueError unless times are finite, and increase strictly within each series."""
    starts = lengths.cumsum(0) - lengths
    late = torch.ones(len(clock), dtype=torch.bool)
    late[1:] = clock[1:] > clock[:-1]
    late[starts] = True
    wrong = (~late | ~clock.isfinite()).nonzero()
    if not len(wrong):
        return
    at = int(wrong[0])
    case = int(torch.searchsorted(starts, at, right=True)) - 1
    place = f"{clock[at].item()} at position {at - int(starts[case])} of series {case}"
    if not clock[at].isfinite():
        raise ValueError(f"times must increase strictly: {place} is not finite")
    before = clock[at - 1].item()
    hint = same_date(before) if dated and clock[at] == before else ""
    raise ValueError(f"times must increase strictly: {place} comes after {before}{hint}")


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
    return torch.from_numpy(np.concatenate([row for row, _ in rows])), rows[0][1]
