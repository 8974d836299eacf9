"""How many threads a command uses, and how they wait for each other.

Torch's threads, those of OpenMP, spin while they wait. On a machine where something else runs, a
thread that has its turn then burns it on waiting for one that has not: two threads took six times
as long as one. So a command takes one thread unless told otherwise, and its threads sleep while
they wait.
"""

import os

COUNT = "OMP_NUM_THREADS"
WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Read when the library of threads is loaded, so it must be set before torch is imported."""


def wait_asleep() -> None:
    """Have threads sleep while they wait, unless the user has chosen; before torch is imported."""
    for name, value in WAITING.items():
        os.environ.setdefault(name, value)


def use(threads: int | None) -> None:
    """Use so many threads; None is one, or what OMP_NUM_THREADS says."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    elif COUNT not in os.environ:
        torch.set_num_threads(1)
