r"""Weka's text format, `.arff`, as the archives use it.

A multivariate problem has one relational attribute, whose inner attributes are the positions of a
series, and the class; a line of data has the channels between quotes, separated by `\n`:

    % a comment
    @relation Walks
    @attribute walk relational
      @attribute t0 numeric
      @attribute t1 numeric
    @end walk
    @attribute side {left,right}
    @data
    "1.0,2.0\n0.5,?",left

A univariate problem has one numeric attribute for each position instead, and lines `1.0,2.0,left`.
A last attribute that is numeric is to be regressed on. Shorter series are padded with `?` here, so
that positions at the end at which every channel is missing do not belong to a series.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slicekit.tasks.archives.building import Cases, Declared
from slicekit.tasks.archives.errors import ArchiveError
from slicekit.tasks.archives.lines import numbered_lines
from slicekit.tasks.archives.numbers import Malformed, parse_rows, quoted
from slicekit.tasks.archives.series import Series

ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|[^\s{]+)\s*(.*)""", re.IGNORECASE)
ENTRY = re.compile(r"""'[^']*'|"[^"]*"|[^'",{}]+""")
SPACE = re.compile(r"\s*")
RELATIONAL = re.compile(r"""(['"])(.*?)(?<!\\)\1\s*,(.*)""")
NUMERIC = ("numeric", "real", "integer")


@dataclass(frozen=True)
class _Head:
    """What stands before the data."""

    name: str
    relational: bool
    length: int
    classes: tuple[str, ...]


def read_arff(path: Path) -> Series:
    """Read an `.arff` file.

    Args:
        path: the file.

    Returns:
        All its cases; classes are sorted by name.

    Raises:
        ArchiveError: if the file is malformed or contradicts its own head: nothing is returned.
        OSError: if it can't be opened.
    """
    lines = numbered_lines(path, "%")
    head, number = _read_head(path, lines)
    cases = Cases(path, Declared(head.name, head.classes))
    for number, line in lines:
        try:
            values, answer = _case(line, head)
        except Malformed as fault:
            raise ArchiveError(path, number, fault.found, fault.expected) from None
        cases.add(number, values, _unquoted(answer))
    return cases.finish(number)


def _read_head(path: Path, lines: Iterator[tuple[int, str]]) -> tuple[_Head, int]:
    """The head, and the line of @data."""
    name, inside, number = "", None, 1
    inner: list[str] = []
    outer: list[str] = []
    for number, line in lines:
        keyword = line.split()[0].lower()
        if keyword == "@data":
            break
        if keyword == "@relation":
            name = _unquoted(line[len(keyword) :])
        elif keyword == "@end" and inside is not None:
            inside = None
        elif keyword == "@attribute":
            kind = _attribute(path, number, line)
            if kind.lower() == "relational":
                if inside is not None or outer:
                    raise ArchiveError(path, number, "a second series", "one relational attribute")
                inside = number
                outer.append("relational")
            elif inside is not None:
                inner.append(_numeric(path, number, kind, "numeric, or @end before it"))
            else:
                outer.append(kind)
        else:
            wanted = "@relation, @attribute, @end or @data"
            raise ArchiveError(path, number, f"{quoted(line)} before @data", wanted)
    else:
        raise ArchiveError(path, number, "the file ends before its data", "a line @data")
    if inside is not None:
        raise ArchiveError(path, inside, "a relational attribute without an end", "a line @end")
    return _head(path, number, name, inner, outer), number


def _attribute(path: Path, number: int, line: str) -> str:
    """The kind of an attribute, as written."""
    match = ATTRIBUTE.fullmatch(line)
    if match is None or not match[2]:
        raise ArchiveError(path, number, quoted(line), "@attribute, a name and a type")
    return match[2].strip()


def _numeric(path: Path, number: int, kind: str, expected: str = "numeric") -> str:
    if kind.lower() not in NUMERIC:
        raise ArchiveError(path, number, f"an attribute of type {quoted(kind)}", expected)
    return kind


def _head(path: Path, number: int, name: str, inner: list[str], outer: list[str]) -> _Head:
    if len(outer) < 2:
        raise ArchiveError(path, number, f"{len(outer)} attributes", "a series and its class")
    *series, answer = outer
    relational = series[0] == "relational"
    if relational and (len(series) > 1 or not inner):
        found = f"{len(series)} attributes with {len(inner)} positions before the class"
        raise ArchiveError(path, number, found, "one relational attribute of at least 1 position")
    if not relational:
        for kind in series:
            _numeric(path, number, kind)
    if not answer.startswith("{"):
        _numeric(path, number, answer)
        classes: tuple[str, ...] = ()
    else:
        classes = _names(path, number, answer)
    length = len(inner) if relational else len(series)
    return _Head(name or re.sub(r"_(TRAIN|TEST)$", "", path.stem), relational, length, classes)


def _names(path: Path, number: int, kind: str) -> tuple[str, ...]:
    """The names between curly brackets."""
    entries = _entries(kind[1:-1])
    names = tuple(_unquoted(entry) for entry in entries or ())
    if not kind.endswith("}") or not names or len(set(names)) < len(names):
        raise ArchiveError(path, number, f"classes {quoted(kind)}", "different names as in {a,b}")
    return names


def _entries(text: str) -> list[str] | None:
    """The names between commas, some in quotes, with white space around them; None if malformed."""
    entries, place = [], 0
    while True:
        entry = ENTRY.match(text, _past_space(text, place))
        if entry is None:
            return None
        entries.append(entry[0].strip())
        place = _past_space(text, entry.end())
        if place == len(text):
            return entries
        if text[place] != ",":
            return None
        place += 1


def _past_space(text: str, place: int) -> int:
    match = SPACE.match(text, place)
    return place if match is None else match.end()


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _case(line: str, head: _Head) -> tuple[np.ndarray, str]:
    """One line as values (length, channels) and the answer as written."""
    if line.startswith("{"):
        raise Malformed("a sparse case in curly brackets", "all values of the case")
    if head.relational:
        match = RELATIONAL.fullmatch(line)
        if match is None:
            raise Malformed(quoted(line), "a series between quotes, a comma and its class")
        rows, answer = match[2].removesuffix(r"\n").split(r"\n"), match[3]
    else:
        row, comma, answer = line.rpartition(",")
        if not comma:
            raise Malformed(quoted(line), "values and a class, separated by commas")
        rows = [row]
    values = parse_rows(rows).T
    if len(values) != head.length:
        raise Malformed(f"a series of length {len(values)}", f"{head.length}, one per attribute")
    return _without_padding(values), answer


def _without_padding(values: np.ndarray) -> np.ndarray:
    seen = np.flatnonzero(~np.isnan(values).all(axis=1))
    return values[: seen[-1] + 1] if len(seen) else values[:1]
