"""The lines of a text file of an archive, with their numbers."""

from collections.abc import Iterator
from pathlib import Path

from slicekit.tasks.archives.errors import ArchiveError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def numbered_lines(path: Path, comments: str) -> Iterator[tuple[int, str]]:
    """Lines that are neither empty nor comments, one at a time, without the white space around.

    Args:
        path: the file, in UTF-8; comments may be in any encoding.
        comments: the characters that a comment may start with.

    Yields:
        The number of the line, from 1, and its text.

    Raises:
        ArchiveError: if a line is no UTF-8.
        OSError: if the file can't be read.
    """
    marks = tuple(mark.encode() for mark in comments)
    with open(path, "rb") as file:
        for number, raw in enumerate(file, 1):
            line = (raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw).strip()
            if not line or line.startswith(marks):
                continue
            try:
                yield number, line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ArchiveError(
                    path, number, f"byte 0x{line[error.start]:02x} is no UTF-8", "text in UTF-8"
                ) from None
