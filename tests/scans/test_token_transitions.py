"""Tokens of structures without a kernel run by the kernels of their transitions."""

import pytest
import torch
from torch import Tensor

import slicekit as sk
from slicekit.flows import Flow
from slicekit.native import available, reason
from slicekit.scans.native.assignment import why_not
from slicekit.scans.native.tokens import with_kernel
from slicekit.scans.sources import FromTable
from tests.market import CHANNELS, NO_KERNEL, STRUCTURES, make_parameters

pytestmark = pytest.mark.skipif(not available(), reason=f"no native library: {reason()}")


def _source(name: str, flow: Flow, rows: int = 4, positions: int = 10) -> FromTable:
    structure = STRUCTURES[name]
    table = torch.randn(rows, CHANNELS).double()
    index = torch.randint(0, rows, (2, positions))
    return FromTable(structure, flow, make_parameters(structure), table, index)


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("name", NO_KERNEL)
def test_values_and_gradients_are_those_of_the_loop(name: str, projective: bool) -> None:
    structure = STRUCTURES[name]
    assert not why_not(with_kernel(_source(name, sk.Euler())), False)
    parameters = {k: x.requires_grad_() for k, x in make_parameters(structure).items()}
    table = torch.randn(4, CHANNELS).double().requires_grad_()
    state = torch.randn(3, structure.dim).double().requires_grad_()
    leaves = [*parameters.values(), table, state]
    tokens = sk.Tabulated(table, torch.randint(-1, 4, (3, 9)))

    def run(scan: sk.Recurrent | None) -> list[Tensor]:
        start = sk.Projective.of(state) if projective else state
        h, _ = sk.solve(structure, parameters, tokens, start, None, scan, lengths=[9, 4, 0])
        loss = (h.direction if isinstance(h, sk.Projective) else h).sin().sum()
        return [loss.detach(), *torch.autograd.grad(loss, leaves)]

    torch.testing.assert_close(run(None), run(sk.Recurrent()), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    "source",
    [
        _source("blocks", sk.Euler()),
        _source("householder", sk.Exponential()),
        _source("circulant", sk.Euler(), rows=40),
    ],
    ids=["has a kernel", "acts on the state", "more tokens than positions"],
)
def test_others_stay_as_they_are(source: FromTable) -> None:
    assert with_kernel(source) is source
