"""What a sweep varies: for each thing a list of values, or a range.

A *setting* of a trial has a dotted name, "model", "recipe", "layers", "sizes.dim" or
"training.rate"; a *draw* gives each of them a value, as plain data.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slicekit.training.rules import Perhaps, Rule, Whole

Draw = dict[str, Any]
"""The values of a trial, by dotted name."""


@dataclass(frozen=True)
class Choices:
    """One of these values.

    Args:
        values: at least two, none twice.
    """

    values: tuple[Any, ...]

    def points(self, name: str) -> tuple[Any, ...]:
        """All of them."""
        return self.values


@dataclass(frozen=True)
class Range:
    """A number between two ends, which belong to it.

    Args:
        low, high: the ends.
        log: whether each doubling is as likely as another.
        step: distance of integers that may be taken.
        count: how many points a grid takes of it, None if it is for no grid.
        whole: whether it is of integers.
    """

    low: float
    high: float
    log: bool = False
    step: int = 1
    count: int | None = None
    whole: bool = False

    def points(self, name: str) -> tuple[Any, ...]:
        """So many points, at equal distances or ratios, both ends among them.

        Raises:
            ValueError: if it is not said how many.

        >>> Range(1, 100, log=True, count=3).points("rate")
        (1.0, 10.0, 100.0)
        """
        if self.count is None:
            raise ValueError(f"{name}: a grid needs to know how many points, as in count = 4")
        shares = [n / (self.count - 1) for n in range(self.count)]
        return tuple(dict.fromkeys(self.at(share) for share in shares))

    def at(self, share: float) -> float | int:
        """The number at a share of the way from low to high.

        >>> Range(32, 128, step=32, whole=True).at(0.4)
        64
        """
        if self.log:
            value = self.low * (self.high / self.low) ** share
        else:
            value = self.low + share * (self.high - self.low)
        if self.whole:
            steps = round((value - self.low) / self.step)
            return int(self.low) + self.step * min(steps, int(self.high - self.low) // self.step)
        value = float(f"{value:.6g}")  # what is shown is what was tried
        return min(max(value, float(self.low)), float(self.high))


Domain = Choices | Range
Space = Mapping[str, Domain]
"""What is varied, by dotted name, in the order to show it in."""


def read(name: str, value: Any, rule: Rule) -> Domain:
    """A domain as TOML gives it.

    Args:
        name: dotted.
        value: a list of values, or a table with low and high.
        rule: what each value must obey.

    Raises:
        TypeError, ValueError: if it is none, or a value breaks the rule.

    >>> read("training.rate", {"low": 0.001, "high": 0.1, "log": True}, lambda name, x: x)
    Range(low=0.001, high=0.1, log=True, step=1, count=None, whole=False)
    """
    if isinstance(value, list):
        values = tuple(_plain(rule(name, None if x == "none" else x)) for x in value)
        if len(values) < 2 or any(x in values[:n] for n, x in enumerate(values)):
            raise ValueError(f"{name} = {value}; expected two or more different values")
        return Choices(values)
    if not isinstance(value, dict):
        raise TypeError(
            f"{name} = {value!r}; expected a list of values or a table as in "
            "{ low = 1e-4, high = 1e-2, log = true }"
        )
    return _range(name, value, rule)


def _plain(value: Any) -> Any:
    """As JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value


def _range(name: str, table: Mapping[str, Any], rule: Rule) -> Range:
    known = ("low", "high", "log", "step", "count")
    for key in table:
        if key not in known:
            raise ValueError(f"{name} has {key!r}; expected {', '.join(known)}")
    for key in ("low", "high"):
        x = table.get(key)
        if isinstance(x, bool) or not isinstance(x, int | float) or not math.isfinite(x):
            raise ValueError(f"{name}: {key} = {x!r}; expected a number")
    low, high = rule(name, table["low"]), rule(name, table["high"])
    if not low < high:
        raise ValueError(f"{name}: low = {low}, high = {high}; expected low < high")
    log = table.get("log", False)
    if not isinstance(log, bool):
        raise TypeError(f"{name}: log = {log!r}; expected true or false")
    if log and low <= 0:
        raise ValueError(f"{name}: low = {low}; expected more than 0 with log")
    whole = _is_whole(rule) or (isinstance(low, int) and isinstance(high, int))
    step, count = table.get("step", 1), table.get("count")
    Whole(1)(f"{name}: step", step)
    if count is not None:
        Whole(2)(f"{name}: count", count)
    if "step" in table and (not whole or log):
        raise ValueError(f"{name}: step is for ranges of integers without log")
    return Range(low, high, log, step, count, whole)


def _is_whole(rule: Rule) -> bool:
    return isinstance(rule.rule if isinstance(rule, Perhaps) else rule, Whole)
