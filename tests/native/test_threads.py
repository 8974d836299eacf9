"""Threads: none for little work, and none in a process that was forked and has lost them."""

import os
import subprocess
import sys

import pytest
import torch

import slicekit as sk
from slicekit.native import available, kernel, panels
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
    os._exit(3 if kernel.threads(10**9) == 1 else 4)
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
def test_a_forked_process_computes_on_its_one_thread() -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", FORK]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 3, done.stderr
