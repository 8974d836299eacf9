"""Tables written as TOML; the standard library reads TOML, but does not write it.

What can be written is what a configuration needs: text, numbers, flags, lists, and tables in them.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

BARE = re.compile(r"[A-Za-z0-9_-]+")
ESCAPES = {"\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r", '"': r"\"", "\\": r"\\"}


def dumps(table: Mapping[str, Any]) -> str:
    """A table as TOML, which `tomllib.loads` reads back as it was (tuples as lists).

    Args:
        table: text, integers, floats, flags, lists or tuples of them, and tables, by text keys.

    Returns:
        The document, with a line for each value and a header for each table.

    Raises:
        TypeError: if a value is of another kind, or a key is no text; the message names its place.

    Example:
        >>> print(dumps({"task": "a5", "training": {"steps": 100, "lengths": (3, 40)}}), end="")
        task = "a5"
        <BLANKLINE>
        [training]
        steps = 100
        lengths = [3, 40]
    """
    return "\n".join(_lines(table, ())).lstrip("\n") + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    """The table's own values come first: after the header of an inner table they would be its."""
    plain = {key: x for key, x in table.items() if not isinstance(x, Mapping)}
    lines = [f"{_key(key, path)} = {_value(x, (*path, key))}" for key, x in plain.items()]
    for key, inner in table.items():
        if isinstance(inner, Mapping):
            name = _key(key, path)
            place = (*path, key)
            header = ".".join([*(_key(part, ()) for part in path), name])
            lines += ["", f"[{header}]", *_lines(inner, place)]
    return lines


def _key(key: object, path: tuple[str, ...]) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the key {key!r}{_place(path)} is a {type(key).__name__}; expected text")
    return key if BARE.fullmatch(key) else _text(key)


def _value(value: Any, path: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else _unusual(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(x, path) for x in value) + "]"
    if isinstance(value, Mapping):
        inner = (f"{_key(key, path)} = {_value(x, (*path, key))}" for key, x in value.items())
        return "{" + ", ".join(inner) + "}"
    raise TypeError(
        f"{value!r}{_place(path)} is a {type(value).__name__}, which TOML can't hold; expected "
        "text, a number, a flag, a list or a table"
    )


def _unusual(value: float) -> str:
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _text(text: str) -> str:
    return '"' + "".join(_character(c) for c in text) + '"'


def _character(c: str) -> str:
    control = ord(c) < 0x20 or ord(c) == 0x7F
    return ESCAPES.get(c, f"\\u{ord(c):04x}" if control else c)


def _place(path: tuple[str, ...]) -> str:
    return f" at {'.'.join(path)}" if path else ""
