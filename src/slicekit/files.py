"""Files that are whole or not there: written beside their place, and renamed into it."""

import os
import re
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from safetensors import SafetensorError

LEFTOVER = re.compile(r"\.(.+)\.[0-9a-f]{32}")
"""Name of a file that was being written."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of writing, with the name of the file that could not be written.

    Raises:
        OSError: instead of any error of the system or of safetensors.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else str(error)
        raise OSError(f"could not write {path}: {reason}") from error


@contextmanager
def replacing(path: Path, settle: Callable[[Path, Path], None] = os.replace) -> Iterator[Path]:
    """A temporary file beside a file, which takes its place once it is written.

    Args:
        path: the file; an earlier one of that name stays until the new one is on the disk.
        settle: gives the temporary file, the first argument, its name, the second.

    Yields:
        The temporary file, to be made and closed inside.

    Raises:
        OSError: if the disk is full, say; the message names the file, and no other is left behind.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    with naming(path):
        try:
            yield temporary
            with open(temporary, "r+b") as written:
                os.fsync(written.fileno())
            settle(temporary, path)
            _keep_names(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write(path: Path, content: bytes) -> None:
    """Write a whole file, or nothing.

    Args:
        path: the file; an earlier one of that name stays until the new one is on the disk.
        content: what it will hold.

    Raises:
        OSError: if the disk is full, say; the message names the file, and no other is left behind.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def create(path: Path, content: bytes) -> None:
    """Write a whole file that is not there yet, or nothing.

    Args:
        path: the file.
        content: what it will hold.

    Raises:
        FileExistsError: if it is there, perhaps since a moment ago; it stays as it is.
        OSError: if the disk is full, say; the message names the file, and no other is left behind.
    """
    try:
        with replacing(path, _name_if_free) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        if isinstance(error.__cause__, FileExistsError):
            raise FileExistsError(f"{path} is there already. Nothing was changed") from error
        raise


def _name_if_free(temporary: Path, path: Path) -> None:
    """Give a file its name if nothing has that name, which `os.replace` would not ask."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # there are no links here: others may see the file grow, but only one makes it
        with open(path, "xb") as file:
            file.write(temporary.read_bytes())
            file.flush()
            os.fsync(file.fileno())
    temporary.unlink()


def _keep_names(folder: Path) -> None:
    """Put the names in a folder on the disk too, where the system has a way to."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path, names: Container[str] | None = None) -> None:
    """Remove what a process that was killed had begun to write in a folder.

    Args:
        folder: which one.
        names: of the files; others may be written by someone else right now. None is all.
    """
    for path in folder.iterdir():
        begun = LEFTOVER.fullmatch(path.name)
        if begun and (names is None or begun[1] in names) and path.is_file():
            path.unlink(missing_ok=True)
