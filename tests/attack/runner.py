"""What attacks have in common: how much to do, what was found, and the table at the end."""

import os
import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

MOST_SHOWN = 5
"""Failures of an attack that are shown in full."""


def spent() -> float:
    """Seconds of processor time of this process and the children it has waited for.

    By the clock, a busy machine would leave cases out, or take a slow one for one that hangs.
    """
    return sum(os.times()[:4])


@dataclass(frozen=True)
class Size:
    """How much to do.

    Args:
        seed: of everything random.
        share: of the cases of the full form.
        until: when to stop, by `spent`.
    """

    seed: int
    share: float
    until: float

    def cases(self, most: int, least: int = 1) -> Iterator[tuple[int, random.Random]]:
        """So many cases in the full form, each with its number and randomness, while time lasts."""
        for number in range(max(least, round(most * self.share))):
            if number >= least and spent() > self.until:
                return
            yield number, random.Random(f"{self.seed} {number}")


@dataclass
class Tally:
    """What came of an attack.

    Args:
        name: of the attack.
        tried: how many cases.
        refused: how many of them ended in a clear error.
        failures: what went wrong.
        seconds: of processor time that it took.
    """

    name: str
    tried: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def note(self, case: str, wrong: str | None, refused: bool = False) -> None:
        """One more case, and what is wrong with it, if anything."""
        self.tried += 1
        if wrong is not None:
            self.failures.append(f"{case}: {wrong}")
        else:
            self.refused += refused

    def attempt(self, case: str, work: Callable[[], object]) -> None:
        """One more case, which is wrong if it raises."""
        try:
            work()
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            told = " ".join(str(error).split())[:300]
            self.note(case, f"{type(error).__name__} at {place.name}:{place.lineno}: {told}")
        else:
            self.note(case, None)


Attack = Callable[[Tally, Size], None]


def run(name: str, attack: Attack, size: Size) -> Tally:
    """Do an attack; one that fails as a whole is a failure too."""
    tally, start = Tally(name), spent()
    try:
        attack(tally, size)
    except Exception:
        tally.failures.append(f"the attack itself: {traceback.format_exc()}")
    tally.seconds = spent() - start
    return tally


def table(tallies: list[Tally]) -> str:
    """What to print at the end."""
    width = max(len(tally.name) for tally in tallies)
    lines = [f"{'attack':<{width}}  {'tried':>6}  {'refused':>7}  {'failed':>6}  {'seconds':>7}"]
    for x in tallies:
        numbers = f"{x.tried:>6}  {x.refused:>7}  {len(x.failures):>6}  {x.seconds:>7.1f}"
        lines.append(f"{x.name:<{width}}  {numbers}")
    for x in tallies:
        lines += [f"\n{x.name}: {failure}" for failure in x.failures[:MOST_SHOWN]]
        if len(x.failures) > MOST_SHOWN:
            lines.append(f"\n{x.name}: and {len(x.failures) - MOST_SHOWN} more")
    return "\n".join(lines)
