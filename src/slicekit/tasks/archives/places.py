"""Where sets are on disk."""

import os
from importlib.util import find_spec
from os import PathLike
from pathlib import Path

from slicekit.tasks.archives.reading import candidates, problems, read_archive
from slicekit.tasks.archives.series import Archive

INNER = ("", "uea")
"""Folders of the data folder in which a set may stand."""


def data_folder() -> Path:
    """Where sets are looked for and put: $SLICEKIT_DATA, or slicekit/data in the user's cache."""
    told = os.environ.get("SLICEKIT_DATA")
    if told:
        return Path(told).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    # A relative path there is to be ignored, says the specification of these folders.
    base = Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache"
    return base / "slicekit" / "data"


def find(name: str, folder: str | PathLike[str] | None = None) -> Path:
    """Where a set is on disk.

    It looks in the data folder for NAME.npz, and there and in a folder NAME for NAME_TRAIN with
    NAME_TEST as `.ts` or `.arff`; then in the same way in the data folder's folder `uea`.

    Args:
        name: of the set.
        folder: where to look; `data_folder()` by default.

    Returns:
        The `.npz` file, or the folder that holds the two files: a path for `read_archive`.

    Raises:
        FileNotFoundError: if it is nowhere; the message names every place looked at.

    Example:
        >>> find("Walks", "/nowhere")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: Walks is not on disk; looked for /nowhere/Walks.npz, ...
    """
    root = data_folder() if folder is None else Path(folder)
    looked: list[str] = []
    for inner in INNER:
        for train, test in candidates(root / inner, name):
            if train.is_file() and test.is_file():
                return train if train == test else train.parent
            looked.append(str(train))
    raise FileNotFoundError(
        f"{name} is not on disk; looked for {', '.join(looked)}. To download it: "
        f"slicekit data get {name}"
    )


def names(folder: str | PathLike[str] | None = None) -> list[str]:
    """The sets that are on disk, known by name or not, in alphabetical order.

    Args:
        folder: where to look, as in `find`; `data_folder()` by default.
    """
    root = data_folder() if folder is None else Path(folder)
    return sorted({name for inner in INNER for name in problems(root / inner)})


def shipped_with_aeon() -> Path:
    """The folder of the sets that ship inside aeon, of classes and of numbers.

    Raises:
        FileNotFoundError: if aeon is not installed, or has none.
    """
    spec = find_spec("aeon")
    for place in (spec.submodule_search_locations if spec else None) or ():
        if (found := Path(place) / "datasets" / "data").is_dir():
            return found
    raise FileNotFoundError("no sets of aeon here; to have them: pip install slicekit[aeon]")


def load(name: str, folder: str | PathLike[str] | None = None) -> Archive:
    """Read a set that is on disk, with the archive's own split.

    Args:
        name: of the set.
        folder: where to look; `data_folder()` by default.

    Raises:
        FileNotFoundError: if it is not on disk; nothing is downloaded unasked.
        ArchiveError: if a file is malformed.
    """
    return read_archive(find(name, folder), name)
