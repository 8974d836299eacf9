"""A task from labelled series: a finite set to train on, one to choose a model by, one to report.

Glossary: a case is one series with its class, kept at its own length; a batch is padded to the
longest of its cases, with zeros.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slicekit.checks import check_whole
from slicekit.paths import Filling, LastValue, alike
from slicekit.tasks.base import Batch, Task
from slicekit.tasks.ranges import SPLITS, check_range_of_lengths, check_split

if TYPE_CHECKING:
    from slicekit.tasks.archives import Series

SERIES = "series"
"""The family of these tasks."""

AT_ONCE = 2**20
"""About how many values are filled at once."""


class SeriesTask(Task):
    """Which class a series is of, learned from a finite set of series.

    Training draws cases at random, none twice in a batch; validation and test take all of theirs.

    Args:
        train: the series to learn from, scaled and with a time channel if there is to be one.
        validation: those to choose a model by.
        test: those to report.
        name: of the task; by default that of the training series.
        filling: what stands in gaps; by default the last observation, as in a stream.

    Raises:
        ValueError: if a set is empty, they differ in channels or classes, or answers are no
            classes.

    Example:
        >>> import torch
        >>> from slicekit.tasks.archives import Series
        >>> values, answers = torch.randn(6, 20, 3), torch.tensor([0, 1, 0, 1, 0, 1])
        >>> lengths, classes = torch.full((6,), 20), ("up", "down")
        >>> series = Series.from_padded(values, lengths, answers, classes, name="moves")
        >>> task = SeriesTask(series, series, series)
        >>> task.channels, task.outputs, task.train_lengths
        (3, 2, (20, 20))
        >>> task.sample(4, (20, 20), torch.Generator()).inputs.shape
        torch.Size([4, 20, 3])
    """

    family = SERIES

    def __init__(
        self,
        train: "Series",
        validation: "Series",
        test: "Series",
        *,
        name: str | None = None,
        filling: Filling | None = None,
    ) -> None:
        """Fill the gaps of every split."""
        sets = dict(zip(SPLITS, (train, validation, test), strict=True))
        for split, series in sets.items():
            _check(split, series, train)
        filling = LastValue() if filling is None else filling
        ranges = {split: _range(series) for split, series in sets.items()}
        super().__init__(**{f"{split}_lengths": ends for split, ends in ranges.items()})
        self.name = train.name if name is None else name
        self._sets = {split: _filled(series, filling) for split, series in sets.items()}
        self.channels, self.outputs = self._sets["train"].channels, len(train.classes)
        self.classes = train.classes

    def sample(
        self,
        batch: int,
        lengths: tuple[int, int],
        generator: torch.Generator,
        split: str = "train",
    ) -> Batch:
        """Draw different cases, on the CPU.

        Args:
            batch: how many; no more than there are.
            lengths: inclusive range: series of other lengths are not drawn.
            generator: the only source of randomness: the same state gives the same batch.
            split: "train", "validation" or "test".

        Returns:
            The series, padded to the longest of them.

        Raises:
            ValueError: if no series has such a length, or the split is unknown.
        """
        check_whole("batch", batch)
        check_split(split)
        low, high = check_range_of_lengths("lengths", lengths)
        series = self._sets[split]
        fits = ((series.lengths >= low) & (series.lengths <= high)).nonzero().squeeze(1)
        if len(fits) == 0:
            shortest, longest = int(series.lengths.min()), int(series.lengths.max())
            raise ValueError(
                f"lengths={(low, high)}, but the {split} series of {self.name} have {shortest} to "
                f"{longest} observations"
            )
        rows = fits[torch.randperm(len(fits), generator=generator)[:batch]]
        return _batch(series.select(rows))

    def whole(self, split: str) -> Batch:
        """Every case of a split, in order.

        Raises:
            ValueError: if the split is unknown, or nearly all of a large batch would be padding.
        """
        check_split(split)
        return _batch(self._sets[split])

    def batches(self, split: str) -> Iterable[Batch]:
        """Every case of a split, those of similar lengths together.

        Raises:
            ValueError: if the split is unknown.
        """
        check_split(split)
        series = self._sets[split]
        return (_batch(part) for part in _parts(series))


def _check(split: str, series: "Series", train: "Series") -> None:
    if len(series) == 0:
        raise ValueError(f"{split} holds no series; expected at least one")
    if len(series.classes) == 0:
        raise ValueError(
            f"{split} has numbers for answers; expected classes; for regression see "
            "slicekit.SliceRegressor"
        )
    for what in ("channels", "classes"):
        given, wanted = getattr(series, what), getattr(train, what)
        if given != wanted:
            raise ValueError(f"{split} has {what}={given}, but train has {wanted}")


def _range(series: "Series") -> tuple[int, int]:
    return int(series.lengths.min()), int(series.lengths.max())


def _parts(series: "Series") -> "Iterable[Series]":
    """All cases, those of similar lengths together."""
    groups = alike(series.lengths)
    return [series] if len(groups) == 1 else (series.select(group) for group in groups)


def _batch(series: "Series") -> Batch:
    return Batch.series(series.values, series.answers, series.lengths)


def _filled(series: "Series", filling: Filling) -> "Series":
    """The series without gaps, and with the channels that the policy adds."""
    adds = filling.fill(torch.zeros(1, 1, series.channels)).shape[2] != series.channels
    if not adds and not bool(series.observations.isnan().any()):
        return series
    filled: dict[int, Tensor] = {}
    for group in alike(series.lengths):
        longest = int(series.lengths[group].max())
        for rows in group.split(max(1, AT_ONCE // (longest * series.channels))):
            part = series.select(rows)
            times = None if part.times is None else part.padded(part.times)
            values = filling.fill(part.values, times, part.lengths)
            ends = part.lengths.tolist()
            filled |= {case: x[:n] for case, x, n in zip(rows.tolist(), values, ends, strict=True)}
    return replace(series, observations=torch.cat([filled[case] for case in range(len(series))]))
