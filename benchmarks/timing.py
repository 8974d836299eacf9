"""Times of several contenders, interleaved so that they share whatever else the machine does."""

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch


def keep_freed_memory() -> bool:
    """Tell glibc not to give freed memory back to the system; whether it could be told.

    Otherwise a contender that allocates large tensors at every step may or may not fault in all of
    its pages again, depending on what ran before: the same code was seen to differ sixfold.
    """
    trim_threshold, mmap_threshold = -1, -3
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(trim_threshold, 2**31 - 1) and mallopt(mmap_threshold, 2**30))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use a number of threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def clocked(run: Callable[[], object], clock: Callable[[], float]) -> float:
    """Seconds of one run."""
    start = clock()
    run()
    return clock() - start


def least(
    runs: Mapping[str, Callable[[], object]], rounds: Mapping[str, int], clock: Callable[[], float]
) -> dict[str, float]:
    """Least seconds of each contender, which take turns; each runs in its first rounds only."""
    found = dict.fromkeys(runs, float("inf"))
    for turn in range(max(rounds.values())):
        for name, run in runs.items():
            if turn < rounds[name]:
                found[name] = min(found[name], clocked(run, clock))
    return found


def processor_seconds(
    runs: Mapping[str, Callable[[], object]], rounds: Mapping[str, int]
) -> dict[str, float]:
    """On one thread, the time of the process: it repeats to a few per cent on a shared machine."""
    with threads(1):
        return least(runs, rounds, time.process_time)


def wall_seconds(
    runs: Mapping[str, Callable[[], object]], rounds: Mapping[str, int], count: int = 2
) -> dict[str, float]:
    """On several threads, the time that passes."""
    with threads(count):
        return least(runs, rounds, time.perf_counter)
