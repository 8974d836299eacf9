"""Processes that do runs, one after the other, seen from the study."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from slicekit.studies.plans import Plan

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
    """A process that does runs, with one thread. It ends when the study does, however that ends."""

    def __init__(self) -> None:
        """Start the process."""
        self._process = subprocess.Popen(
            command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**WAITING, **os.environ, "OMP_NUM_THREADS": "1"},
        )

    def do(self, plan: Plan, folder: Path, device: str | None = None) -> str | None:
        """Do a run, and wait for its end.

        Args:
            plan: what to do.
            folder: of the run.
            device: where; None is the CPU.

        Returns:
            Why it failed, None if it did not.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        order = json.dumps({"plan": plan.as_dict(), "folder": str(folder), "device": device})
        answer = b""
        with suppress(BrokenPipeError):
            self._process.stdin.write(order.encode() + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait()
            return f"its process ended by {f'signal {-code}' if code < 0 else f'code {code}'}"
        return json.loads(answer)["fault"]

    def alive(self) -> bool:
        """Whether it can do another run."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the process; a run that it was doing can go on from its last checkpoint."""
        self._process.kill()
        self._process.wait()
