"""Layers where there are no numbers to look at, or something else looks on."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, hessian, jacfwd, jvp, vmap
from torch.utils.flop_counter import FlopCounterMode

import slicekit as sk
from slicekit import LogODE, SequenceModel, SLiCE
from slicekit.mixers import Mamba
from tests.market import STRUCTURES, every_structure

FLOWS = {"own": None, "exponential": sk.Exponential(), "windows": LogODE(2, 3)}
CHANNELS = 3


def layer_of(name: str, flow: Any) -> SLiCE:
    try:
        return SLiCE(CHANNELS, STRUCTURES[name], flow=flow)
    except ValueError:
        pytest.skip("not for this structure")


@pytest.mark.filterwarnings("ignore:.*brackets leave this structure")
@pytest.mark.parametrize("flow", FLOWS)
@every_structure
def test_layers_on_meta_give_shapes(name: str, flow: str) -> None:
    layer, x = layer_of(name, FLOWS[flow]), torch.randn(2, 7, CHANNELS)
    expected = layer(x)
    moved, blank = layer.to("meta"), x.to("meta").requires_grad_()
    found, state = moved(blank, return_state=True)
    found.sum().backward()
    assert found.is_meta and found.shape == expected.shape
    assert blank.grad is not None and blank.grad.shape == x.shape
    with torch.no_grad():
        h, _ = moved.step(blank[:, 0], state.detach())
    assert h.is_meta and h.shape == (2, STRUCTURES[name].dim)


@pytest.mark.filterwarnings("ignore:.*brackets leave this structure")
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("name", ["blocks", "diagonal", "dplr"])
def test_fake_tensors_go_through_a_layer(name: str, flow: str) -> None:
    layer, x = layer_of(name, FLOWS[flow]), torch.randn(2, 7, CHANNELS)
    expected = layer(x)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        fake = mode.from_tensor(x)
        for _ in range(2):
            found, state = layer(fake, return_state=True)
            assert found.shape == expected.shape
            layer.step(fake[:, 0], state)
    torch.testing.assert_close(layer(x), expected)


def test_windows_under_vmap_over_parameters_and_plainly_again() -> None:
    layer = SLiCE(CHANNELS, sk.BlockDiagonal(4, 2), flow=LogODE(2, 3))
    x = torch.randn(2, 7, CHANNELS)
    with torch.no_grad():
        before = layer(x)
        several = {n: torch.stack([p, p / 2]) for n, p in layer.named_parameters()}
        found = vmap(lambda p: functional_call(layer, p, (x,)))(several)
        torch.testing.assert_close(found[0], before)
        halves = {n: p[1] for n, p in several.items()}
        torch.testing.assert_close(found[1], functional_call(layer, halves, (x,)))
        torch.testing.assert_close(layer(x), before)


def test_scans_are_counted() -> None:
    """Two for each multiplication of making A(Δω) and applying it; twice as much backwards."""
    layer, x = SLiCE(CHANNELS, sk.Dense(4)), torch.randn(2, 7, CHANNELS)
    with FlopCounterMode(display=False) as counter:
        layer(x).sum().backward()
    counts = {str(name): count for name, count in counter.get_flop_counts()["Global"].items()}
    steps, channels = 2 * 6, CHANNELS + 1
    assert counts["slicekit.scan"] == 2 * steps * (channels * 16 + 16)
    assert counts["slicekit.scan_adjoint"] == 2 * counts["slicekit.scan"]


@pytest.mark.parametrize("given", [lambda: SLiCE(4, sk.Diagonal(4)), lambda: sk.Diagonal(4)])
def test_a_mixer_instead_of_a_function_is_named(given: Any) -> None:
    with pytest.raises(TypeError, match=r"^mixer is a (SLiCE|Diagonal); expected a function from"):
        SequenceModel(vocabulary=3, outputs=2, width=4, mixer=given())


FORWARD_MODE: dict[str, Any] = {
    "jvp": lambda layer, x: jvp(layer, (x,), (x,)),
    "jacfwd": lambda layer, x: jacfwd(layer)(x),
    "hessian": lambda layer, x: hessian(lambda y: layer(y).square().sum())(x),
}


@pytest.mark.parametrize("way", FORWARD_MODE)
def test_forward_mode_gets_advice_that_holds(way: str) -> None:
    x: Tensor = torch.randn(1, 4, CHANNELS)
    layer = SLiCE(CHANNELS, sk.Dense(4))
    with pytest.raises(RuntimeError, match=r"reverse mode only.*use scan=Recurrent\(\)"):
        FORWARD_MODE[way](layer, x)
    layer.scan = sk.Recurrent()
    FORWARD_MODE[way](layer, x)


@pytest.mark.parametrize("kind", ["windows", "mamba"])
def test_other_operators_advise_reverse_mode(kind: str) -> None:
    layer = Mamba(3) if kind == "mamba" else SLiCE(3, sk.Dense(4), flow=LogODE(2, 2))
    with pytest.raises(RuntimeError, match=r"reverse mode only.*torch.func.grad, vjp or jacrev"):
        jvp(layer, (torch.randn(1, 4, 3),), (torch.randn(1, 4, 3),))
