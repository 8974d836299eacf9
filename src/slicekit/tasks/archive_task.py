"""Data sets of an archive as tasks: which cases to learn from, scaled, with time if it helps.

The paper pools the archive's two sets, drops duplicates, and deals the cases out anew, 70% to learn
from, 15% to choose by and 15% to report, by a permutation for each of its five seeds. It scales
every channel to [-1, 1] over all cases, those to report among them. Here the range is that of the
training cases alone, so that others may leave it a little.
"""

import os
from functools import lru_cache
from pathlib import Path

import torch

from slicekit.suggestions import unknown
from slicekit.tasks.archives import (
    Archive,
    Scaling,
    Series,
    load_orders,
    read_archive,
    split_by_order,
    split_by_seed,
    stratified,
    with_time_channel,
)
from slicekit.tasks.archives.catalogue import KNOWN
from slicekit.tasks.archives.places import find, names
from slicekit.tasks.series_task import SeriesTask

SEEDS = (2345, 3456, 4567, 5678, 6789)
"""Of the paper's splits."""

ARCHIVE, RANDOM, LEGACY, PARTITIONABLE = "archive", "random", "legacy", "partitionable"
SPLITTINGS = (ARCHIVE, RANDOM, LEGACY, PARTITIONABLE)
ORDERS = "uea_splits"
"""Where the paper's permutations are, beside or in the folder of the data."""

WITH_TIME = {
    "EigenWorms": True,
    "EthanolConcentration": True,
    "Heartbeat": True,
    "MotorImagery": False,
    "SelfRegulationSCP1": False,
    "SelfRegulationSCP2": False,
}
"""Whether the paper prepends time as a channel; other data sets get one."""

VALIDATION_SHARE = 0.2
"""Of the archive's training cases, where its own split is kept."""


Folder = str | os.PathLike[str]


def archive_task(
    name: str,
    *,
    splits: str | None = None,
    seed: int | None = None,
    data: Folder | None = None,
    time: bool | None = None,
) -> SeriesTask:
    """The task of a data set that is on the disk.

    Args:
        name: of the data set, as in "SelfRegulationSCP1".
        splits, seed, time: see `make_archive_task`.
        data: folder of the data sets, or one that has them in uea/, and the paper's permutations in
            uea_splits/; None is `slicekit.tasks.archives.data_folder()`.

    Returns:
        The task.

    Raises:
        FileNotFoundError: if there is no such data set.
        ValueError: if its files are damaged, or the splitting is unknown.
    """
    place = find(name, data)
    archive = read_archive(place, name)
    return make_archive_task(archive, splits=splits, seed=seed, orders=_orders(place), time=time)


def is_on_disk(name: str, data: Folder | None = None) -> bool:
    """Whether a data set is there to be read."""
    try:
        find(name, data)
    except FileNotFoundError:
        return False
    return True


def on_disk(data: Folder | None = None) -> list[str]:
    """All data sets that are there to be read, by name: those that are known, then others."""
    here = names(data)
    return [*(x for x in KNOWN if x in here), *(x for x in here if x not in KNOWN)]


def has_classes(name: str, data: Folder | None = None) -> bool:
    """Whether a data set on the disk has classes, and not numbers; one that is unknown is read."""
    if name in KNOWN:
        return True
    place = find(name, data)
    return _has_classes(place, name, place.stat().st_mtime_ns)


@lru_cache(maxsize=1024)
def _has_classes(place: Path, name: str, changed: int) -> bool:
    """Studies ask after each run, and a file may be long; `changed` is when it last did."""
    return bool(read_archive(place, name).classes)


def make_archive_task(
    archive: Archive,
    *,
    splits: str | None = None,
    seed: int | None = None,
    orders: Folder | None = None,
    time: bool | None = None,
) -> SeriesTask:
    """The task of an archive's data set.

    Args:
        archive: with the archive's own two sets.
        splits: "archive" keeps its test set, and takes a fifth of its training cases of every
            class to choose a model by; "random" deals all cases out by the seed, 70/15/15; "legacy"
            and "partitionable" do so by the paper's permutations, of JAX before and since 0.5. None
            is "archive".
        seed: of the split; for the paper's, one of `SEEDS`. None is the first of them there, and 0
            elsewhere.
        orders: folder of legacy.json and partitionable.json; needed for the paper's splits only.
        time: whether time is prepended as a channel; None does as the paper for its data sets, and
            prepends it for others.

    Returns:
        The task, scaled to [-1, 1] over its training cases.

    Raises:
        ValueError: if the splitting is unknown, or there is no permutation for the seed.

    Example:
        >>> values, answers = torch.randn(20, 9, 2), torch.arange(20) % 2
        >>> series = Series.from_padded(
        ...     values, torch.full((20,), 9), answers, ("a", "b"), None, "toy"
        ... )
        >>> task = make_archive_task(Archive("toy", series, series.select([3, 4, 5, 6])))
        >>> [len(task.whole(split).lengths) for split in ("train", "validation", "test")]
        [16, 4, 4]
        >>> task.channels
        3
    """
    chosen = ARCHIVE if splits is None else splits
    if chosen not in SPLITTINGS:
        raise unknown("splits", str(splits), SPLITTINGS)
    if chosen == ARCHIVE:
        train, validation = _part_by_class(archive.train, 0 if seed is None else seed)
        parts = [train, validation, archive.test]
    else:
        pooled = archive.pooled()
        if chosen == RANDOM:
            groups = split_by_seed(len(pooled), 0 if seed is None else seed)
        else:
            number = SEEDS[0] if seed is None else seed
            path = _orders_file(orders, chosen)
            groups = split_by_order(load_orders(path, archive.name, number), len(pooled))
        parts = [pooled.select(group) for group in groups]
    if WITH_TIME.get(archive.name, True) if time is None else time:
        parts = [with_time_channel(part) for part in parts]
    scaling = Scaling.fit(parts[0])
    train, validation, test = (scaling(part) for part in parts)
    return SeriesTask(train, validation, test, name=archive.name)


def _orders_file(folder: Folder | None, splits: str) -> Path:
    if folder is None:
        raise ValueError(f"splits={splits!r} needs orders: the folder of {splits}.json")
    path = Path(folder) / f"{splits}.json"
    if not path.is_file():
        raise ValueError(f"splits={splits!r} needs {path}, which is missing")
    return path


def _orders(place: Path) -> Path | None:
    """The folder of the paper's permutations, in that of the data or beside it."""
    around = (place, *place.resolve().parents[:3])
    folders = [folder / ORDERS for folder in around if (folder / ORDERS).is_dir()]
    return folders[0] if folders else None


def _part_by_class(series: Series, seed: int) -> tuple[Series, Series]:
    """Training cases, and those of every class to choose a model by."""
    generator = torch.Generator().manual_seed(seed)
    rest, held = stratified(series.answers, VALIDATION_SHARE, generator)
    return series.select(rest), series.select(held)
