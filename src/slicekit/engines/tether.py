"""What a worker does first: python -P tether.py PARENT, with the process id of who gives orders.

That is a study, or the process of a cluster on its node. The worker's life is tied to its parent's
before anything else, since to import torch takes seconds, in which a study may be killed. On Linux
the system ends the worker with its parent; everywhere, the end of standard input does, which the
parent holds open as long as it lives. That is why this file is run by its path, and imports nothing
of slicekit until then.
"""

import os
import signal
import sys
from queue import Queue
from threading import Thread

PR_SET_PDEATHSIG = 1
"""Linux's prctl: the signal that a process gets when its parent ends."""


def tie_to(parent: int) -> None:
    """Have the system end this process with its parent, where it can."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before that
        os._exit(1)


def listen(orders: Queue[str]) -> None:
    """Pass the lines of standard input on, and end this process with them."""
    for line in sys.stdin:
        orders.put(line)
    os._exit(0)


def main() -> None:
    """Tie this process to its parent, and do the runs it orders."""
    tie_to(int(sys.argv[1]))
    orders: Queue[str] = Queue()
    Thread(target=listen, args=(orders,), daemon=True).start()
    from slicekit.studies.worker import work

    work(orders)


if __name__ == "__main__":
    main()
