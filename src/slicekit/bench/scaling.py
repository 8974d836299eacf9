"""Time and memory as one size grows: the length, from 1k to 256k steps, and the dim."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache

from slicekit.bench.contenders import CHUNKED, PEER_PARALLEL, RECOMPUTED, obstacle
from slicekit.bench.memory import NotMeasured, Worker
from slicekit.bench.problems import Setting, Shape
from slicekit.bench.races import FLOOR, Entrant, race
from slicekit.bench.timing import Effort, Times

LENGTHS = tuple(1024 * 4**n for n in range(5))
BASE = LENGTHS[1]
DIMS = (32, 64, 128, 256, 512)
STRUCTURE = "block-diagonal-4"
RIVALS = (CHUNKED, PEER_PARALLEL)
LEAST_BUDGET = 0.6
"""Seconds for the turns of a contender, also in a quick run: a curve of few runs is ragged."""
FEWEST_TURNS = 3
"""Turns of each contender: where it allocates more than anyone before it, the first ones touch
pages that nobody had yet, which takes half as long again on some machines and is not growth."""


@dataclass(frozen=True)
class Curve:
    """How a contender grows.

    Attributes:
        processor: seconds on one thread for each size.
        wall: seconds on two.
        memory: peak bytes beyond the operands, on one thread.
    """

    processor: dict[int, float] = field(default_factory=dict)
    wall: dict[int, float] = field(default_factory=dict)
    memory: dict[int, int] = field(default_factory=dict)

    def add(self, size: int, entrant: str, times: Times) -> None:
        """Note what was measured at a size."""
        self.processor[size] = times.processor[entrant]
        if entrant in times.wall:
            self.wall[size] = times.wall[entrant]


Curves = dict[str, Curve]


def of_length(length: int) -> Setting:
    """Two sequences of a length, at dim 64."""
    return Setting(STRUCTURE, Shape(2, length, 64))


def of_dim(dim: int) -> Setting:
    """Four sequences of 256 steps, at a dim."""
    return Setting(STRUCTURE, Shape(4, 256, dim))


@cache
def over_length(effort: Effort, worker: Worker) -> Curves:
    """Curves over `LENGTHS`, measured once: the targets and the plots share them."""
    return _curves(LENGTHS, of_length, effort, worker)


@cache
def over_dim(effort: Effort, worker: Worker) -> Curves:
    """Curves over `DIMS`, in a quick run over every other one."""
    return _curves(DIMS[::2] if effort.quick else DIMS, of_dim, effort, worker)


def _curves(
    sizes: tuple[int, ...], setting: Callable[[int], Setting], effort: Effort, worker: Worker
) -> Curves:
    """Race the native scan, its rivals and the floor at each size.

    A rival that took more than half of the effort's limit leaves before the next size; where
    the chunked scan has left, the native one is timed without being checked again.
    """
    effort = replace(effort, budget=max(effort.budget, LEAST_BUDGET), fewest=FEWEST_TURNS)
    rivals = (CHUNKED,) if effort.quick else RIVALS
    curves: Curves = {name: Curve() for name in (FLOOR, RECOMPUTED, *rivals)}
    left = {name for name in (RECOMPUTED, *rivals) if obstacle(name, setting(sizes[0]))}
    for size in sizes:
        entrants = [Entrant(setting(size), name) for name in curves if name not in left]
        names = [x.contender for x in entrants if x.contender != FLOOR]
        times = race(entrants, effort, CHUNKED if CHUNKED in names else next(iter(names), CHUNKED))
        for entrant in entrants:
            curve = curves[entrant.contender]
            curve.add(size, str(entrant), times)
            if entrant.contender != FLOOR:
                _weigh(curve, size, entrant, worker)
        left |= {x for x in rivals if curves[x].processor.get(size, 0) > effort.limit / 2}
    return {name: curve for name, curve in curves.items() if curve.processor}


def _weigh(curve: Curve, size: int, entrant: Entrant, worker: Worker) -> None:
    with suppress(NotMeasured):
        curve.memory[size] = worker.peak(entrant.setting, entrant.contender, threads=1)
