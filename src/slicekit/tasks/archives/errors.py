"""The error for a file that can't be read as what it claims to be."""

from os import PathLike


class ArchiveError(ValueError):
    """A malformed file of an archive: which, where in it, what stands there, what should.

    Args:
        file: the file.
        place: a line counted from 1, the name of an array, or None for the file as a whole.
        found: what is wrong with it.
        expected: what should stand there instead.

    >>> ArchiveError("a.ts", 3, "2 channels", "3, as in the first case")
    ArchiveError('a.ts, line 3: 2 channels; expected 3, as in the first case')
    """

    def __init__(
        self, file: str | PathLike[str], place: int | str | None, found: str, expected: str
    ) -> None:
        """Put the message together."""
        where = f", line {place}" if isinstance(place, int) else f", {place}" if place else ""
        super().__init__(f"{file}{where}: {found}; expected {expected}")
