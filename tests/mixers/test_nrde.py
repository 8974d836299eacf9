"""Neural RDEs against torchdiffeq, window by window, in value and gradient."""

import pytest
import torch
from torch import Tensor, nn

from slicekit.mixers.nrde import NRDE
from slicekit.mixers.solvers import Adaptive, FixedStep, Heun
from slicekit.paths import hall, log_signatures

CHANNELS, DIM, HIDDEN, WINDOW, LENGTH = 3, 5, 7, 4, 11


def make(log_depth: int = 2, depth: int = 3, window: int = WINDOW, **settings) -> NRDE:
    torch.manual_seed(0)
    mixer = NRDE(CHANNELS, DIM, window, log_depth, HIDDEN, depth, **settings).double()
    with torch.no_grad():
        for p in mixer.parameters():
            p.normal_(std=0.5)
    return mixer


def peer_field(mixer: NRDE) -> nn.Sequential:
    """ReLU after all but the last two linear maps, tanh after the last but one."""
    linear = list(mixer.field.maps)
    layers: list[nn.Module] = []
    for one in linear[:-2]:
        layers += [one, nn.ReLU()]
    return nn.Sequential(*layers, linear[-2], nn.Tanh(), linear[-1])


def solved_by_torchdiffeq(mixer: NRDE, x: Tensor, **settings) -> Tensor:
    peer = pytest.importorskip(
        "torchdiffeq", reason="torchdiffeq is a peer; PEERS=1 make test installs it"
    )
    field = peer_field(mixer)
    signatures = log_signatures(x.diff(dim=1), hall(CHANNELS, mixer.log_depth), mixer.window)
    h = mixer.initial(x[:, 0])
    states = [h]
    times = torch.tensor([0.0, 1.0], dtype=x.dtype)
    for signature in signatures.unbind(1):

        def slope(s: Tensor, h: Tensor, signature: Tensor = signature) -> Tensor:
            rows = field(h).view(-1, signature.shape[-1], DIM)
            return torch.einsum("bi,bij->bj", signature, rows)

        h = peer.odeint(slope, h, times, **settings)[-1]
        states.append(h)
    return torch.stack(states, 1)


def assert_same_with_gradients(mixer: NRDE, x: Tensor, expected: Tensor, to: float) -> None:
    found = mixer(x)
    torch.testing.assert_close(found, expected, rtol=to, atol=to)
    weight = torch.randn_like(found)
    inputs = [x, *mixer.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs, weight),
        torch.autograd.grad(expected, inputs, weight),
        rtol=to,
        atol=to,
    )


@pytest.mark.parametrize("log_depth", [1, 2, 3])
@pytest.mark.parametrize("depth", [1, 3])
def test_fixed_steps_are_those_of_torchdiffeq(log_depth: int, depth: int) -> None:
    mixer = make(log_depth, depth, solver=FixedStep(Heun(), 2))
    x = torch.randn(2, LENGTH, CHANNELS, dtype=torch.float64, requires_grad=True)
    expected = solved_by_torchdiffeq(mixer, x, method="heun2", options={"step_size": 0.5})
    assert_same_with_gradients(mixer, x, expected, 1e-10)


def test_adaptive_steps_solve_the_equation() -> None:
    """With one hidden layer the field is smooth."""
    mixer = make(depth=1, solver=Adaptive(1e-9, 1e-11))
    x = 0.5 * torch.randn(2, LENGTH, CHANNELS, dtype=torch.float64)
    x.requires_grad_()
    expected = solved_by_torchdiffeq(mixer, x, method="dopri5", rtol=1e-9, atol=1e-11)
    assert_same_with_gradients(mixer, x, expected, 1e-6)


def test_windows_of_one_have_an_output_for_every_element() -> None:
    mixer = make(log_depth=1, window=1)
    x = torch.randn(2, LENGTH, CHANNELS, dtype=torch.float64, requires_grad=True)
    assert not mixer.windowed
    expected = solved_by_torchdiffeq(mixer, x, method="heun2")
    assert_same_with_gradients(mixer, x, expected, 1e-10)
