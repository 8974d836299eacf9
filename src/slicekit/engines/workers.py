"""Processes that do runs, one after the other, seen from who gives the orders."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

from slicekit.engines.base import Answer, Job, Order

WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}
"""As in a command: threads, if a run asks for several, sleep while they wait for each other."""


def command() -> list[str]:
    """How to start a worker of this process.

    -P keeps the working directory out of the paths that modules are imported from: a study may be
    done in any folder, whatever files are there.
    """
    tether = Path(__file__).with_name("tether.py")
    return [sys.executable, "-P", str(tether), str(os.getpid())]


class Worker:
    """A process that does runs, with one thread. It ends when its parent does, however that ends.

    On Linux it also ends with the thread that made it.
    """

    def __init__(self) -> None:
        """Start the process."""
        self._process = subprocess.Popen(
            command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**WAITING, **os.environ, "OMP_NUM_THREADS": "1"},
        )

    def do(self, order: Order) -> Answer:
        """Do a run, and wait for its end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        answer = b""
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait()
            how = f"signal {-code}" if code < 0 else f"code {code}"
            return Answer(f"its process ended by {how}", lost=True)
        return Answer(**json.loads(answer))

    def alive(self) -> bool:
        """Whether it can do another run."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the process; a run that it was doing can go on from its last checkpoint."""
        self._process.kill()
        self._process.wait()


class WorkerJob(Job):
    """A run that a worker is doing."""

    def __init__(self, worker: Worker, order: Order) -> None:
        """Give the order, and have a thread wait for the answer."""
        self.worker = worker
        self._answer: Answer | None = None
        Thread(target=self._wait, args=(order,), daemon=True).start()

    def _wait(self, order: Order) -> None:
        self._answer = self.worker.do(order)

    def answer(self) -> Answer | None:
        """How the run has ended, None as long as it goes on."""
        return self._answer
