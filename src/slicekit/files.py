"""Files that are whole or not there: written beside their place, and renamed into it."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from safetensors import SafetensorError

LEFTOVER = re.compile(r"\..+\.[0-9a-f]{32}")
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
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside a file, which takes its place once it is written.

    Args:
        path: the file; an earlier one of that name stays until the new one is on the disk.

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
            os.replace(temporary, path)
            _settle(path.parent)
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


def _settle(folder: Path) -> None:
    """Put the names in a folder on the disk too, where the system has a way to."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Remove what a process that was killed had begun to write in a folder."""
    for path in folder.iterdir():
        if LEFTOVER.fullmatch(path.name) and path.is_file():
            path.unlink()
