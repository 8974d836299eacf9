"""A process that has used slicekit forks: its child computes the same, and does not hang."""

import os
import select
import signal
from collections.abc import Callable

import torch

import slicekit as sk
from tests.attack.runner import Size, Tally

PATIENCE = 120.0
"""Seconds by the clock after which a child counts as hanging: a busy machine takes its time."""


def attack(tally: Tally, size: Size) -> None:
    """Tiny problems with several threads allowed, larger ones with one, as torch itself can."""
    torch.manual_seed(0)
    tiny = (sk.SLiCE(3, sk.BlockDiagonal(8, 4)), torch.randn(2, 10, 3))
    large = (sk.SLiCE(16, sk.BlockDiagonal(64, 4)), torch.randn(16, 64, 16))
    windows = (sk.SLiCE(3, sk.Dense(4), flow=sk.LogODE(depth=2, window=2)), torch.randn(2, 10, 3))
    cases = {"tiny, two threads": (2, tiny), "windows": (1, windows), "large": (1, large)}
    before = torch.get_num_threads()
    for _, _ in size.cases(5):
        for name, (threads, (layer, x)) in cases.items():
            torch.set_num_threads(threads)

            def work(layer: sk.SLiCE = layer, x: torch.Tensor = x) -> bytes:
                given = x.clone().requires_grad_()
                y = layer(given)
                return torch.cat([y.flatten(), _gradient(y, given)]).detach().numpy().tobytes()

            tally.note(name, _same_in_a_child(work, work()))
    torch.set_num_threads(before)


def _gradient(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(y.square().sum(), x)[0].flatten()


def _same_in_a_child(work: Callable[[], bytes], expected: bytes) -> str | None:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(theirs, b"y" if work() == expected else b"n")
        finally:
            os._exit(0)
    os.close(theirs)
    try:
        if not select.select([ours], [], [], PATIENCE)[0]:
            return f"the child hangs after {PATIENCE:g} s"
        answer = os.read(ours, 1)
        return None if answer == b"y" else f"the child says {answer!r}"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ours)
