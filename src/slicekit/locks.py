"""One writer of a folder at a time, by a lock of the operating system.

The lock is on a file in the folder, which the writer removes at its end. It belongs to the open
file, so the system lifts it when the process ends, however that happens: a file that a killed
process left behind locks nobody out.
"""

import errno
import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slicekit import files

WRITER = ".writer.lock"
"""The file whose lock the writer of a folder holds."""

PAUSE = 0.05
"""Seconds between two attempts of one who waits."""

UNKNOWN = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
"""What file systems without locks say."""


class InUse(OSError):
    """A folder that another process is writing, or another part of this one.

    Args:
        folder: which one; it is left as it is.
        holder: who is writing it, if that is known.
    """

    def __init__(self, folder: Path, holder: str) -> None:
        """Put the folder into the message."""
        who = f"{holder} is writing it" if holder else "another process is writing it"
        super().__init__(f"{folder} is in use: {who}. Nothing was changed")
        self.folder, self.holder = folder, holder


@contextmanager
def writing(folder: Path, name: str = WRITER, patience: float = 0.0) -> Iterator[None]:
    """Be the only writer of a folder, as long as the context lasts or the process lives.

    Args:
        folder: which one; it is made if it is missing, and goes again if nothing is written.
        name: of the file with the lock, for folders that have several kinds of writers.
        patience: seconds to wait for another writer to end.

    Raises:
        InUse: if another is writing the folder.
        OSError: if the file can't be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, writing(Path(folder)):
        ...     with writing(Path(folder)):  # doctest: +ELLIPSIS
        ...         pass
        Traceback (most recent call last):
        slicekit.locks.InUse: ... is in use: process ... is writing it. Nothing was changed
    """
    missing = not folder.exists()
    with files.naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    descriptor = _acquire(path, patience)
    try:
        yield
    finally:
        _release(descriptor, path)
        if missing:
            with suppress(OSError):  # it holds something, or is another's by now
                folder.rmdir()


def _acquire(path: Path, patience: float) -> int:
    """The open file, locked."""
    end = time.monotonic() + patience
    while True:
        with files.naming(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            locked = _lock(descriptor, path)
            if locked and _is_at(descriptor, path):
                _sign(descriptor, path)
                return descriptor
            holder = "" if locked else os.read(descriptor, 200).decode(errors="replace")
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if locked:
            continue  # its last holder has removed the file meanwhile
        if time.monotonic() >= end:
            raise InUse(path.parent, holder)
        time.sleep(PAUSE)


def _release(descriptor: int, path: Path) -> None:
    """Remove the file while it is locked, where that can be done, so that no one locks it after."""
    with suppress(OSError):
        path.unlink()
    os.close(descriptor)
    if os.name == "nt":
        with suppress(OSError):
            path.unlink()


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _sign(descriptor: int, path: Path) -> None:
    """Write down who holds the lock, for the message to others."""
    with files.naming(path):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())


def _lock(descriptor: int, path: Path) -> bool:
    """Whether a file could be locked; one that can't be locked by anyone is, with a warning."""
    try:
        _lock_by_system(descriptor)
    except OSError as error:
        if error.errno not in UNKNOWN:
            return False
        warnings.warn(
            f"{path.parent} is on a file system without locks ({os.strerror(error.errno or 0)}): "
            "see to it that no other process writes that folder",
            RuntimeWarning,
            stacklevel=6,
        )
    return True


if os.name == "nt":  # pragma: no cover
    import msvcrt

    BYTE = 1 << 20
    """The byte that is locked: others can't read those that are, so it is none with content."""

    def _lock_by_system(descriptor: int) -> None:
        os.lseek(descriptor, BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock_by_system(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
