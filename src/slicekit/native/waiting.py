"""Torch's threads sleep soon while they wait, as those of the kernels do.

After each of torch's products and sums its threads, those of GNU's OpenMP, look for more work for
some milliseconds. Where nothing else runs, they keep a kernel's threads from the processor
meanwhile; on a busy machine, torch itself waits for those that have no turn. By its manual
(GOMP_SPINCOUNT) that library looks 100 times only, some microseconds, where it has more threads
than there are processors. So it gets as many as that takes, one where torch uses all processors,
and they sleep for ever; this is done when a kernel first uses several threads.
Who sets OMP_WAIT_POLICY or GOMP_SPINCOUNT has chosen, and nothing is done.
"""

import ctypes
import os
import threading
from functools import lru_cache
from pathlib import Path

import torch

CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
MAPS = Path("/proc/self/maps")


@lru_cache(maxsize=1)
def sleep_soon() -> None:
    """Have torch's threads sleep soon while they wait."""
    runtime = None if any(name in os.environ for name in CHOICES) else _runtime()
    if runtime is None:
        return
    made = threading.Event()
    beyond_torch = len(os.sched_getaffinity(0)) - torch.get_num_threads() + 1
    keep = (runtime, max(1, beyond_torch) + 1, made)
    threading.Thread(target=_keep, args=keep, name="slicekit-idle", daemon=True).start()
    made.wait()


_nothing = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)


def _keep(runtime: ctypes.CDLL, count: int, made: threading.Event) -> None:
    """Be a thread with OpenMP threads of its own, which stay while it does."""
    runtime.GOMP_parallel(_nothing, None, ctypes.c_uint(count), ctypes.c_uint(0))
    made.set()
    threading.Event().wait()


def _runtime() -> ctypes.CDLL | None:
    """GNU's OpenMP as torch has loaded it: its own, or the system's. Others ship theirs too."""
    if not MAPS.exists():
        return None
    files = {line.split()[-1] for line in MAPS.read_text().splitlines() if "libgomp" in line}
    home = str(Path(torch.__file__).parent)
    torchs = {x for x in files if x.startswith(home)} or {x for x in files if ".libs/" not in x}
    return ctypes.CDLL(torchs.pop()) if len(torchs) == 1 else None
