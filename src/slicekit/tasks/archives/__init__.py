"""Time series archives: real series with their classes, read from files and never made up.

| here | what it is |
|---|---|
| `read`, `read_archive` | files (`.ts`, `.arff`, `.npz`) as `Series`, both splits as `Archive` |
| `load`, `find`, `download` | a set by its name: read, looked for, fetched only when asked |
| `split_by_order`, `split_by_seed`, `stratified` | which cases are for what |
| `Scaling`, `with_time_channel` | what the paper does to values |

Example:
    >>> import numpy as np
    >>> from slicekit.tasks.archives import Scaling, Series, split_by_seed, with_time_channel
    >>> walks = [np.random.randn(20, 3).cumsum(axis=0) for _ in range(10)]
    >>> series = with_time_channel(Series.of(walks, [0, 1] * 5, ("left", "right")))
    >>> train, validation, test = split_by_seed(len(series), seed=0)
    >>> Scaling.fit(series.select(train))(series)
    Series(10 cases of length 20, 4 channels, 2 classes)
"""

from slicekit.tasks.archives.catalogue import KNOWN, KnownSet
from slicekit.tasks.archives.downloading import download
from slicekit.tasks.archives.errors import ArchiveError
from slicekit.tasks.archives.fetching import DownloadError
from slicekit.tasks.archives.places import data_folder, find, load
from slicekit.tasks.archives.reading import read, read_archive
from slicekit.tasks.archives.scaling import Scaling, with_time_channel
from slicekit.tasks.archives.series import Archive, Series
from slicekit.tasks.archives.splits import (
    load_orders,
    split_by_order,
    split_by_seed,
    stratified,
)

__all__ = [
    "KNOWN",
    "Archive",
    "ArchiveError",
    "DownloadError",
    "KnownSet",
    "Scaling",
    "Series",
    "data_folder",
    "download",
    "find",
    "load",
    "load_orders",
    "read",
    "read_archive",
    "split_by_order",
    "split_by_seed",
    "stratified",
    "with_time_channel",
]
