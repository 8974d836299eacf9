"""Runs that do not depend on each other, some at a time, which can be stopped and started again.

Every run has its own folder, and is done wherever an engine does it. Finished ones are found on the
disk, interrupted ones go on from their checkpoints, and one that fails takes no other with it. One
whose process or node was lost goes on elsewhere, as long as it comes further each time.
"""

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

from slicekit.engines import Answer, Engine, Local, Order
from slicekit.studies.budgets import Budget
from slicekit.studies.one_run import finished
from slicekit.studies.plans import Outcome, Plan
from slicekit.training import RunFolder

PAUSE = 0.1
"""Seconds between two looks at the runs."""

ATTENTION = 20.0
"""Seconds in which a file that another machine wrote should be seen here."""

LEASE = 120.0
"""Seconds to wait for a lock of a node that is no more; file servers hold them a while longer."""

Wanted = Callable[[Mapping[str, Outcome]], list[Plan]]
"""All plans of a study, given what came of some: one may depend on what came of another."""


@dataclass
class Standing:
    """How a grid stands.

    Args:
        plans: all that are known to be wanted, by name.
        outcomes: what came of those that are finished, by name.
        failures: why others failed, by name.
        steps: how many steps those that are running, or were begun before, have made, by name.
        seconds: how long these took.
        running: names of those that are running; at the end, of those that were stopped.
        done_now: how many of the outcomes came of this process.
        processes: how many may run at a time.
        written: whether the study's results were written at the end.
    """

    plans: dict[str, Plan] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    done_now: int = 0
    processes: int = 1
    written: bool = False

    @property
    def waiting(self) -> list[Plan]:
        """Those that nothing was done about yet."""
        known = self.outcomes.keys() | self.failures.keys() | set(self.running)
        return [plan for name, plan in self.plans.items() if name not in known]

    def share(self) -> float:
        """The share of all steps that were made."""
        total = sum(plan.settings.steps for plan in self.plans.values())
        ended = (*self.outcomes, *self.failures)
        done = sum(self.plans[name].settings.steps for name in ended)
        done += sum(steps for name, steps in self.steps.items() if name not in ended)
        return done / max(1, total)

    def note(self, name: str, steps: int, seconds: float) -> None:
        """Take down how far a run has come."""
        if steps > 0:
            self.steps[name], self.seconds[name] = steps, seconds

    @property
    def unfinished(self) -> list[Plan]:
        """Those that are left to do, of which some may have begun."""
        return [*(self.plans[name] for name in self.running), *self.waiting]

    def expected(self, plan: Plan) -> float | None:
        """Seconds that a run has still to take, by those of its model and task that made steps.

        Where there are none, by those of its model, or else by the middle one of all; None before
        any. A run that ended early tells that others will.
        """
        took = [(x.plan, x.seconds, x.plan.settings.steps) for x in self.outcomes.values()]
        took += [
            (self.plans[name], self.seconds.get(name, 0.0), steps)
            for name, steps in self.steps.items()
            if name not in self.outcomes
        ]
        paces = [(x, s / steps) for x, s, steps in took if steps > 0 and math.isfinite(s)]
        if not paces:
            return None
        of_model = [(x, pace) for x, pace in paces if x.model == plan.model]
        of_task = [pace for x, pace in of_model if x.task == plan.task]
        pace = mean(of_task or [pace for _, pace in of_model] or [median(x for _, x in paces)])
        return pace * max(0, plan.settings.steps - self.steps.get(plan.name, 0))

    def seconds_left(self) -> float | None:
        """How long all that is left will take; None before any step was made."""
        expected = [self.expected(plan) for plan in self.unfinished]
        if None in expected:
            return None
        left = sum(x for x in expected if x is not None)
        return left / max(1, min(self.processes, len(expected)))


class GridWatcher:
    """Hears of everything that happens in a grid; this one pays no attention."""

    def moved(self, standing: Standing) -> None:
        """Time has passed: steps were made, or runs started or ended."""

    def finished(self, outcome: Outcome, kept: bool) -> None:
        """A run is finished, now or (kept) in an earlier process."""

    def failed(self, name: str, why: str) -> None:
        """A run has failed."""

    def restarted(self, name: str, why: str) -> None:
        """A run was lost with its process or node, and goes on elsewhere."""


def run_grid(
    wanted: Wanted,
    folder: Path,
    engine: Engine | None = None,
    watch: GridWatcher | None = None,
    device: str | None = None,
    seen: Path | None = None,
    budget: Budget | None = None,
    settled: Callable[[Standing], None] | None = None,
) -> Standing:
    """Do all runs that are wanted, but for those that are finished.

    At the end of the budget, runs that go on are left where they are: they go on from their last
    checkpoints when the grid is run again, once the engine has ended them.

    Args:
        wanted: gives the plans.
        folder: where the folders of the runs are, or will be.
        engine: where they are done, ready to take orders; None is one process of this machine.
        watch: is told of everything.
        device: of the machine that does a run; None is the CPU.
        seen: a file that stays as it is meanwhile, by which other machines tell whether they see
            the same folders.
        budget: how long it may take; runs that would likely pass its end are not begun.
        settled: is called whenever a run has come to an end.

    Returns:
        How the grid stands at the end: nothing is running or waiting, unless the budget was short.

    Raises:
        OSError: if a process can't be started.
        Unreachable: if the engine's cluster is no more.
    """
    if engine is None:
        with Local().opened(folder) as local:
            return run_grid(wanted, folder, local, watch, device, None, budget, settled)
    standing, watch = Standing(processes=engine.at_once), watch or GridWatcher()
    budget = budget or Budget()
    common: Order = {"device": device}
    if engine.shared and seen is not None:
        common |= {"patience": LEASE}
        common |= {"seen": {"path": str(seen.resolve()), "content": seen.read_text()}}
    jobs: dict[str, _Run] = {}
    news = True
    while True:
        if news:
            _gather(standing, wanted, folder, watch)
            for plan in standing.waiting:
                if len(jobs) < engine.at_once and budget.allows(standing.expected(plan)):
                    jobs[plan.name] = _Run(plan, folder / plan.name, engine, common)
                    standing.running.append(plan.name)
        if not jobs or budget.over:
            return standing
        time.sleep(PAUSE)
        news = False
        for name, run in list(jobs.items()):
            standing.note(name, *_progress(run.folder))
            answer = run.answer()
            if answer is None:
                continue
            if answer.lost and run.again():
                watch.restarted(name, answer.fault or "")
                continue
            news = True
            standing.running.remove(name)
            _settle(standing, jobs.pop(name), answer, watch)
        watch.moved(standing)
        if news and settled is not None:
            settled(standing)


def _gather(standing: Standing, wanted: Wanted, folder: Path, watch: GridWatcher) -> None:
    """Ask what is wanted until all of it that is on the disk is known."""
    while True:
        fresh = [plan for plan in wanted(standing.outcomes) if plan.name not in standing.plans]
        if not fresh:
            return
        for plan in fresh:
            standing.plans[plan.name] = plan
            try:
                outcome = finished(plan, folder / plan.name)
            except ValueError as error:
                _note_failure(standing, plan, str(error), watch)
                continue
            if outcome is not None:
                standing.outcomes[plan.name] = outcome
                watch.finished(outcome, kept=True)
            else:
                standing.note(plan.name, *_progress(folder / plan.name))


def _settle(standing: Standing, run: "_Run", answer: Answer, watch: GridWatcher) -> None:
    """Take note of a run that has ended."""
    fault, outcome = answer.fault, None
    if fault is None:
        try:
            outcome = run.outcome()
        except ValueError as error:
            fault = str(error)
    if outcome is None:
        fault = fault or f"it left no results in {run.folder}"
        _note_failure(standing, run.plan, fault, watch)
    else:
        standing.outcomes[run.plan.name] = outcome
        standing.done_now += 1
        watch.finished(outcome, kept=False)


def _note_failure(standing: Standing, plan: Plan, why: str, watch: GridWatcher) -> None:
    standing.failures[plan.name] = why
    watch.failed(plan.name, why)


class _Run:
    """A run that an engine is doing."""

    def __init__(self, plan: Plan, folder: Path, engine: Engine, common: Order) -> None:
        self.plan, self.folder, self._engine = plan, folder, engine
        self._order = common | {"plan": plan.as_dict(), "folder": str(folder.resolve())}
        self._losses, self._reached = 0, self._checkpoint()
        self._job = engine.start(self._order)

    def answer(self) -> Answer | None:
        """How it has ended, None as long as it goes on."""
        return self._job.answer()

    def again(self) -> bool:
        """Start it again where it was lost, unless that happens again and again in one place."""
        reached = self._checkpoint()
        self._losses = 1 if reached != self._reached else self._losses + 1
        self._reached = reached
        if self._losses >= self._engine.tries:
            return False
        self._job = self._engine.start(self._order)
        return True

    def outcome(self) -> Outcome | None:
        """What came of it; what another machine has written may take a while to be seen."""
        end = time.monotonic() + (ATTENTION if self._engine.shared else 0)
        while (outcome := finished(self.plan, self.folder)) is None and time.monotonic() < end:
            time.sleep(PAUSE)
        return outcome

    def _checkpoint(self) -> str | None:
        """The last one's name, by which to tell whether the run has come further."""
        last = RunFolder(self.folder).last_checkpoint()
        return None if last is None else last.name


def _progress(folder: Path) -> tuple[int, float]:
    """Steps and seconds on record of a run."""
    record = _last_record(RunFolder(folder).metrics)
    return record.get("step", 0), record.get("seconds", 0.0)


def _last_record(path: Path) -> dict[str, Any]:
    """The last whole line of a metrics file, {} if there is none."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 4096))
            whole = file.read().split(b"\n")[:-1]
        record = json.loads(whole[-1]) if whole else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}
