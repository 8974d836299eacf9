"""The error for a name that nothing has."""

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(kind: str, name: object, known: Iterable[str], otherwise: str = "") -> ValueError:
    """An error that lists the names there are, and suggests the closest.

    Args:
        kind: what the name should name.
        name: what was given.
        known: the names there are.
        otherwise: what else may be given, for the end of the message.

    >>> unknown("task", "partiy", ["a5", "parity"])
    ValueError("unknown task 'partiy', did you mean 'parity'? Choose from a5, parity")
    """
    names = list(known)
    close = get_close_matches(str(name).lower(), names, n=1, cutoff=0.5)
    hint = f", did you mean {close[0]!r}? Choose from " if close else "; choose from "
    return ValueError(f"unknown {kind} {name!r}{hint}{', '.join(names)}{otherwise}")
