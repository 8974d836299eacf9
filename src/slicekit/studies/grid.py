"""Runs that do not depend on each other, some at a time, which can be stopped and started again.

Every run has its own folder, and is done in a process beside this one. Finished ones are found on
the disk, interrupted ones go on from their checkpoints, and one that fails takes no other with it.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from slicekit.studies.plans import Outcome, Plan
from slicekit.studies.runs import finished
from slicekit.studies.workers import Worker
from slicekit.training import RunFolder

PAUSE = 0.1
"""Seconds between two looks at the processes."""

Wanted = Callable[[Mapping[str, Outcome]], list[Plan]]
"""All plans of a study, given what came of some: one may depend on what came of another."""


@dataclass
class Standing:
    """How a grid stands.

    Args:
        plans: all that are known to be wanted, by name.
        outcomes: what came of those that are finished, by name.
        failures: why others failed, by name.
        steps: how many steps those that are running have made, by name.
        seconds: how long these took.
        running: names of those that are running.
        processes: how many may run at a time.
        written: whether the study's results were written at the end.
    """

    plans: dict[str, Plan] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
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
        done = sum(self.plans[name].settings.steps for name in (*self.outcomes, *self.failures))
        return (done + sum(self.steps.get(name, 0) for name in self.running)) / max(1, total)

    def seconds_left(self) -> float | None:
        """An estimate by the times of the same model's steps, or else of all; None before any."""
        took = [(x.plan, x.seconds, x.steps) for x in self.outcomes.values()]
        took += [
            (self.plans[name], self.seconds.get(name, 0.0), self.steps.get(name, 0))
            for name in self.running
        ]
        paces = [(plan.model, seconds / steps) for plan, seconds, steps in took if steps > 0]
        if not paces:
            return None
        left = 0.0
        for plan in [*self.waiting, *(self.plans[name] for name in self.running)]:
            own = [pace for model, pace in paces if model == plan.model]
            known = own or [pace for _, pace in paces]
            steps = plan.settings.steps - self.steps.get(plan.name, 0)
            left += steps * sum(known) / len(known)
        return left / self.processes


class GridWatcher:
    """Hears of everything that happens in a grid; this one pays no attention."""

    def moved(self, standing: Standing) -> None:
        """Time has passed: steps were made, or runs started or ended."""

    def finished(self, outcome: Outcome, kept: bool) -> None:
        """A run is finished, now or (kept) in an earlier process."""

    def failed(self, name: str, why: str) -> None:
        """A run has failed."""


def run_grid(
    wanted: Wanted,
    folder: Path,
    processes: int = 1,
    watch: GridWatcher | None = None,
    device: str | None = None,
) -> Standing:
    """Do all runs that are wanted, but for those that are finished.

    Args:
        wanted: gives the plans.
        folder: where the folders of the runs are, or will be.
        processes: how many runs at a time; each has one thread.
        watch: is told of everything.
        device: where; None is the CPU.

    Returns:
        How the grid stands at the end: nothing is running or waiting.

    Raises:
        OSError: if a process can't be started.
    """
    standing, watch = Standing(processes=processes), watch or GridWatcher()
    idle: list[Worker] = []
    jobs: dict[str, _Job] = {}
    news = True
    try:
        while True:
            if news:
                _gather(standing, wanted, folder, watch)
            for plan in standing.waiting[: processes - len(jobs)]:
                worker = idle.pop() if idle else Worker()
                jobs[plan.name] = _Job(plan, folder / plan.name, worker, device)
                standing.running.append(plan.name)
            if not jobs:
                return standing
            time.sleep(PAUSE)
            news = False
            for name, job in list(jobs.items()):
                standing.steps[name], standing.seconds[name] = job.progress()
                if job.ended():
                    news = True
                    standing.running.remove(name)
                    _settle(standing, jobs.pop(name), watch)
                    idle += [job.worker] if job.worker.alive() else []
            watch.moved(standing)
    finally:
        for worker in [*idle, *(job.worker for job in jobs.values())]:
            worker.stop()


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


def _settle(standing: Standing, job: "_Job", watch: GridWatcher) -> None:
    """Take note of a run that has ended."""
    fault, outcome = job.fault, None
    if fault is None:
        try:
            outcome = finished(job.plan, job.folder)
        except ValueError as error:
            fault = str(error)
    if outcome is None:
        fault = fault or f"it left no results in {job.folder}"
        _note_failure(standing, job.plan, fault, watch)
    else:
        standing.outcomes[job.plan.name] = outcome
        watch.finished(outcome, kept=False)


def _note_failure(standing: Standing, plan: Plan, why: str, watch: GridWatcher) -> None:
    standing.failures[plan.name] = why
    watch.failed(plan.name, why)


class _Job:
    """A run that a worker is doing."""

    def __init__(self, plan: Plan, folder: Path, worker: Worker, device: str | None) -> None:
        self.plan, self.folder, self.worker = plan, folder, worker
        self._device = device
        self.fault: str | None = None
        self._waiting = Thread(target=self._wait, daemon=True)
        self._waiting.start()

    def _wait(self) -> None:
        self.fault = self.worker.do(self.plan, self.folder, self._device)

    def ended(self) -> bool:
        """Whether the worker has answered, or is no more."""
        return not self._waiting.is_alive()

    def progress(self) -> tuple[int, float]:
        """Steps and seconds on record."""
        record = _last_record(RunFolder(self.folder).metrics)
        return record.get("step", 0), record.get("seconds", 0.0)


def _last_record(path: Path) -> dict[str, Any]:
    """The last whole line of a metrics file, {} if there is none."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 4096))
            whole = file.read().split(b"\n")[:-1]
        found = json.loads(whole[-1]) if whole else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
