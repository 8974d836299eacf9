"""Arrays of numpy, `.npz`: one problem with both splits, or one set of series.

| arrays | of a problem | of one set | |
|---|---|---|---|
| values | `X_train`, `X_test` | `X` | (cases, length, channels), NaN where missing |
| answers | `y_train`, `y_test` | `y` | (cases,): indices into `classes`, names, or real numbers |
| lengths | `len_train`, `len_test` | `len` | (cases,), optional: all are whole without it |
| times | `t_train`, `t_test` | `t` | (cases, length), optional |
| classes | `classes` | `classes` | names, optional: without it the sorted names of `y` |

Nothing is unpickled, other arrays are not read, and no array is read that a small file makes
enormous.
"""

import io
import math
import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np
import torch

from slicekit.tasks.archives.errors import ArchiveError
from slicekit.tasks.archives.numbers import LARGEST
from slicekit.tasks.archives.series import Archive, Series

Arrays = dict[str, np.ndarray]

ENDS = ("", "_train", "_test")
OWN = {"classes", *(f"{name}{end}" for name in ("X", "y", "len", "t") for end in ENDS)}
"""The arrays that are read."""

END = struct.Struct("<4s4H2LH")
"""What a zip file without a comment ends with; the fourth number is that of its members."""

SMALL, EXPANSION = 2**25, 200
"""Arrays of more bytes may not be more than so many times as large as their file."""


def read_npz(path: Path) -> Series:
    """Read one set of series, from `X` and `y`.

    Raises:
        ArchiveError: if the file is damaged, or its arrays do not fit together.
        OSError: if it can't be opened.
    """
    arrays = _load(path)
    if "X_train" in arrays and "X" not in arrays:
        raise ArchiveError(path, None, "both splits of a problem", "one set, or use read_archive")
    return _series(path, arrays, "", _classes(path, arrays, ("y",)), path.stem)


def read_npz_archive(path: Path) -> Archive:
    """Read a problem with both its splits, from `X_train`, `y_train`, `X_test` and `y_test`.

    Raises:
        ArchiveError: if the file is damaged, or its arrays do not fit together.
        OSError: if it can't be opened.
    """
    arrays = _load(path)
    classes = _classes(path, arrays, ("y_train", "y_test"))
    splits = (_series(path, arrays, end, classes, path.stem) for end in ("_train", "_test"))
    try:
        return Archive(path.stem, *splits)
    except ArchiveError:
        raise
    except ValueError as error:
        raise ArchiveError(path, None, str(error), "both to agree") from None


def holds_both(path: Path) -> bool:
    """Whether a file says that it holds both splits of a problem."""
    try:
        with zipfile.ZipFile(path) as members:
            return {"X_train.npy", "X_test.npy"} <= set(members.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def _load(path: Path) -> Arrays:
    with open(path, "rb") as file:
        # A damaged file makes the parsers below raise nearly anything.
        try:
            with zipfile.ZipFile(file) as members:
                _check_directory(file, members)
                chosen = _chosen(members.infolist())
                _check_sizes(path, chosen.values())
                return {name: _array(members, member) for name, member in chosen.items()}
        except ArchiveError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise ArchiveError(path, None, f"damaged, {why}", "arrays saved by numpy") from None


def _check_directory(file: IO[bytes], members: zipfile.ZipFile) -> None:
    """Raise where an array is lost by damage to its name or to the list of names."""
    for member in members.infolist():
        members.open(member).close()  # compares the name with that beside the data
    file.seek(-END.size, io.SEEK_END)
    mark, *_, count, _size, _place, _comment = END.unpack(file.read(END.size))
    if mark == b"PK\x05\x06" and count not in (len(members.infolist()), 0xFFFF):
        raise ValueError(f"{len(members.infolist())} arrays in a list of {count}")


def _chosen(members: Iterable[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    named = {member.filename.removesuffix(".npy"): member for member in members}
    return {name: member for name, member in named.items() if name in OWN}


def _check_sizes(path: Path, members: Iterable[zipfile.ZipInfo]) -> None:
    needed, given = sum(member.file_size for member in members), path.stat().st_size
    if needed > max(SMALL, EXPANSION * given):
        raise ArchiveError(
            path,
            None,
            f"{needed} bytes of arrays in a file of {given}",
            f"at most {EXPANSION} times as much",
        )


def _array(members: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with members.open(member) as file:
        shape, columns_first, dtype = _head(file)
        content = file.read()
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"{len(content)} bytes for {dtype} of shape {shape}")
    flat = np.frombuffer(content, dtype, math.prod(shape)) if content else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if columns_first else "C")


def _head(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"version {version} of the format")


def _get(path: Path, arrays: Arrays, name: str) -> np.ndarray:
    if name not in arrays:
        raise ArchiveError(
            path, f"array {name}", f"missing among {', '.join(arrays) or 'none'}", "this array"
        )
    return arrays[name]


def _classes(path: Path, arrays: Arrays, answers: tuple[str, ...]) -> tuple[str, ...]:
    labels = [_get(path, arrays, name) for name in answers]
    if "classes" in arrays:
        names = arrays["classes"]
        if (
            names.ndim != 1
            or names.dtype.kind not in "USiuf"
            or len(set(names.tolist())) < len(names)
        ):
            raise ArchiveError(
                path, "array classes", f"{names.dtype} of shape {names.shape}", "different names"
            )
        return tuple(_name(x) for x in names.tolist())
    if all(x.dtype.kind == "f" for x in labels):
        return ()
    return tuple(sorted({_name(x) for array in labels for x in array.ravel().tolist()}))


def _name(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _series(path: Path, arrays: Arrays, end: str, classes: tuple[str, ...], name: str) -> Series:
    values = _values(path, f"X{end}", _get(path, arrays, f"X{end}"))
    cases, length, _ = values.shape
    answers = _answers(path, f"y{end}", _get(path, arrays, f"y{end}"), cases, classes, arrays)
    lengths = _lengths(path, f"len{end}", arrays, cases, length)
    past = np.arange(length) >= lengths[:, None]
    values[past] = 0
    if np.isinf(values).any():
        raise ArchiveError(
            path, f"array X{end}", "an infinite value", f"numbers of at most {LARGEST:.3g} in size"
        )
    times = _times(path, f"t{end}", arrays, past)
    return Series.from_padded(
        torch.from_numpy(values),
        torch.from_numpy(lengths),
        torch.from_numpy(answers),
        classes,
        None if times is None else torch.from_numpy(times),
        name,
    )


def _values(path: Path, name: str, given: np.ndarray) -> np.ndarray:
    if given.ndim != 3 or given.dtype.kind not in "fiu" or 0 in given.shape:
        raise ArchiveError(
            path,
            f"array {name}",
            f"{given.dtype} of shape {given.shape}",
            "numbers of shape (cases, length, channels), none of them 0",
        )
    with np.errstate(over="ignore"):
        return np.array(given, dtype=np.float32, order="C")


def _answers(
    path: Path, name: str, given: np.ndarray, cases: int, classes: tuple[str, ...], arrays: Arrays
) -> np.ndarray:
    place = f"array {name}"
    if given.shape != (cases,):
        raise ArchiveError(path, place, f"shape {given.shape}", f"({cases},), one for each case")
    if not classes:
        if not np.isfinite(given).all():
            raise ArchiveError(path, place, "an answer that is not finite", "real numbers")
        return given.astype(np.float32)
    if "classes" in arrays and given.dtype.kind in "iu":
        if given.min() < 0 or given.max() >= len(classes):
            raise ArchiveError(
                path,
                place,
                f"indices {given.min()}..{given.max()}",
                f"0..{len(classes) - 1} for {len(classes)} classes",
            )
        return given.astype(np.int64)
    index = {label: position for position, label in enumerate(classes)}
    written = [_name(x) for x in given.tolist()]
    strange = next((x for x in written if x not in index), None)
    if strange is not None:
        raise ArchiveError(path, place, f"class {strange!r}", f"one of {', '.join(classes)}")
    return np.array([index[x] for x in written], dtype=np.int64)


def _lengths(path: Path, name: str, arrays: Arrays, cases: int, length: int) -> np.ndarray:
    given = arrays.get(name)
    if given is None:
        return np.full(cases, length, dtype=np.int64)
    fits = given.shape == (cases,) and given.dtype.kind in "iu"
    if not fits or given.min() < 1 or given.max() > length:
        raise ArchiveError(
            path,
            f"array {name}",
            f"{given.dtype} of shape {given.shape}"
            + (f" in {given.min()}..{given.max()}" if fits else ""),
            f"integers of shape ({cases},) in 1..{length}",
        )
    return given.astype(np.int64)


def _times(path: Path, name: str, arrays: Arrays, past: np.ndarray) -> np.ndarray | None:
    given = arrays.get(name)
    if given is None:
        return None
    if given.shape != past.shape or given.dtype.kind not in "fiu":
        raise ArchiveError(
            path,
            f"array {name}",
            f"{given.dtype} of shape {given.shape}",
            f"numbers of shape {past.shape}",
        )
    times = np.where(past, 0, given.astype(np.float64))
    if not (np.isfinite(times).all() and ((np.diff(times) > 0) | past[:, 1:]).all()):
        raise ArchiveError(path, f"array {name}", "times that do not increase", "increasing times")
    return times
