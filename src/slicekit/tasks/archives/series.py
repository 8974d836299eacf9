"""A labelled set of series, and the two sets that an archive's own split makes of one problem."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from slicekit.checks import check_lengths, check_shape
from slicekit.paths import valid_mask
from slicekit.paths.lengths import check_padding


@dataclass(frozen=True, eq=False)
class Series:
    """A labelled set of series, all in memory, each at its own length.

    Args:
        observations: (total, channels) float32, those of the first case, then those of the second,
            and so on; NaN where nothing was observed.
        lengths: (cases,) int64, at least 1; their sum is the total.
        answers: (cases,) int64 indices into `classes`, or float32 to be regressed on.
        classes: the names of the classes; none for regression.
        times: (total,) float64 if the series have timestamps, strictly increasing within a case;
            else None.
        name: of the problem.

    Raises:
        TypeError: if a dtype is another one.
        ValueError: if shapes do not fit together, or a length or class is out of range.
    """

    observations: Tensor
    lengths: Tensor
    answers: Tensor
    classes: tuple[str, ...] = ()
    times: Tensor | None = None
    name: str = ""

    def __post_init__(self) -> None:
        check_shape("observations", self.observations, ("total", "channels"))
        check_shape("lengths", self.lengths, ("cases",))
        cases, total = len(self.lengths), len(self.observations)
        check_shape("answers", self.answers, (cases,))
        wanted = {"observations": torch.float32, "lengths": torch.int64, "answers": torch.float32}
        if self.classes:
            wanted["answers"] = torch.int64
        if self.times is not None:
            check_shape("times", self.times, (total,))
            wanted["times"] = torch.float64
        for name, dtype in wanted.items():
            if getattr(self, name).dtype != dtype:
                raise TypeError(
                    f"{name} has dtype {getattr(self, name).dtype}; expected {dtype} "
                    f"for {len(self.classes)} classes"
                )
        if cases and self.lengths.min() < 1:
            raise ValueError(
                f"lengths holds {int(self.lengths.min())}; expected at least 1 observation in each "
                "case"
            )
        if int(self.lengths.sum()) != total:
            raise ValueError(
                f"lengths add up to {int(self.lengths.sum())}; expected {total}, the number of "
                "observations"
            )
        if cases and self.classes:
            low, high = self.answers.aminmax()
            if low < 0 or high >= len(self.classes):
                raise ValueError(
                    f"answers lie in {int(low)}..{int(high)}; expected 0..{len(self.classes) - 1} "
                    f"for {len(self.classes)} classes"
                )

    @classmethod
    def of(
        cls,
        cases: Iterable[np.ndarray],
        answers: Sequence[int] | Sequence[float],
        classes: Sequence[str] = (),
        times: Sequence[np.ndarray] | None = None,
        name: str = "",
    ) -> "Series":
        """Series of any lengths.

        Args:
            cases: at least one, each (length, channels); NaN where nothing was observed.
            answers: of each case an index into `classes`, or a number if there are no classes.
            classes: the names of the classes.
            times: of each case (length,), or None.
            name: of the problem.

        Raises:
            ValueError: if there is no case, or the shapes do not fit together.

        >>> import numpy as np
        >>> found = Series.of([np.ones((3, 2)), np.ones((1, 2))], [0, 1], ("a", "b"))
        >>> found.values[:, :, 0], found.lengths
        (tensor([[1., 1., 1.],
                [1., 0., 0.]]), tensor([3, 1]))
        """
        listed = list(cases)
        if not listed:
            raise ValueError("cases is empty; expected at least one series")
        channels, lengths = listed[0].shape[-1], [len(case) for case in listed]
        observations = np.empty((sum(lengths), channels), dtype=np.float32)
        for row, stop in enumerate(accumulate(lengths)):
            case, shape = listed[row], (lengths[row], channels)
            if case.shape != shape:
                raise ValueError(f"cases[{row}] has shape {case.shape}; expected {shape}")
            observations[stop - lengths[row] : stop] = case
            # The pages of `observations` are made as they are written: nothing is held twice.
            listed[row] = np.empty((0, 0))
        clock = None if times is None else np.concatenate(list(times)).astype(np.float64)
        return cls(
            torch.from_numpy(observations),
            torch.tensor(lengths),
            torch.tensor(answers, dtype=torch.int64 if classes else torch.float32),
            tuple(classes),
            None if clock is None else torch.from_numpy(clock),
            name,
        )

    @classmethod
    def from_padded(
        cls,
        values: Tensor,
        lengths: Tensor,
        answers: Tensor,
        classes: tuple[str, ...] = (),
        times: Tensor | None = None,
        name: str = "",
    ) -> "Series":
        """Series that stand in one array; what is past the end of a case is left out.

        Args:
            values: (cases, length, channels).
            lengths: (cases,) int64, in 1..length.
            answers, classes, name: as in the class.
            times: (cases, length), or None.

        >>> Series.from_padded(torch.ones(2, 3, 1), torch.tensor([3, 1]), torch.zeros(2)).lengths
        tensor([3, 1])
        """
        check_shape("values", values, ("cases", "length", "channels"))
        inside = valid_mask(check_lengths(lengths, *values.shape[:2]), values.shape[1])
        if times is not None:
            check_shape("times", times, tuple(inside.shape))
            times = times[inside]
        whole = bool(inside.all())
        flat = values.reshape(-1, values.shape[2]) if whole else values[inside]
        return cls(flat, lengths, answers, classes, times, name)

    def __len__(self) -> int:
        """The number of cases."""
        return len(self.lengths)

    @property
    def channels(self) -> int:
        """How many values one observation has."""
        return self.observations.shape[1]

    @property
    def starts(self) -> Tensor:
        """(cases,) int64, where the observations of each case begin."""
        return self.lengths.cumsum(0) - self.lengths

    @property
    def positions(self) -> Tensor:
        """(total,) int64, each observation's place in its case, from 0."""
        return torch.arange(len(self.observations)) - self.starts.repeat_interleave(self.lengths)

    @property
    def values(self) -> Tensor:
        """(cases, longest, channels) float32, zero past the end of a case: see `padded`."""
        return self.padded(self.observations)

    def padded(self, numbers: Tensor) -> Tensor:
        """What belongs to the observations, in one array: for a batch, `select` its cases first.

        Args:
            numbers: (total, ...), such as `times`.

        Returns:
            (cases, longest, ...), zero past the end of a case; the memory of `numbers` where all
            lengths are equal.

        Raises:
            ValueError: if nearly all of a large array would be padding.
        """
        check_shape("numbers", numbers, (len(self.observations), ...))
        longest = int(self.lengths.max()) if len(self) else 0
        shape = (len(self), longest, *numbers.shape[1:])
        if len(self) and numbers.shape[0] == len(self) * longest:
            return numbers.view(shape)
        check_padding(len(self), longest, numbers)
        array = numbers.new_zeros(shape)
        array[valid_mask(self.lengths, longest)] = numbers
        return array

    def case(self, index: int) -> Tensor:
        """(length, channels), the observations of one case, in the memory of the set."""
        start = int(self.starts[index])
        return self.observations[start : start + int(self.lengths[index])]

    def cases(self) -> tuple[Tensor, ...]:
        """Each (length, channels), in the memory of the set."""
        return self.observations.split(self.lengths.tolist())

    def select(self, indices: Tensor | Sequence[int]) -> "Series":
        """Some of the cases, in the order given.

        Args:
            indices: (chosen,) integers, each in -cases..cases-1.

        >>> import numpy as np
        >>> Series.of([np.full((2, 1), i) for i in range(3)], [0.0, 1.0, 2.0]).select([2, 0])
        Series(2 cases of length 2, 1 channel, for regression)
        """
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        lengths = self.lengths[chosen]
        moved = self.starts[chosen] - (lengths.cumsum(0) - lengths)
        rows = torch.arange(int(lengths.sum())) + moved.repeat_interleave(lengths)
        return replace(
            self,
            observations=self.observations[rows],
            lengths=lengths,
            answers=self.answers[chosen],
            times=None if self.times is None else self.times[rows],
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
        >>> half = Series.of([np.ones((2, 1)), np.zeros((2, 1))], [0.0, 1.0])
        >>> len(Archive("twice", half, half).pooled())
        2
        """
        both = _joined(self.train, self.test)
        first: dict[bytes, int] = {}
        for case, key in enumerate(_fingerprints(both)):
            first.setdefault(key, case)
        return both.select(sorted(first.values()))


def _joined(one: Series, other: Series) -> Series:
    return replace(
        one,
        observations=torch.cat([one.observations, other.observations]),
        lengths=torch.cat([one.lengths, other.lengths]),
        answers=torch.cat([one.answers, other.answers]),
        times=None
        if one.times is None or other.times is None
        else torch.cat([one.times, other.times]),
    )


def _fingerprints(series: Series) -> Iterator[bytes]:
    """Equal for equal observations (NaN equals NaN, and -0 equals 0) at equal times."""
    clocks = None if series.times is None else series.times.split(series.lengths.tolist())
    for number, case in enumerate(series.cases()):
        values = case.numpy()
        digest = hashlib.blake2b(digest_size=16)
        digest.update(np.where(np.isnan(values), np.float32(np.nan), values + 0).tobytes())
        if clocks is not None:
            digest.update((clocks[number].numpy() + 0).tobytes())
        yield digest.digest()
