"""How many threads a kernel may use.

A process that was forked has none of the threads with which its parent computed, and OpenMP waits
for them for ever, in torch's own products as in our kernels. So once a kernel has run, processes
that are forked from this one get one thread in torch and in the kernels. Start processes by
`spawn` or `forkserver` where they should use several.
"""

import os

import torch

WORTHWHILE = 2**23
"""Multiplications below which a second thread costs more than it gains.

They take some tenths of a millisecond. On a machine where nothing else runs a thread is there after
some microseconds, and little is lost by not asking it; on a busy one it has its turn after some
milliseconds, and those who wait for it have theirs taken away meanwhile.
"""

_used = _forked = False


def _keep_to_one() -> None:
    global _forked
    if _used:
        _forked = True
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_to_one)


def threads(work: int) -> int:
    """As many as torch uses; one for work of few multiplications, or after a fork."""
    global _used
    _used = True
    return 1 if _forked or work < WORTHWHILE else torch.get_num_threads()
