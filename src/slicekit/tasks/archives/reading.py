"""Files and folders of archives, whatever their format."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path

from slicekit.suggestions import unknown
from slicekit.tasks.archives.arff_format import read_arff
from slicekit.tasks.archives.errors import ArchiveError
from slicekit.tasks.archives.npz_format import holds_both, read_npz, read_npz_archive
from slicekit.tasks.archives.series import Archive, Series
from slicekit.tasks.archives.ts_format import read_ts

READERS: dict[str, Callable[[Path], Series]] = {
    ".ts": read_ts,
    ".arff": read_arff,
    ".npz": read_npz,
}
"""By suffix."""


def read(path: str | PathLike[str]) -> Series:
    """Read one file of series: `.ts`, `.arff`, or `.npz` with arrays `X` and `y`.

    The whole file is checked before anything is returned.

    Args:
        path: the file.

    Raises:
        ArchiveError: if it is malformed; the message starts with the file and the line.
        ValueError: if its suffix is another one.
        OSError: if it can't be opened.
    """
    file = Path(path)
    reader = READERS.get(file.suffix.lower())
    if reader is None:
        raise unknown(f"format of {file}:", file.suffix, READERS)
    return reader(file)


def read_archive(path: str | PathLike[str], name: str | None = None) -> Archive:
    """Read a problem with the archive's own split.

    Args:
        path: a `.npz` file with both splits, or a folder with NAME.npz, or with NAME_TRAIN and
            NAME_TEST as `.ts` or `.arff`, which may stand in a folder NAME in it.
        name: of the problem; by default that of the file or folder.

    Raises:
        ArchiveError: if a file is malformed, or the two splits do not agree.
        FileNotFoundError: if there is no such problem; it names every place looked at.
    """
    place = Path(path)
    if place.suffix.lower() == ".npz":
        return read_npz_archive(place)
    name = name or place.resolve().name
    for train, test in candidates(place, name):
        if train.is_file() and test.is_file():
            return _read_both(train, test, name)
    looked = ", ".join(_told(pair) for pair in candidates(place, name))
    raise FileNotFoundError(f"{name} is not in {place}; looked for {looked}")


def candidates(folder: Path, name: str) -> Iterator[tuple[Path, Path]]:
    """Where a problem may stand in a folder: its train and its test file, which may be one."""
    yield folder / f"{name}.npz", folder / f"{name}.npz"
    for inner in (folder / name, folder):
        for suffix in (".ts", ".arff"):
            yield inner / f"{name}_TRAIN{suffix}", inner / f"{name}_TEST{suffix}"


def problems(folder: Path) -> set[str]:
    """The names of all problems in a folder, as `candidates` would find them; files stay unread."""
    if not folder.is_dir():
        return set()
    files = [*folder.glob("*_TRAIN.*"), *folder.glob("*/*_TRAIN.*")]
    named = {file.stem.removesuffix("_TRAIN") for file in files}
    named |= {file.stem for file in folder.glob("*.npz") if holds_both(file)}
    return {name for name in named if _is_there(folder, name)}


def _is_there(folder: Path, name: str) -> bool:
    pairs = candidates(folder, name)
    return any(train.is_file() and test.is_file() for train, test in pairs)


def _told(pair: tuple[Path, Path]) -> str:
    train, test = pair
    return str(train) if train == test else f"{train} with {test.name}"


def _read_both(train: Path, test: Path, name: str) -> Archive:
    if train == test:
        return read_npz_archive(train)
    series = (replace(read(file), name=name) for file in (train, test))
    try:
        return Archive(name, *series)
    except ArchiveError:
        raise
    except ValueError as error:
        raise ArchiveError(test, None, str(error), f"what {train.name} has") from None
