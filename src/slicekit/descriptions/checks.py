"""Checks of plain values, and the words in which every library's arrays are refused."""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from types import EllipsisType
from typing import Any, TypeAlias

Size: TypeAlias = int | str | EllipsisType | None


def place(position: Sequence[int], axes: Sequence[str]) -> str:
    """A position in words.

    >>> place((0, 3), ("batch", "position"))
    'batch 0, position 3'
    """
    return ", ".join(f"{axis} {index}" for axis, index in zip(axes, position, strict=True))


def check_sizes(name: str, sizes: tuple[int, ...], expected: tuple[Size, ...]) -> None:
    """Raise ValueError unless the sizes of an array are as expected.

    Args:
        name: the argument's name, as the user knows it.
        sizes: what was given.
        expected: one entry per axis: a size, or a name or None for any size. One `...` may stand
            for any number of axes.

    >>> check_sizes("increments", (3, 4), ("batch", "length", "channels"))
    Traceback (most recent call last):
    ValueError: increments has shape (3, 4); expected (batch, length, channels)
    >>> check_sizes("state", (3, 4), (..., 4))
    """
    wanted = expected
    if ... in expected:
        cut = expected.index(...)
        between = (None,) * (len(sizes) - len(expected) + 1)
        wanted = expected[:cut] + between + expected[cut + 1 :]
    fits = len(wanted) == len(sizes) and all(
        want is None or isinstance(want, str) or want == size
        for want, size in zip(wanted, sizes, strict=True)
    )
    if not fits:
        raise ValueError(f"{name} has shape {sizes}; expected {_shape_in_words(expected)}")


def _shape_in_words(expected: tuple[Size, ...]) -> str:
    names = {None: "any", ...: "..."}
    words = [names[size] if size is None or size is ... else str(size) for size in expected]
    return f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})"


def check_finite(name: str, value: float) -> None:
    """Raise unless the value is a finite number (TypeError if it is no number at all).

    >>> check_finite("initial", float("nan"))
    Traceback (most recent call last):
    ValueError: initial=nan; expected a finite number
    """
    _check_number(name, value, "a finite number")
    if not -math.inf < value < math.inf:
        raise ValueError(f"{name}={value}; expected a finite number")


def check_positive(name: str, value: float) -> None:
    """Raise unless the value is a positive finite number (TypeError if it is no number at all).

    >>> check_positive("dim", 0)
    Traceback (most recent call last):
    ValueError: dim=0; expected a positive number
    """
    _check_number(name, value, "a positive number")
    if not 0 < value < math.inf:
        raise ValueError(f"{name}={value}; expected a positive number")


def _check_number(name: str, value: object, expected: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; expected {expected}")


def check_whole(
    name: str, value: Any, least: int = 1, otherwise: str = "", of: type = Integral
) -> None:
    """Raise unless the value is a whole number of at least so much (TypeError if it is not whole).

    Args:
        name: the argument's name, as the user knows it.
        value: what was given.
        least: the smallest that will do.
        otherwise: what else would have done, for the message: ", or None".
        of: whose whole numbers: Python's and NumPy's, or Python's alone (`int`) where they are
            kept, compared and written to files.

    >>> check_whole("heads", 2.0)
    Traceback (most recent call last):
    TypeError: heads=2.0 is a float; expected a whole number
    >>> check_whole("size", 0, otherwise=", or None")
    Traceback (most recent call last):
    ValueError: size=0; expected at least 1, or None
    """
    if isinstance(value, bool) or not isinstance(value, of):
        kind = type(value).__name__
        raise TypeError(f"{name}={value!r} is a {kind}; expected a whole number{otherwise}")
    if value < least:
        raise ValueError(f"{name}={value}; expected at least {least}{otherwise}")


def check_size(name: str, value: Any) -> None:
    """Raise unless a size that a description keeps is a whole number of at least 1."""
    check_whole(name, value, of=int)


def check_chosen(name: str, value: Any) -> None:
    """Raise unless a policy's number is a whole number of at least 1, or None: chosen for it."""
    if value is not None:
        check_whole(name, value, otherwise=", or None", of=int)


def check_rank(rank: int, dim: int) -> None:
    """Raise unless 1 <= rank <= dim."""
    if not 1 <= rank <= dim:
        raise ValueError(f"rank={rank}; expected 1 to dim={dim}")


def divisors(number: int, least: int = 1) -> str:
    """The divisors of a number from `least` on, as an error message shows them."""
    candidates = range(least, number + 1) if number < 10**6 else (number,)
    dividing = [d for d in candidates if number % d == 0]
    shown = ", ".join(str(d) for d in dividing[:8])
    return shown + (", ..." if len(dividing) > 8 else "")


def is_power_of_two(number: int) -> bool:
    """Whether a number is 1, 2, 4, 8, ..."""
    return number >= 1 and math.log2(number).is_integer()
