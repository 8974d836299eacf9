"""Times of several runs, interleaved so that they share whatever else the machine does."""

import ctypes
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

Runs = Mapping[str, Callable[[], object]]


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Attributes:
        rounds: most turns of a contender on one thread.
        wall_rounds: the same on two threads.
        budget: seconds that the turns of a contender may take.
        limit: seconds a run above which a contender of the table of structures has no turn.
        doubt: of two modes of a library, one that took so many times longer once is not timed.
        quick: whether lines that take long are left out.
        fewest: turns of each kind that a contender has at least, also beyond its budget.
    """

    rounds: int
    wall_rounds: int
    budget: float
    limit: float
    doubt: float = 1.5
    quick: bool = False
    fewest: int = 1

    def turns(self, most: int, seconds: float) -> int:
        """How often a run of so many seconds is timed, at most so often."""
        if seconds * most <= self.budget:
            return most
        return max(self.fewest, round(self.budget / seconds))


FULL = Effort(rounds=9, wall_rounds=5, budget=8.0, limit=20.0)
QUICK = Effort(rounds=3, wall_rounds=1, budget=0.5, limit=0.15, doubt=1.0, quick=True)
QUICK_TABLE = replace(QUICK, rounds=1, budget=0.1)
"""For the table of structures, which has many figures and no verdicts."""


@dataclass(frozen=True)
class Times:
    """Least seconds of each contender.

    Attributes:
        processor: on one thread, the time of the process: it repeats to a few per cent on a shared
            machine.
        wall: on two threads, the time that passes; not of all contenders in a quick run.
    """

    processor: dict[str, float]
    wall: dict[str, float]

    def ratio(self, over: str, under: str) -> tuple[float, float | None]:
        """Processor time of one contender over another's, and the same of wall time if known."""
        wall = self.wall[over] / self.wall[under] if {over, under} <= self.wall.keys() else None
        return self.processor[over] / self.processor[under], wall


def time_in_turns(
    runs: Runs, effort: Effort, seconds: Mapping[str, float], alone: Collection[str] = ()
) -> Times:
    """Time contenders in turns.

    Args:
        runs: what to time, by name.
        effort: how often.
        seconds: what one run of each takes; one that is not listed is fast.
        alone: those to time on one thread only.
    """
    single = {name: effort.turns(effort.rounds, seconds.get(name, 0)) for name in runs}
    both = {name: run for name, run in runs.items() if name not in alone}
    double = {name: effort.turns(effort.wall_rounds, seconds.get(name, 0)) for name in both}
    with threads(1):
        processor = least(runs, single, time.process_time)
    with threads(2):
        wall = least(both, double, time.perf_counter)
    return Times(processor, wall)


def least(runs: Runs, rounds: Mapping[str, int], clock: Callable[[], float]) -> dict[str, float]:
    """Least seconds of each contender, which take turns; each runs in its first rounds only."""
    shortest = dict.fromkeys(runs, float("inf"))
    for turn in range(max(rounds.values(), default=0)):
        for name, run in runs.items():
            if turn < rounds[name]:
                shortest[name] = min(shortest[name], clocked(run, clock))
    return shortest


def clocked(run: Callable[[], object], clock: Callable[[], float]) -> float:
    """Seconds of one run."""
    start = clock()
    run()
    return clock() - start


def repeated(run: Callable[[], object], count: int) -> Callable[[], None]:
    """A run so short that it is timed several times over."""

    def run_all() -> None:
        for _ in range(count):
            run()

    return run_all


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use a number of threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Options of glibc's mallopt."""


def keep_freed_memory() -> bool:
    """Tell glibc not to give freed memory back to the system; whether it could be told.

    Otherwise a contender that allocates large tensors at every step may or may not fault in all of
    its pages again, depending on what ran before: the same code was seen to differ sixfold.
    """
    return tell_malloc(TRIM_THRESHOLD, 2**31 - 1) and tell_malloc(MMAP_THRESHOLD, 2**30)


def tell_malloc(option: int, value: int) -> bool:
    """Set an option of glibc's allocator; whether there is one."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(option, value))
