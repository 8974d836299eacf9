"""Work that may hang, crash or eat the machine, done in a child that can't hurt.

A child is forked once and does one case after another: each within so many seconds of processor
time and so much memory. If it dies or hangs, that is the outcome of its case, and the next case has
a new child.
"""

import os
import resource
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Self

SECONDS = 2.0
"""Of processor time for a case."""

MEGABYTES = 500
"""More than a child has before, for a case."""

PATIENCE = 300.0
"""Seconds by the clock after which a child that uses no processor time counts as hanging."""

Work = Callable[[Any], str | None]
"""Does a case, and returns what is wrong, if anything."""


@dataclass(frozen=True)
class Outcome:
    """How a case ended.

    Args:
        wrong: what is wrong with it, None if nothing.
        error: what was raised, with its type; "" if nothing was.
    """

    wrong: str | None
    error: str = ""


class Guard:
    """A child that does cases of one kind, used in a `with` statement.

    Args:
        work: what to do with a case.
        clear: whether an error is one that a user may see for this case; by default none is.
        seconds: of processor time for a case.
    """

    def __init__(
        self,
        work: Work,
        clear: Callable[[Any, BaseException], bool] = lambda case, error: False,
        seconds: float = SECONDS,
    ) -> None:
        self.work, self.clear, self.seconds = work, clear, seconds
        self._child = 0
        self._pipe: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *rest: object) -> None:
        self._end()

    def __call__(self, case: Any) -> Outcome:
        """Do a case."""
        if self._pipe is None:
            self._begin()
        assert self._pipe is not None
        try:
            start = time.monotonic(), _processor_time(self._child)
            self._pipe.send(case)
            while not self._pipe.poll(1.0):
                waited = time.monotonic() - start[0]
                worked = _processor_time(self._child) - start[1]
                if worked > 10 * self.seconds or waited > PATIENCE:
                    self._end()
                    return Outcome(f"no answer after {worked:.0f} s of work, {waited:.0f} s in all")
            return self._pipe.recv()
        except (EOFError, OSError):
            return Outcome(f"the process died: {self._end()}")

    def _begin(self) -> None:
        self._pipe, theirs = Pipe()
        self._child = os.fork()
        if self._child == 0:
            self._pipe.close()
            # Nothing of the parent's may run here, neither its handlers nor its exits.
            try:
                self._serve(theirs)
            finally:
                os._exit(0)
        theirs.close()

    def _end(self) -> str:
        """End the child, and say how it ended."""
        if self._pipe is None:
            return ""
        self._pipe.close()
        self._pipe = None
        os.kill(self._child, signal.SIGKILL)
        status = os.waitpid(self._child, 0)[1]
        number = os.waitstatus_to_exitcode(status)
        return signal.Signals(-number).name if number < 0 else f"exit code {number}"

    def _serve(self, pipe: Connection) -> None:
        warnings.simplefilter("ignore")
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 2)
        while True:
            try:
                case = pipe.recv()
            except EOFError:
                return
            pipe.send(self._outcome(case))

    def _outcome(self, case: Any) -> Outcome:
        limit = _in_use() + MEGABYTES * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        start, wrong, shown = time.process_time(), None, ""
        try:
            wrong = self.work(case)
        except BaseException as error:
            shown = f"{type(error).__name__}: {error}"
            if _out_of_memory(error):
                wrong = f"more than {MEGABYTES} MB: {shown[:200]}"
            elif not self.clear(case, error):
                wrong = f"raised {shown[:300]}"
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        taken = time.process_time() - start
        if wrong is None and taken > self.seconds:
            wrong = f"{taken:.1f} s"
        return Outcome(wrong, shown)


def _processor_time(process: int) -> float:
    """Seconds that a process has had of the processors."""
    with open(f"/proc/{process}/stat", encoding="ascii") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _in_use() -> int:
    """Bytes of address space."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _out_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        text = str(error)
        if isinstance(error, MemoryError) or "not enough memory" in text or "allocate" in text:
            return True
        error = error.__cause__ or error.__context__
    return False
