"""A labelled set of series, and the two sets that an archive's own split makes of one problem."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from slicekit.checks import check_lengths, check_shape
from slicekit.paths import valid_mask


@dataclass(frozen=True, eq=False)
class Series:
    """A labelled set of series, all in memory, padded on the right.

    Args:
        values: (cases, length, channels) float32, NaN where nothing was observed; zero past the end
            of a case.
        lengths: (cases,) int64, at least 1.
        answers: (cases,) int64 indices into `classes`, or float32 to be regressed on.
        classes: the names of the classes; none for regression.
        times: (cases, length) float64 if the series have timestamps, strictly increasing within a
            case and zero past its end; else None.
        name: of the problem.

    Raises:
        TypeError: if a dtype is another one.
        ValueError: if shapes do not fit together, or a length or class is out of range.
    """

    values: Tensor
    lengths: Tensor
    answers: Tensor
    classes: tuple[str, ...] = ()
    times: Tensor | None = None
    name: str = ""

    def __post_init__(self) -> None:
        check_shape("values", self.values, ("cases", "length", "channels"))
        cases, length, _ = self.values.shape
        check_shape("answers", self.answers, (cases,))
        check_lengths(self.lengths, cases, length)
        wanted = {"values": torch.float32, "lengths": torch.int64, "answers": torch.float32}
        if self.classes:
            wanted["answers"] = torch.int64
        if self.times is not None:
            check_shape("times", self.times, (cases, length))
            wanted["times"] = torch.float64
        for name, dtype in wanted.items():
            if getattr(self, name).dtype != dtype:
                raise TypeError(
                    f"{name} has dtype {getattr(self, name).dtype}, expected {dtype} "
                    f"for {len(self.classes)} classes"
                )
        if cases and self.lengths.min() < 1:
            raise ValueError("lengths holds 0, expected at least 1 observation in each case")
        if cases and self.classes:
            low, high = self.answers.aminmax()
            if low < 0 or high >= len(self.classes):
                raise ValueError(
                    f"answers lie in {int(low)}..{int(high)}, expected 0..{len(self.classes) - 1} "
                    f"for {len(self.classes)} classes"
                )

    @classmethod
    def padded(
        cls,
        cases: Iterable[np.ndarray],
        answers: Sequence[int] | Sequence[float],
        classes: Sequence[str] = (),
        times: Sequence[np.ndarray] | None = None,
        name: str = "",
    ) -> "Series":
        """Series of any lengths, padded to the longest.

        Args:
            cases: at least one, each (length, channels); NaN where nothing was observed.
            answers: of each case an index into `classes`, or a number if there are no classes.
            classes: the names of the classes.
            times: of each case (length,), or None.
            name: of the problem.

        Raises:
            ValueError: if there is no case, or the shapes do not fit together.

        >>> import numpy as np
        >>> found = Series.padded([np.ones((3, 2)), np.ones((1, 2))], [0, 1], ("a", "b"))
        >>> found.values[:, :, 0], found.lengths
        (tensor([[1., 1., 1.],
                [1., 0., 0.]]), tensor([3, 1]))
        """
        listed = list(cases)
        if not listed:
            raise ValueError("cases is empty, expected at least one series")
        lengths = [len(case) for case in listed]
        shape = (len(listed), max(lengths), listed[0].shape[1])
        values = np.zeros(shape, dtype=np.float32)
        clock = None if times is None else np.zeros(shape[:2])
        for row, length in enumerate(lengths):
            values[row, :length] = listed[row]
            # The pages of `values` are made as they are written: nothing is held twice.
            listed[row] = np.empty((0, 0))
            if clock is not None and times is not None:
                clock[row, :length] = times[row]
        return cls(
            torch.from_numpy(values),
            torch.tensor(lengths),
            torch.tensor(answers, dtype=torch.int64 if classes else torch.float32),
            tuple(classes),
            None if clock is None else torch.from_numpy(clock),
            name,
        )

    def __len__(self) -> int:
        """The number of cases."""
        return self.values.shape[0]

    @property
    def channels(self) -> int:
        """How many values one observation has."""
        return self.values.shape[2]

    @property
    def valid(self) -> Tensor:
        """(cases, length) bool, where values are no padding."""
        return valid_mask(self.lengths, self.values.shape[1])

    def select(self, indices: Tensor | Sequence[int]) -> "Series":
        """Some of the cases, in the order given, with the same padding.

        Args:
            indices: (chosen,) integers, each in -cases..cases-1.

        >>> import numpy as np
        >>> Series.padded([np.full((2, 1), i) for i in range(3)], [0.0, 1.0, 2.0]).select([2, 0])
        Series(2 cases of length 2, 1 channel, for regression)
        """
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        return replace(
            self,
            values=self.values[chosen],
            lengths=self.lengths[chosen],
            answers=self.answers[chosen],
            times=None if self.times is None else self.times[chosen],
        )

    def __repr__(self) -> str:
        """In a few words."""
        name = f"{self.name}, " if self.name else ""
        channels = f"{self.channels} channel{'s' if self.channels != 1 else ''}"
        answers = f"{len(self.classes)} classes" if self.classes else "for regression"
        cases = f"{len(self)} cases of length {_span(self.lengths)}"
        return f"Series({name}{cases}, {channels}, {answers})"


def _span(lengths: Tensor) -> str:
    if not len(lengths):
        return "0"
    low, high = (int(x) for x in lengths.aminmax())
    return str(low) if low == high else f"{low}-{high}"


@dataclass(frozen=True, eq=False)
class Archive:
    """A problem with the archive's own split.

    Args:
        name: of the problem.
        train: the cases to learn from.
        test: the cases to report.

    Raises:
        ValueError: if channels, classes or timestamps of the two do not agree.
    """

    name: str
    train: Series
    test: Series

    def __post_init__(self) -> None:
        for what in ("channels", "classes"):
            one, other = getattr(self.train, what), getattr(self.test, what)
            if one != other:
                raise ValueError(f"{what} are {one} in train, but {other} in test of {self.name}")
        if (self.train.times is None) != (self.test.times is None):
            raise ValueError(f"only one of train and test of {self.name} has timestamps")

    @property
    def channels(self) -> int:
        """How many values one observation has."""
        return self.train.channels

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; none for regression."""
        return self.train.classes

    def pooled(self) -> Series:
        """Train, then test, without exact duplicates of earlier cases, whatever their answers.

        >>> import numpy as np
        >>> half = Series.padded([np.ones((2, 1)), np.zeros((2, 1))], [0.0, 1.0])
        >>> len(Archive("twice", half, half).pooled())
        2
        """
        both = _joined(self.train, self.test)
        first = {_fingerprint(both, case): case for case in reversed(range(len(both)))}
        return both.select(sorted(first.values()))


def _joined(one: Series, other: Series) -> Series:
    length = max(one.values.shape[1], other.values.shape[1])

    def long(array: Tensor) -> Tensor:
        more = length - array.shape[1]
        rest = array.new_zeros((array.shape[0], more, *array.shape[2:]))
        return torch.cat([array, rest], dim=1) if more else array

    return replace(
        one,
        values=torch.cat([long(one.values), long(other.values)]),
        lengths=torch.cat([one.lengths, other.lengths]),
        answers=torch.cat([one.answers, other.answers]),
        times=None
        if one.times is None or other.times is None
        else torch.cat([long(one.times), long(other.times)]),
    )


def _fingerprint(series: Series, case: int) -> bytes:
    """Equal for equal observations (NaN equals NaN, and -0 equals 0) at equal times."""
    length = int(series.lengths[case])
    values = series.values[case, :length].numpy()
    digest = hashlib.blake2b(digest_size=16)
    digest.update(np.where(np.isnan(values), np.float32(np.nan), values + 0).tobytes())
    if series.times is not None:
        digest.update((series.times[case, :length].numpy() + 0).tobytes())
    return digest.digest()
