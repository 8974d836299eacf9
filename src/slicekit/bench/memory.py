"""Peak memory of forward and backward, each measured in a process of its own.

A worker imports torch and slicekit once, computes nothing, and forks for every measurement. The
fork warms up, allocates the problem, notes the resident memory, sets the kernel's record of its
peak back to that (by /proc/self/clear_refs), runs forward and backward once, and reports by how
much the peak (VmHWM) lies above. States, gradients and whatever is needed in between count; the
increments, the parameters and the gradient of the states were there before. Freed tensors go back
to the system at once, so that nothing freed hides in the difference. Linux only.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, NoReturn

import torch

from slicekit import native
from slicekit.bench.contenders import enter
from slicekit.bench.problems import Problem, Setting, Shape
from slicekit.bench.races import warm_up
from slicekit.bench.timing import MMAP_THRESHOLD, tell_malloc
from slicekit.machines import CLEAR, status

MEBI = 2**20


def allowance(problem: Problem, threads: int) -> float:
    """Bytes that recomputing may take: 1.25 (states + increments) + (2 + threads) parameters
    + 1 MiB a thread."""
    setting = problem.setting
    numbers = setting.steps * (setting.shape.dim + setting.channels)
    parameters = sum(x.numel() * x.element_size() for x in problem.parameters.values())
    element = problem.table.element_size()
    return 1.25 * numbers * element + (2 + threads) * parameters + threads * MEBI


class NotMeasured(RuntimeError):
    """Why the memory of something is not known."""


class Worker:
    """A process that measures; see `memory_worker`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Speak to a process that runs this module."""
        self._process = process

    def peak(self, setting: Setting, contender: str, threads: int) -> int:
        """Bytes that a contender needs at most, beyond its operands.

        Raises:
            NotMeasured: saying why.
        """
        assert setting.flow is None, "flows do not travel between processes"
        assert self._process.stdin is not None and self._process.stdout is not None
        request = {"setting": asdict(setting), "contender": contender, "threads": threads}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '"the process ended"')
        if isinstance(answer, str):
            raise NotMeasured(answer)
        return answer


@contextmanager
def memory_worker() -> Iterator[Worker]:
    """A worker, as long as it is needed."""
    # The pool of threads that numpy would start does not survive a fork.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    # -P: modules in the working directory are none of ours.
    command = [sys.executable, "-P", "-m", "slicekit.bench.memory"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        try:
            yield Worker(process)
        finally:
            process.kill()


def measure(request: dict[str, Any]) -> int:
    """Peak bytes beyond the operands, in this process."""
    tell_malloc(MMAP_THRESHOLD, 2**16)
    torch.set_num_threads(request["threads"])
    described = request["setting"] | {"shape": Shape(**request["setting"]["shape"])}
    setting, name = Setting(**described), request["contender"]
    warm_up(setting, [name])
    contender = enter(name, Problem.of(setting))
    CLEAR.write_text("5")
    before = status("VmRSS")
    results = contender.run()
    after = status("VmHWM")
    del results  # held until here
    return max(0, after - before)


def serve() -> None:
    """Answer requests, one a line, until there are no more."""
    native.available()  # loads the library, once for all forks
    for line in sys.stdin:
        if not CLEAR.exists():
            print(json.dumps("Linux only"), flush=True)
            continue
        child = os.fork()
        if child == 0:
            _answer(line)
        _, status = os.waitpid(child, 0)
        if status:
            print(json.dumps(f"the process ended with status {status}"), flush=True)


def _answer(line: str) -> NoReturn:
    """Measure what a line asks for, and end this process."""
    try:
        answer: int | str = measure(json.loads(line))
    except BaseException as error:
        answer = f"{type(error).__name__}: {error}"
    print(json.dumps(answer), flush=True)
    os._exit(0)


if __name__ == "__main__":
    serve()
