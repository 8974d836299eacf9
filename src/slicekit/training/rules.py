"""What a setting may be: small rules that check a value, and give it in its one proper form."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

from slicekit.descriptions.checks import check_whole


class Rule(Protocol):
    """Checks a value: gives it back in its proper form, or raises in the user's words."""

    def __call__(self, name: str, value: Any) -> Any:
        """The value of the setting `name`; TypeError or ValueError if it is none."""
        ...


@dataclass(frozen=True)
class Whole:
    """An integer of at least `least`.

    >>> Whole(1)("steps", 0)
    Traceback (most recent call last):
    ValueError: steps=0; expected at least 1
    """

    least: int

    def __call__(self, name: str, value: Any) -> int:
        """The integer."""
        check_whole(name, value, self.least, of=int)
        return value


@dataclass(frozen=True)
class Real:
    """A finite number between two ends; an end belongs to it if the interval is closed there.

    >>> Real("[0, 1)")("warmup", 1)
    Traceback (most recent call last):
    ValueError: warmup=1.0; expected a number in [0, 1)
    """

    interval: str

    def __call__(self, name: str, value: Any) -> float:
        """The number, as a float."""
        expected = f"expected a number in {self.interval}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name}={value!r} is a {type(value).__name__}; {expected}")
        number = float(value)
        low, high = (float(end) for end in self.interval[1:-1].split(","))
        above = number >= low if self.interval[0] == "[" else number > low
        below = number <= high if self.interval[-1] == "]" else number < high
        if not (above and below and math.isfinite(number)):
            raise ValueError(f"{name}={number}; {expected}")
        return number


@dataclass(frozen=True)
class Flag:
    """True or false.

    >>> Flag()("autocast", 1)
    Traceback (most recent call last):
    TypeError: autocast=1 is a int; expected true or false
    """

    def __call__(self, name: str, value: Any) -> bool:
        """The flag."""
        if not isinstance(value, bool):
            raise TypeError(f"{name}={value!r} is a {type(value).__name__}; expected true or false")
        return value


@dataclass(frozen=True)
class Pair:
    """Two values of one rule, a tuple or a list; in order, if they are the ends of a range.

    >>> Pair(Whole(1), ordered=True)("lengths", (40, 3))
    Traceback (most recent call last):
    ValueError: lengths=(40, 3); expected the lower end first
    """

    rule: Rule
    ordered: bool = False

    def __call__(self, name: str, value: Any) -> tuple[Any, Any]:
        """The two values."""
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise TypeError(f"{name}={value!r}; expected two values")
        first, second = (self.rule(f"{name}[{i}]", x) for i, x in enumerate(value))
        if self.ordered and first > second:
            raise ValueError(f"{name}={(first, second)}; expected the lower end first")
        return first, second


@dataclass(frozen=True)
class Perhaps:
    """None, or a value of a rule.

    >>> Perhaps(Whole(1))("patience", None)
    """

    rule: Rule

    def __call__(self, name: str, value: Any) -> Any:
        """None, or the value."""
        return None if value is None else self.rule(name, value)
