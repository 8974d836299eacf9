"""Contenders that are checked against each other, then timed in turns."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from slicekit.bench.contenders import (
    CHUNKED,
    PEERS,
    RECURRENT,
    Contender,
    enter,
    obstacle,
    relative_error,
)
from slicekit.bench.floors import floor
from slicekit.bench.problems import Problem, Setting
from slicekit.bench.timing import Effort, Times, clocked, threads, time_in_turns

FLOOR = "floor"
TOLERANCE = 1e-3
SLOW = (RECURRENT, *PEERS)
"""Whom a quick run times on one thread only: thousands of small operators wait for each other."""


@dataclass(frozen=True)
class Entrant:
    """A contender in a setting; `FLOOR` is one as well."""

    setting: Setting
    contender: str

    def __str__(self) -> str:
        flow = "" if self.setting.flow is None else f" {type(self.setting.flow).__name__}"
        return f"{self.contender}: {self.setting.structure}{flow} at {self.setting.shape}"

    @property
    def obstacle(self) -> str:
        """Why it can't run here; empty if it can."""
        return "" if self.contender == FLOOR else obstacle(self.contender, self.setting)


@dataclass(frozen=True)
class Checked:
    """Contenders of one setting, each run once on one thread.

    Attributes:
        contenders: by name.
        seconds: of processor time.
        errors: relative to the reference.
    """

    contenders: dict[str, Contender]
    seconds: dict[str, float]
    errors: dict[str, float]


def check(setting: Setting, names: Sequence[str], reference: str = CHUNKED) -> Checked:
    """Run contenders once and compare them with a reference, which is run first.

    Args:
        setting: what to run.
        names: of the contenders.
        reference: whom to compare with, one of them or not.

    Raises:
        ArithmeticError: if a contender's states or gradients are not those of the reference.
    """
    warm_up(setting, names)
    problem = Problem.of(setting)
    checked = Checked({}, {}, {})
    expected = {}
    with threads(1):
        for name in dict.fromkeys((reference, *names)):
            contender = enter(name, problem)
            start = time.process_time()
            results = contender.run()
            checked.seconds[name] = time.process_time() - start
            common = contender.common(results)
            expected = expected or common
            checked.contenders[name] = contender
            checked.errors[name] = relative_error(common, expected)
    wrong = {name: error for name, error in checked.errors.items() if not error < TOLERANCE}
    if wrong:
        raise ArithmeticError(
            f"{setting.structure} at {setting.shape}, relative to {reference}: {wrong}"
        )
    return checked


def warm_up(setting: Setting, names: Iterable[str]) -> None:
    """Two steps of every contender, so that no first use of anything is timed."""
    shape = type(setting.shape)(1, 2, setting.shape.dim)
    problem = Problem.of(Setting(setting.structure, shape, setting.inputs, setting.flow))
    for name in names:
        enter(name, problem).run()


def race(entrants: Iterable[Entrant], effort: Effort, reference: str = CHUNKED) -> Times:
    """Check and time entrants, by their names as strings.

    Those that can't run are left out, and so is the slower mode of torch-slices.
    """
    able = [entrant for entrant in dict.fromkeys(entrants) if not entrant.obstacle]
    runs: dict[str, Callable[[], object]] = {}
    seconds: dict[str, float] = {}
    for setting in dict.fromkeys(entrant.setting for entrant in able):
        names = [entrant.contender for entrant in able if entrant.setting == setting]
        checked = check(setting, [name for name in names if name != FLOOR], reference)
        if FLOOR in names:
            runs[str(Entrant(setting, FLOOR))] = floor(setting)
        for name in without_slower_peer(names, checked.seconds, effort):
            entrant = str(Entrant(setting, name))
            runs[entrant] = checked.contenders[name].run
            seconds[entrant] = checked.seconds[name]
    for entrant in runs.keys() - seconds.keys():
        with threads(1):
            seconds[entrant] = clocked(runs[entrant], time.process_time)
    slow = {str(entrant) for entrant in able if entrant.contender in SLOW} if effort.quick else ()
    return time_in_turns(runs, effort, seconds, alone=slow)


def without_slower_peer(
    names: Iterable[str], seconds: Mapping[str, float], effort: Effort
) -> list[str]:
    """The contenders of a check, but for a mode of torch-slices that it saw to be slower."""
    fastest = min((seconds[name] for name in PEERS if name in seconds), default=0)
    return [
        name
        for name in names
        if name in seconds and not (name in PEERS and seconds[name] > effort.doubt * fastest)
    ]
