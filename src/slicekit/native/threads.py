"""How many threads a kernel may use.

A process that was forked has none of the threads with which its parent computed, and OpenMP waits
for them for ever, in torch's own products as in our kernels. So once a kernel has run, processes
that are forked from this one get one thread in torch and in the kernels. Start processes by
`spawn` or `forkserver` where they should use several.
"""

import os

import torch

WORTHWHILE = 2**17
"""Multiplications below which a second thread costs more than it gains."""

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
