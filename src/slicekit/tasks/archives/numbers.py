"""Numbers separated by commas, read by numpy's C parser: strict, and no Python object per number.

`?` and NaN are missing values; a number that float32 can't hold is refused.
"""

import math
import re
from collections.abc import Sequence

import numpy as np

PLAIN = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
LARGEST = float(np.finfo(np.float32).max)


class Malformed(ValueError):
    """What is wrong with a piece of text, and what should stand there.

    Args:
        found: what is wrong.
        expected: what should stand there.
    """

    def __init__(self, found: str, expected: str) -> None:
        """Keep both."""
        super().__init__(f"{found}; expected {expected}")
        self.found, self.expected = found, expected


def quoted(text: str) -> str:
    """A piece of a file for a message, cut short if it is long.

    >>> quoted("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'"
    """
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


def parse_rows(rows: Sequence[str], row_name: str = "channel") -> np.ndarray:
    """Rows of numbers, all of one length.

    Args:
        rows: at least one, each of numbers separated by commas.
        row_name: what one is called in messages.

    Returns:
        (rows, numbers) float64, NaN where one is missing.

    Raises:
        Malformed: if a row is empty or has another length than the first, or an entry is no number,
            infinite, or too large for float32.

    >>> parse_rows(["1, 2.5", "?,-3e-1"])
    array([[ 1. ,  2.5],
           [ nan, -0.3]])
    """
    texts = [_without_question_marks(row) if "?" in row else row for row in rows]
    try:
        if not all(text and not text.isspace() for text in texts):
            raise ValueError("loadtxt passes over empty rows")
        numbers = np.loadtxt(texts, delimiter=",", comments=None, dtype=np.float64, ndmin=2)
    except ValueError:
        raise _fault(rows, row_name) from None
    extremes = np.fmax(np.fmax.reduce(numbers, axis=None), -np.fmin.reduce(numbers, axis=None))
    if extremes > LARGEST:
        raise _too_large(numbers, row_name)
    return numbers


def parse_number(text: str) -> float:
    """One finite number.

    Raises:
        Malformed: if it is none.

    >>> parse_number(" 2.5 ")
    2.5
    """
    number = float(parse_rows([text])[0, 0]) if "," not in text else math.nan
    if math.isnan(number):
        raise Malformed(quoted(text), "a number")
    return number


def _without_question_marks(row: str) -> str:
    if row.count("?") == 1 and row.strip() == "?":
        return "nan"
    entries = ("nan" if entry.strip() == "?" else entry for entry in row.split(","))
    return ",".join(entries)


def _fault(rows: Sequence[str], row_name: str) -> Malformed:
    """Why rows can't be read; slow, since it happens once."""
    count = rows[0].count(",") + 1
    for row, text in enumerate(rows, 1):
        where = f"{row_name} {row}" if len(rows) > 1 else ""
        if not text.strip():
            return Malformed(f"{where or row_name} is empty", "numbers separated by commas")
        for position, entry in enumerate(text.split(","), 1):
            if not _is_number(entry):
                place = f"at position {position}{' of ' if where else ''}{where}"
                return Malformed(f"{quoted(entry)} {place}", "a number, or ? for a missing one")
        if text.count(",") + 1 != count:
            return Malformed(
                f"{where} has {text.count(',') + 1} values", f"{count}, as {row_name} 1 has"
            )
    return Malformed(quoted(rows[0]), "numbers separated by commas")


def _is_number(entry: str) -> bool:
    if entry.strip() == "?" or PLAIN.fullmatch(entry.strip()):
        return True
    if not entry.strip():
        return False
    try:
        np.loadtxt([entry], delimiter=",", comments=None, dtype=np.float64)
    except ValueError:
        return False
    return True


def _too_large(numbers: np.ndarray, row_name: str) -> Malformed:
    row, position = np.argwhere(np.abs(numbers) > LARGEST)[0]
    where = f"at position {position + 1}" + (
        f" of {row_name} {row + 1}" if len(numbers) > 1 else ""
    )
    return Malformed(
        f"{numbers[row, position]} {where}", f"a number of at most {LARGEST:.3g} in size"
    )
