"""Frozen descriptions by name, so that an operator torch cannot look into can still receive them.

A compiled graph passes tensors, numbers and strings to an opaque operator. Structures and flows are
none of these, but they are frozen and their `repr` says everything about them: it is their name.
"""

from typing import Any

_descriptions: dict[str, Any] = {}


def intern(description: Any) -> str:
    """Remember a frozen description and return its name; equal descriptions share one.

    A class that was defined anew under an old name (in a notebook, say) gets a name of its own.
    """
    cls = type(description)
    key = f"{cls.__module__}.{cls.__qualname__}: {description!r}"
    while type(_descriptions.setdefault(key, description)) is not cls:
        key += "'"
    return key


def recall(key: str) -> Any:
    """The description that was interned under this name."""
    return _descriptions[key]
