"""The operators compute the same whatever surrounds the call."""

from contextlib import nullcontext

import pytest
import torch
from torch.autograd.forward_ad import dual_level
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import slicekit as sk
from slicekit.dispatch import surrounded, vjp
from slicekit.structures import DiagonalTransition


class Passing(TorchDispatchMode):
    """A dispatch mode that changes nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


MODES = [lambda: FlopCounterMode(display=False), Passing]


@pytest.mark.parametrize("mode", MODES, ids=["flop counter", "passing"])
@pytest.mark.parametrize("flow", [None, sk.Exponential()], ids=["natural", "exponential"])
@pytest.mark.parametrize(
    "structure",
    [
        sk.BlockDiagonal(8, 4),
        sk.WalshHadamard(8),
        sk.Sparse(8, density=0.3),
        sk.Orthogonal(8, 4),
        sk.DPLR(8, 2),
    ],
    ids=lambda structure: type(structure).__name__,
)
def test_values_and_gradients_are_the_same_under_a_dispatch_mode(structure, flow, mode):
    parameters = {
        name: x.requires_grad_() if x.is_floating_point() else x
        for name, x in structure.init(3).items()
    }
    trained = [x for x in parameters.values() if x.is_floating_point()]
    steps, start = torch.randn(2, 7, 3) / 4, torch.randn(2, 8)
    found = []
    for surroundings in (nullcontext(), mode()):
        with surroundings:
            h, _ = sk.solve(structure, parameters, steps, start, flow)
            found.append((h, *torch.autograd.grad(h.sin().sum(), trained)))
    for plain, moded in zip(*found, strict=True):
        torch.testing.assert_close(moded, plain)


def test_complex_conjugates_survive_a_dispatch_mode():
    values = torch.randn(2, 9, 4, dtype=torch.complex128, requires_grad=True)
    start = torch.randn(2, 4, dtype=torch.complex128)
    found = []
    for surroundings in (nullcontext(), Passing()):
        with surroundings:
            h, _ = sk.propagate(DiagonalTransition(values), start, scan=sk.Chunked())
            found.append(torch.autograd.grad(h.abs().sum(), values)[0])
    torch.testing.assert_close(found[1], found[0])


def test_inference_mode_runs_every_kind_of_flow():
    for structure in (sk.Dense(4), sk.Orthogonal(4, 2), sk.WalshHadamard(4)):
        layer = sk.SLiCE(3, structure, flow=sk.Exponential())
        x = torch.randn(2, 5, 3)
        with torch.inference_mode():
            h = layer(x)
        torch.testing.assert_close(h.clone(), layer(x).detach())


def test_vjp_is_that_of_autograd_and_zero_for_what_does_not_matter():
    x, y = torch.randn(3, requires_grad=True), torch.randn(3)
    values, pull = vjp(lambda a, b: (a.sin(), torch.ones(2)), x.detach(), y)
    cotangent = torch.randn(3)
    in_x, in_y = pull((cotangent, torch.ones(2)))
    torch.testing.assert_close(values[0], x.sin().detach())
    torch.testing.assert_close(in_x, torch.autograd.grad(x.sin(), x, cotangent)[0])
    assert not in_y.any()


@pytest.mark.filterwarnings("ignore:`torch.jit.trace`")
def test_who_must_see_every_operation_is_noticed():
    seen = []

    def look(x):
        seen.append(surrounded())
        return 2 * x

    x = torch.zeros(2)
    torch.func.vmap(look)(x)
    torch.jit.trace(look, (x,), check_trace=False)
    for surroundings in (Passing(), dual_level()):
        with surroundings, torch.no_grad():
            look(x)
    assert seen == [True] * 4 and not surrounded()
