"""The archives' own text format, `.ts`.

    # a comment
    @problemName Walks
    @timeStamps false
    @missing true
    @univariate false
    @dimensions 2
    @equalLength false
    @classLabel true left right
    @data
    1.0,2.0,?:0.5,0.5,0.5:left
    3.0,4.0:1.5,2.5:right

A line of data is a case: its channels between colons, and last its class, or a number after
`@targetLabel true`. With `@timeStamps true` a value is a pair `(time,value)`; channels may be
observed at different times, and are missing at those of the others.
"""

import re
from collections import Counter
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from slicekit.tasks.archives.building import Cases, Declared, check_merged
from slicekit.tasks.archives.errors import ArchiveError
from slicekit.tasks.archives.lines import numbered_lines
from slicekit.tasks.archives.numbers import Malformed, parse_rows, quoted
from slicekit.tasks.archives.series import Series

BOOLEANS = {"true": True, "false": False}
KEYWORDS = {
    "problemname": "problemName",
    "timestamps": "timeStamps",
    "missing": "missing",
    "univariate": "univariate",
    "dimension": "dimensions",
    "dimensions": "dimensions",
    "equallength": "equalLength",
    "serieslength": "seriesLength",
    "classlabel": "classLabel",
    "targetlabel": "targetLabel",
}
"""Capitals make no difference in a file; messages have the usual ones."""

LONGEST_HEAD = 1000
"""Lines in which a keyword that nobody knows is compared with those that are known."""

MARKS = re.compile(r"[():]")
BETWEEN_PAIRS = re.compile(r"\)\s*,\s*\(")


def read_ts(path: Path) -> Series:
    """Read a `.ts` file.

    Args:
        path: the file.

    Returns:
        All its cases; classes are sorted by name.

    Raises:
        ArchiveError: if the file is malformed or contradicts its own head: nothing is returned.
        OSError: if it can't be opened.
    """
    lines = numbered_lines(path, "#%")
    head: dict[str, tuple[int, str]] = {}
    number = 1
    for number, line in lines:
        if line.split()[0].lower() == "@data":
            break
        _note(path, number, line, head)
    else:
        raise ArchiveError(path, number, "the file ends before its data", "a line @data")
    cases = Cases(path, _declared(path, number, head))
    for number, line in lines:
        if line.startswith("@"):
            raise ArchiveError(path, number, f"{quoted(line)} after @data", "a case")
        try:
            values, answer, times = _case(line, cases.declared.timed)
        except Malformed as fault:
            raise ArchiveError(path, number, fault.found, fault.expected) from None
        cases.add(number, values, answer, times, line.count("(") if cases.declared.timed else None)
    return cases.finish(number)


def _note(path: Path, number: int, line: str, head: dict[str, tuple[int, str]]) -> None:
    """Keep a line of the head; what other tools may have put there is passed over."""
    if not line.startswith("@"):
        raise ArchiveError(
            path, number, f"{quoted(line)} before @data", "a line that starts with @"
        )
    written, _, rest = line[1:].replace("\t", " ").partition(" ")
    keyword = KEYWORDS.get(written.lower())
    if keyword is None:
        start = written.lower()[:40] if number <= LONGEST_HEAD else ""
        close = get_close_matches(start, [*KEYWORDS, "data"], n=1, cutoff=0.75)
        if close:
            known = KEYWORDS.get(close[0], close[0])
            raise ArchiveError(
                path, number, f"unknown keyword {quoted(f'@{written}')}", f"@{known}"
            )
        return
    if keyword in head and keyword == "problemName":  # another name of it, as aeon's UnitTest has
        return
    if keyword in head:
        raise ArchiveError(
            path, number, f"@{keyword} for the second time", f"it only in line {head[keyword][0]}"
        )
    head[keyword] = (number, rest.strip())


def _declared(path: Path, data_line: int, head: dict[str, tuple[int, str]]) -> Declared:
    flags = {
        key: _boolean(path, key, head)
        for key in ("timeStamps", "missing", "univariate", "equalLength")
    }
    channels, length = (_whole(path, key, head) for key in ("dimensions", "seriesLength"))
    if flags["univariate"] and channels not in (None, 1):
        number = max(head["univariate"][0], head["dimensions"][0])
        raise ArchiveError(
            path, number, f"@univariate true and @dimensions {channels}", "@dimensions 1"
        )
    if flags["univariate"]:
        channels = 1
    return Declared(
        name=head.get("problemName", (0, ""))[1] or re.sub(r"_(TRAIN|TEST)$", "", path.stem),
        classes=_classes(path, data_line, head),
        channels=channels,
        # Some writers declare a length of 0 where lengths are unequal.
        length=None if length == 0 and flags["equalLength"] is False else length,
        equal=flags["equalLength"],
        missing=flags["missing"],
        timed=bool(flags["timeStamps"]),
    )


def _boolean(path: Path, key: str, head: dict[str, tuple[int, str]]) -> bool | None:
    if key not in head:
        return None
    number, text = head[key]
    if text.lower() not in BOOLEANS:
        raise ArchiveError(path, number, f"@{key} {quoted(text)}", "true or false")
    return BOOLEANS[text.lower()]


def _whole(path: Path, key: str, head: dict[str, tuple[int, str]]) -> int | None:
    if key not in head:
        return None
    number, text = head[key]
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise ArchiveError(path, number, f"@{key} {quoted(text)}", "a whole number")
    return int(text)


def _classes(path: Path, data_line: int, head: dict[str, tuple[int, str]]) -> tuple[str, ...]:
    """The classes declared; none if numbers are to be regressed on."""
    labels = [key for key in ("classLabel", "targetLabel") if key in head]
    wanted = "either @classLabel true and the classes, or @targetLabel true"
    words = {key: head[key][1].split() for key in labels}
    for key, (first, *_) in ((key, x or [""]) for key, x in words.items()):
        if first.lower() not in BOOLEANS:
            raise ArchiveError(path, head[key][0], f"@{key} {quoted(first)}", "true or false")
    used = [key for key in labels if BOOLEANS[words[key][0].lower()]]
    if len(used) != 1:
        number = head[labels[-1]][0] if labels else data_line
        found = "both kinds of answers" if used else "series without answers"
        raise ArchiveError(path, number, found, wanted)
    number, names = head[used[0]][0], words[used[0]][1:]
    if used == ["targetLabel"]:
        return ()
    if not names:
        raise ArchiveError(path, number, "@classLabel true without classes", "their names")
    if len(set(names)) < len(names):
        twice = max(names, key=Counter(names).__getitem__)
        raise ArchiveError(path, number, f"class {quoted(twice)} twice", "each class once")
    return tuple(names)


def _case(line: str, timed: bool) -> tuple[np.ndarray, str, np.ndarray | None]:
    """One line as values (length, channels), the answer as written, and times (length,)."""
    *channels, answer = _outside_pairs(line) if timed else line.split(":")
    if not channels:
        raise Malformed(f"{quoted(line)} without a colon", "channels and an answer between colons")
    if not timed:
        if "(" in line:
            raise Malformed("timestamps in brackets", "plain values, or @timeStamps true")
        return parse_rows(channels).T, answer, None
    values, times = _merged([_pairs(text) for text in channels])
    return values, answer, times


def _outside_pairs(line: str) -> list[str]:
    """The pieces of a line between colons, but for colons in brackets, as those of a date."""
    pieces, end, inside = [], len(line), False
    for mark in reversed(list(MARKS.finditer(line))):
        if mark[0] != ":":
            inside = mark[0] == ")"
        elif not inside:
            pieces.append(line[mark.end() : end])
            end = mark.start()
    return [line[:end], *reversed(pieces)]


def _pairs(text: str) -> np.ndarray:
    """A channel with timestamps, (length, 2)."""
    inside = text.strip()
    if not inside.startswith("(") or not inside.endswith(")"):
        raise Malformed(quoted(text), "pairs (time,value) separated by commas")
    pairs = BETWEEN_PAIRS.split(inside[1:-1])
    for position, pair in enumerate(pairs, 1):
        time, comma, value = pair.partition(",")
        if not comma or "," in value or re.search(r"[()]", pair):
            raise Malformed(f"{quoted(f'({pair})')} at position {position}", "a pair (time,value)")
        if re.search(r"\d[-/:]\d", time):
            raise Malformed(f"the date {quoted(time)}", "timestamps that are numbers")
    rows = parse_rows(pairs, "pair")
    if np.isnan(rows[:, 0]).any():
        raise Malformed("a missing timestamp", "a number")
    later = np.diff(rows[:, 0]) > 0
    if not later.all():
        place = int(np.argmin(later))
        one, other = rows[place : place + 2, 0]
        raise Malformed(f"timestamp {other:g} after {one:g}", "timestamps that increase")
    return rows


def _merged(channels: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Values (length, channels) at all times of all channels, and these times (length,)."""
    times = np.unique(np.concatenate([pairs[:, 0] for pairs in channels]))
    check_merged(len(times) * len(channels), sum(len(pairs) for pairs in channels), len(channels))
    values = np.full((len(times), len(channels)), np.nan)
    for channel, pairs in enumerate(channels):
        values[np.searchsorted(times, pairs[:, 0]), channel] = pairs[:, 1]
    return values, times
