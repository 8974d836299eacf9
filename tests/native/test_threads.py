"""Threads: one for little work, and new ones in a process that was forked and has lost them."""

import os
import subprocess
import sys

import pytest
import torch

import slicekit as sk
from slicekit.native import available, kernel, panels, waiting
from slicekit.structures import Structure

FORK = """
import os, sys, torch
import slicekit as sk
from slicekit.native import kernel
torch.set_num_threads(2)
kernel.WORTHWHILE = 0

def passes(layer, batch, length):
    x = torch.randn(batch, length, 8, requires_grad=True)
    layer(x).sum().backward()
    with torch.no_grad():
        h, state = layer(x.detach(), return_state=True)
        layer.step(x.detach()[:, 0], state)

layers = [sk.SLiCE(8, s) for s in (sk.BlockDiagonal(64, 4), sk.DPLR(64, 2), sk.Sparse(64, 0.1))]
layers.append(sk.SLiCE(8, sk.BlockDiagonal(8, 4), flow=sk.LogODE(2, 4)))
for layer in layers:
    passes(layer, 16, 64)  # with threads
child = os.fork()
if child == 0:
    for layer in layers:
        passes(layer, 2, 8)
    if kernel.threads(10**9) != 1:
        os._exit(4)
    x = torch.randn(4, 64, 8)
    with torch.no_grad():
        alone = [layer(x) for layer in layers]
        torch.get_num_threads = lambda: 3  # for the kernels, not for torch
        shared = [layer(x) for layer in layers]
    os._exit(3 if all(map(torch.allclose, shared, alone)) else 5)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_little_work_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "WORTHWHILE", 2**17)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert (kernel.threads(100), kernel.threads(2**20)) == (1, 2)
    finally:
        torch.set_num_threads(before)


SMALL = [sk.BlockDiagonal(64, 4), sk.Diagonal(64), sk.WalshHadamard(64), sk.DPLR(64, 2)]
SMALL += [sk.Sparse(64, 0.02), sk.Orthogonal(64, 4)]


@pytest.mark.skipif(not available(), reason="no library")
@pytest.mark.parametrize("structure", SMALL, ids=repr)
def test_long_batches_are_shared_and_short_ones_are_not(
    structure: Structure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what all steps of a pass cost, whichever kernel takes them."""
    monkeypatch.setattr(kernel, "WORTHWHILE", 2**23)
    asked: list[int] = []
    for module in (panels, kernel):
        monkeypatch.setattr(module, "threads", lambda work: asked.append(work) or 1)
    layer = sk.SLiCE(8, structure, drive=sk.TimeAndInput(dt=1e-3))
    with torch.no_grad():
        for batch, length in ((1, 16), (32, 1000)):
            layer(torch.randn(batch, length, 8))
    assert min(asked) < kernel.WORTHWHILE < max(asked)


@pytest.mark.skipif(not available() or not hasattr(os, "fork"), reason="no library, or no fork")
def test_a_forked_process_has_one_thread_in_torch_and_kernels_may_have_more() -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", FORK]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 3, done.stderr


@pytest.mark.skipif(not waiting.MAPS.exists(), reason="needs /proc")
@pytest.mark.parametrize("policy", [None, "ACTIVE"])
def test_torch_sleeps_while_it_waits_unless_the_user_chose(policy: str | None) -> None:
    """GNU's OpenMP spins briefly where it has more threads than there are processors."""
    code = """
import os, threading, torch
try:
    import sklearn.utils._openmp_helpers  # has an OpenMP of its own
except ImportError:
    pass
from slicekit.native import kernel
torch.set_num_threads(2)
assert kernel.threads(0) == 1 and threading.active_count() == 1
assert kernel.threads(10**9) == kernel.threads(10**9) == 2
print("libgomp" in open("/proc/self/maps").read(), threading.active_count())
"""
    environment = {k: x for k, x in os.environ.items() if k not in waiting.CHOICES}
    environment |= {"OMP_WAIT_POLICY": policy} if policy else {}
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    has_runtime, count = shown.stdout.split()
    assert count == ("2" if has_runtime == "True" and policy is None else "1")
