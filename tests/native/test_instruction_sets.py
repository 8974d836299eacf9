"""Kernels of every instruction set that this processor runs, and how one of them is chosen."""

import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor

import slicekit as sk
from slicekit.native import library, reason
from slicekit.native.library import ISAS
from slicekit.scans import Scan
from slicekit.structures import Structure

LOADED = library()
pytestmark = pytest.mark.skipif(LOADED is None, reason=f"no native library: {reason()}")

STRUCTURES: list[tuple[Structure, sk.flows.Flow | None]] = [
    (sk.Diagonal(35), None),
    (sk.BlockDiagonal(blocks=[1, 2, 3, 4, 5, 8, 9, 16]), None),
    (sk.BlockDiagonal(64, 2), None),
    (sk.BlockDiagonal(72, 4), None),
    (sk.BlockDiagonal(72, 8), None),
    (sk.BlockDiagonal(48, 16), None),
    (sk.BlockDiagonal(60, 20), None),
    (sk.BlockDiagonal(60, 3), sk.Exponential()),
    (sk.BlockDiagonal(20, 5), sk.Exponential()),
    (sk.Orthogonal(40, 4), None),
    (sk.JointDPLR(35, 3), None),
    (sk.WalshHadamard(64), None),
    (sk.WalshHadamard(8), None),
    (sk.DiagonalDense(40, 17), None),
]
CHANNELS = 71
"""Four lane groups of single precision, a few channels in a fifth."""


def named(value: object) -> str | None:
    return str(value) if isinstance(value, Structure) else None


@pytest.mark.usefixtures("every_isa", "poisoned_memory")
@pytest.mark.parametrize("tokens", [False, True], ids=["positions", "tokens"])
@pytest.mark.parametrize(("structure", "flow"), STRUCTURES, ids=named)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_fused_recurrence_is_the_loop(
    dtype: torch.dtype, structure: Structure, flow: sk.flows.Flow | None, tokens: bool
) -> None:
    source = torch.Generator().manual_seed(0)
    parameters = structure.init(CHANNELS, source, increment=0.05)
    rows = torch.randn(9, CHANNELS, generator=source) * 0.05
    index = torch.randint(9, (3, 25), generator=source)
    state = torch.randn(3, structure.dim, generator=source)
    weight = torch.randn(3, 25, structure.dim, generator=source)

    def results(scan: Scan, dtype: torch.dtype) -> list[Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in (rows, state, *parameters.values())]
        table, start, *weights = leaves
        increments = sk.Tabulated(table, index) if tokens else table[index]
        own = dict(zip(parameters, weights, strict=True))
        states, last = sk.solve(structure, own, increments, start, flow=flow, scan=scan)
        loss = (states * weight).sum() + last.sum()
        return [states, *torch.autograd.grad(loss, leaves)]

    found = results(sk.Native(), dtype)
    for x, expected in zip(found, results(sk.Recurrent(), torch.float64), strict=True):
        bound = 2e-5 if dtype == torch.float32 else 1e-12
        assert (x - expected).abs().max() <= bound * expected.abs().max()


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize(("structure", "flow"), STRUCTURES, ids=named)
def test_steps_are_the_whole(structure: Structure, flow: sk.flows.Flow | None) -> None:
    torch.manual_seed(0)
    layer = sk.SLiCE(CHANNELS, structure, flow=flow)
    x = torch.randn(2, 3, CHANNELS)
    with torch.inference_mode():
        whole, state = layer(x), None
        for t in range(3):
            h, state = layer.step(x[:, t], state)
            torch.testing.assert_close(h, whole[:, t], rtol=1e-4, atol=1e-5)


def test_the_best_one_is_taken_and_others_may_be_chosen() -> None:
    assert LOADED is not None
    assert LOADED.isas() and set(LOADED.isas()) <= set(ISAS)
    if "SLICEKIT_ISA" not in os.environ:
        assert LOADED.isa == LOADED.isas()[-1]
    for isa in LOADED.isas():
        code = "from slicekit.native import library; print(library().isa)"
        shown = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"SLICEKIT_ISA": isa},
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout.strip() == isa


def test_one_that_does_not_run_here_is_refused_and_changes_nothing() -> None:
    assert LOADED is not None
    before = LOADED.isa
    with pytest.raises(ValueError, match=f"isa='avx1024'.*choose one of .*{before}"):
        LOADED.use("avx1024")
    assert LOADED.isa == before
