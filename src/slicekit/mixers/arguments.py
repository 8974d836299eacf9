"""Checks of what a mixer is made of: sizes are whole numbers, policies are of their kind."""

from typing import Any

from slicekit.checks import check_positive, check_whole


def check_sizes(**sizes: int) -> None:
    """Raise unless all of these are whole numbers of at least 1.

    >>> check_sizes(width=8, dim=0)
    Traceback (most recent call last):
    ValueError: dim=0; expected at least 1
    """
    for name, value in sizes.items():
        check_whole(name, value)


def check_depth(depth: int, most: int = 1000) -> None:
    """Raise unless it is a number of layers that a network may have.

    >>> check_depth(10**9)
    Traceback (most recent call last):
    ValueError: depth=1000000000; expected at most 1000
    """
    check_whole("depth", depth)
    if depth > most:
        raise ValueError(f"depth={depth}; expected at most {most}")


def check_policy(name: str, value: object, kind: type[Any], expected: str) -> None:
    """Raise TypeError unless the value is of a kind.

    >>> check_policy("count", "many", int, "an int")
    Traceback (most recent call last):
    TypeError: count='many' is a str; expected an int
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; expected {expected}")


def whole_share(name: str, factor: float, of: str, size: int, heads: int = 1) -> int:
    """The channels of one head, where all heads have factor * size of them together.

    Args:
        name: of the factor, as the user knows it.
        factor: how many sizes there are.
        of: name of the size.
        size: a number of channels.
        heads: how many share them.

    Raises:
        ValueError: if that is not a whole number.

    >>> whole_share("expand_values", 1.5, "width", 8, heads=4)
    3
    """
    check_positive(name, factor)
    channels = round(factor * size)
    if abs(channels - factor * size) > 1e-6 * size or channels < heads or channels % heads:
        shared = "a whole number" if heads == 1 else f"a positive multiple of heads={heads}"
        raise ValueError(
            f"{name}={factor} with {of}={size} makes {factor * size:g} channels; expected {shared}"
        )
    return channels // heads
