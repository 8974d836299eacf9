"""Runs on this machine, each in a process beside this one."""

from pathlib import Path

from slicekit.engines.base import Engine, Order, check_number
from slicekit.engines.workers import Worker, WorkerJob


class Local(Engine):
    """Processes of this machine, with one thread each.

    A process that dies is a failure of its run: what killed it here would do so again.

    Args:
        at_once: how many.
    """

    shared, tries = False, 1

    def __init__(self, at_once: int = 1) -> None:
        """Start nothing yet."""
        check_number("at_once", at_once, 1)
        self.at_once = at_once
        self._jobs: list[WorkerJob] = []
        self._idle: list[Worker] = []

    def open(self, folder: Path) -> None:
        """Nothing is needed."""

    def start(self, order: Order) -> WorkerJob:
        """Have a worker do it that has nothing to do, or else a new one."""
        ended = [job for job in self._jobs if job.answer() is not None]
        self._idle += [job.worker for job in ended if job.worker.alive()]
        self._jobs = [job for job in self._jobs if job not in ended]
        job = WorkerJob(self._idle.pop() if self._idle else Worker(), order)
        self._jobs.append(job)
        return job

    def close(self) -> None:
        """End all processes."""
        for worker in [*self._idle, *(job.worker for job in self._jobs)]:
            worker.stop()
        self._idle, self._jobs = [], []
