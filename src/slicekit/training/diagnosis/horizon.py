"""At which length will a model cease to be right? Seen, or foretold from what wears out.

Two things wear out as sequences grow longer, and each is measured as a share x(L) that is 0 at the
shortest length L_0 and about 1 where accuracy falls under 99%:

    margins     x = 1 - q(L) / q(L_0), with q the 1% quantile of the head's margins: at q = 0, just
                99% are right.
    vectors     x = (δ / ½)², with δ the drift: how far states or features have moved since L_0 (in
                root mean square), over the smallest distance between two classes there. At δ = ½
                they have moved half way to the next class. It shows much earlier than in the
                margins. Briefly trained models on A5, Z60, parity, cycle navigation and even pairs
                were lost at drifts between 0.45 and 0.85.

Errors that accumulate step by step make x grow as a power of the steps, x = c (L - L_0)^p, so that
the drift grows as their power p/2: 1/2 if errors are independent of each other, as those of learned
rotations often are, and 1 if they always go the same way. The horizon is where the first of the two
fits reaches 1. For the models above, what the lengths up to half of the true horizon foretold was
between 0.4 and 1.5 times that horizon.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from slicekit.training.diagnosis.geometry import Classes
from slicekit.training.diagnosis.readings import Reading

ENOUGH = 0.99
"""The accuracy below which a model counts as lost."""

CRITICAL = 0.5
"""The drift at which it is expected to be."""

SIGNIFICANT = 3.0
"""How many standard errors are more than chance."""

FARTHEST = 1000
"""A horizon beyond so many times the longest length that was measured is not foretold."""

LEAST = 1e-3
"""Less than that is not worn out, but rounding."""

POWERS = [x / 50 for x in range(10, 201)]
"""What p may be; it is 1 where a single length does not tell."""

MARGINS = "margins"
Worn = dict[int, tuple[float, float]]
"""By length, how much is worn out, and its standard error."""


@dataclass(frozen=True)
class Horizon:
    """How far a model can be trusted.

    Args:
        kind: "untrained" (no better than guessing), "unsolved" (under 99% from the start), "lost"
            (under 99% at a length that was measured), "drifting" (it will be), or "steady".
        longest: the longest length that was measured.
        length: at which accuracy near the end of a sequence falls under 99%; None if unknown.
        sign: what foretells it, "margins", "states" or "features"; None if nothing does.
        exponent: the power of the length with which margins shrink or vectors drift.
    """

    kind: str
    longest: int
    length: int | None = None
    sign: str | None = None
    exponent: float | None = None

    @property
    def text(self) -> str:
        """The same in words."""
        if self.kind == "untrained":
            return "untrained: no better than guessing at the shortest length"
        if self.kind == "unsolved":
            return "unsolved: under 99% right at the shortest length already"
        if self.kind == "lost":
            return f"right up to a length of about {_rounded(self.length)}: 99% is lost there"
        if self.kind == "steady":
            return f"right, and no drift seen up to {self.longest:,}"
        if self.length == self.longest:
            return (
                f"right up to {self.longest:,}, but hardly any further: the {self.sign} have moved "
                "half way to the next class"
            )
        what = "margins shrink" if self.sign == MARGINS else f"{self.sign} drift"
        return (
            f"right up to {self.longest:,}, and by extrapolation to about {_rounded(self.length)}: "
            f"the {what} as length^{self.exponent:.2f}"
        )


def _rounded(length: int | None) -> str:
    """Two digits of it are as much as is known."""
    assert length is not None
    unit = 10 ** max(0, len(str(length)) - 2)
    return f"{round(length / unit) * unit:,}"


def horizon(readings: Sequence[Reading]) -> Horizon:
    """Where a model ceases to be right.

    Args:
        readings: at least one, by rising length.
    """
    first, longest = readings[0], readings[-1].length
    guessing = first.chance + 3 * math.sqrt(first.chance * (1 - first.chance) / first.positions)
    if first.near <= guessing:
        return Horizon("untrained", longest)
    if first.near < ENOUGH:
        return Horizon("unsolved", longest)
    for right, wrong in pairwise(readings):
        if wrong.near < ENOUGH:
            return Horizon("lost", longest, _crossing(right, wrong))
    return _foretold(readings)


def _crossing(right: Reading, wrong: Reading) -> int:
    """Where the 1% quantile of the margins crosses zero, by a line over the logarithm of length."""
    above, below = max(right.low_margin, 0.0), min(wrong.low_margin, 0.0)
    share = above / (above - below) if above > below else 0.5
    return round(right.length * (wrong.length / right.length) ** share)


def _foretold(readings: Sequence[Reading]) -> Horizon:
    start, longest, of = readings[0].length, readings[-1].length, telling(readings[0])
    signs = {MARGINS: _worn_margins(readings)} | ({} if of is None else {of: _moved(readings, of)})
    fits = {sign: _fit(worn, start) for sign, worn in signs.items() if longest in worn}
    lengths = {sign: _reached(power, scale, start) for sign, (power, scale) in fits.items()}
    # Vectors may be past half way and still be right; the margins then know better.
    late = {sign: length for sign, length in lengths.items() if length > longest}
    sign = min(late or lengths, key=lambda name: lengths[name], default=None)
    if sign is None or lengths[sign] > FARTHEST * longest:
        return Horizon("steady", longest)
    exponent = fits[sign][0] if sign == MARGINS else fits[sign][0] / 2
    return Horizon("drifting", longest, max(longest, round(lengths[sign])), sign, exponent)


def telling(reading: Reading) -> str | None:
    """Whether "states" or "features" have the classes better apart; None if there are neither."""
    spreads = {"states": reading.states, "features": reading.features}
    ratios = {name: spread.ratio for name, spread in spreads.items() if spread is not None}
    return min(ratios, key=lambda name: ratios[name]) if ratios else None


def squared_drift(reading: Reading, first: Reading, of: str) -> tuple[float, float] | None:
    """δ² at a reading, at least 0, and its standard error; None if it was not measured."""
    now, before = _lying(reading, of), _lying(first, of)
    if now is None or before is None:
        return None
    return max(0.0, now.moved - before.moved), math.hypot(now.error, before.error)


def _lying(reading: Reading, of: str) -> Classes | None:
    return reading.states if of == "states" else reading.features


def _moved(readings: Sequence[Reading], of: str) -> Worn:
    squares = {x.length: squared_drift(x, readings[0], of) for x in readings[1:]}
    return _significant(
        {
            length: (values[0] / CRITICAL**2, values[1] / CRITICAL**2)
            for length, values in squares.items()
            if values is not None
        }
    )


def _worn_margins(readings: Sequence[Reading]) -> Worn:
    whole, error = readings[0].low_margin, readings[0].margin_error
    if whole <= 0:
        return {}
    return _significant(
        {
            x.length: (1 - x.low_margin / whole, math.hypot(x.margin_error, error) / whole)
            for x in readings[1:]
        }
    )


def _significant(worn: Worn) -> Worn:
    """Without what may be chance."""
    return {
        length: (x, error)
        for length, (x, error) in worn.items()
        if x > max(LEAST, SIGNIFICANT * error)
    }


def _fit(worn: Worn, start: int) -> tuple[float, float]:
    """p and c of x(L) = c (L - L_0)^p, by least squares of log x."""
    fits = []
    for p in POWERS if len(worn) > 1 else [1.0]:
        logs = {n: math.log(x) - p * math.log(n - start) for n, (x, _) in worn.items()}
        # A tenth for what the law leaves out: no length is to outweigh all others.
        weights = {n: 1 / (0.1 + error / x) ** 2 for n, (x, error) in worn.items()}
        total = sum(weights.values())
        mean = sum(weights[n] * x for n, x in logs.items()) / total
        misfit = sum(weights[n] * (x - mean) ** 2 for n, x in logs.items())
        fits.append((misfit, p, math.exp(mean)))
    _, p, scale = min(fits)
    return p, scale


def _reached(p: float, scale: float, start: int) -> float:
    """Where x is 1."""
    return start + scale ** (-1 / p)
