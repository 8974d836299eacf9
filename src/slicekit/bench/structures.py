"""Every structure at every shape: slicekit's scans and torch-slices over the floor."""

from contextlib import suppress
from dataclasses import dataclass

from slicekit.bench.contenders import (
    CHUNKED,
    KEPT,
    PEERS,
    RECOMPUTED,
    RECURRENT,
    TOKENS,
    obstacle,
)
from slicekit.bench.floors import floor
from slicekit.bench.memory import NotMeasured, Worker
from slicekit.bench.problems import FIRST, SHAPES, Setting, Shape
from slicekit.bench.races import FLOOR, SLOW, check, without_slower_peer
from slicekit.bench.timing import Effort, Times, time_in_turns

NAMES = (KEPT, RECOMPUTED, CHUNKED, RECURRENT, *PEERS, TOKENS)
WEIGHED = (KEPT, RECOMPUTED, CHUNKED, *PEERS)
"""Whose memory is measured; a loop that is taped step by step takes too long."""


@dataclass(frozen=True)
class Row:
    """One structure at one shape.

    Attributes:
        setting: which.
        times: of the floor and of each contender that was timed.
        errors: relative error of each contender against `Recurrent`.
        skipped: contenders that were not timed, and the seconds that their check took.
        absent: contenders that can't run, and why.
        memory: peak bytes beyond the operands, on one thread.
    """

    setting: Setting
    times: Times
    errors: dict[str, float]
    skipped: dict[str, float]
    absent: dict[str, str]
    memory: dict[str, int]

    def over_floor(self, name: str) -> float:
        """Processor time over the floor's; of a skipped contender, that of its check."""
        taken = self.times.processor.get(name) or self.skipped[name]
        return taken / self.times.processor[FLOOR]

    def peer(self) -> str | None:
        """The faster mode of torch-slices that was run, if any."""
        known = [name for name in PEERS if name in self.errors]
        return min(known, key=self.over_floor, default=None)


def shapes(effort: Effort) -> tuple[Shape, ...]:
    """The shapes that are measured unless others are asked for."""
    return (FIRST,) if effort.quick else SHAPES


def measure(structure: str, shape: Shape, effort: Effort, worker: Worker) -> Row:
    """Check all contenders once, then time them, and weigh them.

    Raises:
        ArithmeticError: if a contender's states or gradients are not those of `Recurrent`.
    """
    setting = Setting(structure, shape)
    setting = Setting(structure, setting.case.fitted(shape))
    absent = {name: why for name in NAMES if (why := obstacle(name, setting))}
    able = [name for name in NAMES if name not in absent]
    checked = check(setting, able, reference=RECURRENT)
    timed = without_slower_peer(able, checked.seconds, effort)
    timed = [name for name in timed if checked.seconds[name] <= effort.limit]
    runs = {FLOOR: floor(setting)} | {name: checked.contenders[name].run for name in timed}
    times = time_in_turns(runs, effort, checked.seconds, alone=SLOW if effort.quick else ())
    skipped = {name: checked.seconds[name] for name in able if name not in timed}
    row = Row(setting, times, checked.errors, skipped, absent, {})
    for name in WEIGHED:
        if _worth(name, row):
            with suppress(NotMeasured):
                row.memory[name] = worker.peak(setting, name, threads=1)
    return row


def _worth(name: str, row: Row) -> bool:
    """Whether to weigh a contender: of torch-slices, the mode that is shown."""
    return name == row.peer() if name in PEERS else name not in row.absent
