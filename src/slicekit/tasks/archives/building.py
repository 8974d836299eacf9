"""Cases put together as a reader meets them, each checked against what the file declares."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from slicekit.tasks.archives.errors import ArchiveError
from slicekit.tasks.archives.numbers import Malformed, parse_number, quoted
from slicekit.tasks.archives.series import Series

MANY, EXPANSION = 2**24, 100
"""More values than the first are not made of fewer than one in so many that the file has."""


@dataclass(frozen=True)
class Declared:
    """What the head of a file promises about its cases; None where it is silent.

    Args:
        name: of the problem.
        classes: their names, in the order of the file; none for regression.
        channels: of every case.
        length: of every case, or of the longest if `equal` is False.
        equal: whether all lengths are equal.
        missing: whether values may be missing.
        timed: whether values have timestamps.
    """

    name: str
    classes: tuple[str, ...] = ()
    channels: int | None = None
    length: int | None = None
    equal: bool | None = None
    missing: bool | None = None
    timed: bool = False


@dataclass
class Cases:
    """The cases so far; nothing of them is given away before the file has come to its end.

    Args:
        path: the file, for messages.
        declared: what its head promises.
    """

    path: Path
    declared: Declared
    _values: list[np.ndarray] = field(default_factory=list)
    _times: list[np.ndarray] = field(default_factory=list)
    _answers: list[float] = field(default_factory=list)
    _first_line: int = 0
    _made: int = 0
    _given: int = 0

    def __post_init__(self) -> None:
        # Sorted names give one problem the same indices in every format.
        self._classes = tuple(sorted(self.declared.classes))
        self._index = {name: index for index, name in enumerate(self._classes)}

    def add(
        self,
        line: int,
        values: np.ndarray,
        answer: str,
        times: np.ndarray | None = None,
        given: int | None = None,
    ) -> None:
        """Take a case, if it is what the head of the file promises.

        Args:
            line: where it stands.
            values: (length, channels).
            answer: its class or its number, as written.
            times: (length,), if the file has timestamps.
            given: how many of the values the file has, if others stand for what was not observed.

        Raises:
            ArchiveError: if it contradicts the head of the file or the first case, or makes a small
                file enormous.
        """
        try:
            self._check(values)
            self._made += values.size
            self._given += values.size if given is None else given
            check_merged(self._made, self._given, values.shape[1])
            self._answers.append(self._answer(answer.strip()))
        except Malformed as fault:
            raise ArchiveError(self.path, line, fault.found, fault.expected) from None
        self._first_line = self._first_line or line
        self._values.append(values.astype(np.float32))
        if times is not None:
            self._times.append(times)

    def _check(self, values: np.ndarray) -> None:
        length, channels = values.shape
        wanted, declared = self.declared, "as the head of the file declares"
        first = f"as the first case, in line {self._first_line}, has"
        if wanted.channels is not None and channels != wanted.channels:
            raise Malformed(f"{channels} channels", f"{wanted.channels}, {declared}")
        if self._values and channels != self._values[0].shape[1]:
            raise Malformed(f"{channels} channels", f"{self._values[0].shape[1]}, {first}")
        if wanted.length is not None:
            if wanted.equal is False and length > wanted.length:
                raise Malformed(
                    f"a series of length {length}", f"at most {wanted.length}, {declared}"
                )
            if wanted.equal is not False and length != wanted.length:
                raise Malformed(f"a series of length {length}", f"{wanted.length}, {declared}")
        if wanted.equal and self._values and length != len(self._values[0]):
            raise Malformed(
                f"a series of length {length}, though the head of the file declares equal lengths",
                f"{len(self._values[0])}, {first}",
            )
        if wanted.missing is False and np.isnan(values).any():
            raise Malformed(
                "a missing value, though the head of the file declares that there are none",
                "a number, or @missing true",
            )

    def _answer(self, text: str) -> float:
        if not self._classes:
            return parse_number(text)
        if text not in self._index:
            raise Malformed(f"class {quoted(text)}", f"one of {_some(self.declared.classes)}")
        return self._index[text]

    def finish(self, line: int) -> Series:
        """All cases, at the end of the file.

        Args:
            line: the last of the file.

        Raises:
            ArchiveError: if there are none.
        """
        if not self._values:
            raise ArchiveError(self.path, line, "the file ends without a case", "cases after @data")
        answers = [int(x) for x in self._answers] if self._classes else self._answers
        times = self._times if self.declared.timed else None
        drained = _drained(self._values)
        return Series.of(drained, answers, self._classes, times, self.declared.name)


def check_merged(made: int, given: int, channels: int) -> None:
    """Channels with times of their own stand at the times of all: few observations make more.

    Raises:
        Malformed: if they make enormously many.
    """
    if made > max(MANY, EXPANSION * given):
        raise Malformed(
            f"{given} observations of {channels} channels make {made} values at all their times",
            "channels that are observed together more often",
        )


def _drained(items: list[np.ndarray]) -> Iterator[np.ndarray]:
    """Give items away without keeping them: a large archive is not held twice."""
    items.reverse()
    while items:
        yield items.pop()


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:12])}, ..."
