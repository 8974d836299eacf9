"""Neural CDEs against torchcde, in value and gradient."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from slicekit import SequenceModel
from slicekit.layers.pooling import Last
from slicekit.mixers.controls import Control, CubicHermite, Linear
from slicekit.mixers.fields import SILU, TANH
from slicekit.mixers.ncde import NCDE
from slicekit.mixers.solvers import Adaptive, FixedStep, ForwardEuler, Heun, Solver
from tests.mixers.market_continuous import ADAPTIVE

CHANNELS, DIM, HIDDEN, LENGTH = 3, 5, 7, 9


class PeerField(nn.Module):
    """f of the same weights, as torchcde wants it: (batch, dim, channels)."""

    def __init__(self, mixer: NCDE) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for linear in mixer.field.maps:
            layers += [linear, nn.SiLU() if SILU in mixer.field.activations else nn.ReLU()]
        self.net = nn.Sequential(*layers[:-1], nn.Tanh())

    def forward(self, t: Tensor, h: Tensor) -> Tensor:
        return self.net(h).view(-1, CHANNELS, DIM).mT


def make(control: Control, solver: Solver) -> NCDE:
    torch.manual_seed(0)
    mixer = NCDE(CHANNELS, DIM, HIDDEN, 2, control, solver).double()
    with torch.no_grad():
        for p in mixer.parameters():
            p.normal_(std=0.5)
    return mixer


def make_smooth(control: Control, solver: Solver) -> NCDE:
    """With SiLU: kinks of a ReLU field would limit the order of any method."""
    mixer = make(control, solver)
    mixer.field.activations = (SILU, SILU, TANH)
    return mixer


def solved_by_torchcde(mixer: NCDE, x: Tensor, **settings: Any) -> Tensor:
    torchcde = pytest.importorskip(
        "torchcde", reason="torchcde is a peer; PEERS=1 make test installs it"
    )
    if isinstance(mixer.control, Linear):
        path = torchcde.LinearInterpolation(torchcde.linear_interpolation_coeffs(x))
    else:
        path = torchcde.CubicSpline(
            torchcde.hermite_cubic_coefficients_with_backward_differences(x)
        )
    start = mixer.initial(x[:, 0])
    times = torch.arange(x.shape[1], dtype=x.dtype)
    return torchcde.cdeint(
        path, PeerField(mixer), start, times, adjoint=False, backend="torchdiffeq", **settings
    )


def assert_same_with_gradients(mixer: NCDE, x: Tensor, found: Tensor, expected: Tensor, to: float):
    torch.testing.assert_close(found, expected, rtol=to, atol=to)
    inputs = [x, *mixer.parameters()]
    weight = torch.randn_like(found)
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs, weight),
        torch.autograd.grad(expected, inputs, weight),
        rtol=to,
        atol=to,
    )


@pytest.mark.parametrize("control", [Linear(), CubicHermite()])
@pytest.mark.parametrize(("method", "name"), [(ForwardEuler(), "euler"), (Heun(), "heun2")])
@pytest.mark.parametrize("steps", [1, 4])
def test_fixed_steps_are_those_of_torchcde(
    control: Control, method: Any, name: str, steps: int
) -> None:
    mixer = make(control, FixedStep(method, steps))
    x = torch.randn(2, LENGTH, CHANNELS, dtype=torch.float64, requires_grad=True)
    options = {"step_size": 1 / steps, "perturb": True}  # left and right derivatives at kinks
    expected = solved_by_torchcde(mixer, x, method=name, options=options)
    assert_same_with_gradients(mixer, x, mixer(x), expected, 1e-11)


@pytest.mark.parametrize("control", [Linear(), CubicHermite()])
def test_adaptive_steps_solve_the_equation(control: Control) -> None:
    mixer = make_smooth(control, Adaptive(rtol=1e-9, atol=1e-11))
    x = torch.randn(2, 5, CHANNELS, dtype=torch.float64, requires_grad=True)
    kinks = torch.arange(1, 4, dtype=torch.float64)
    expected = solved_by_torchcde(
        mixer, x, method="dopri5", rtol=1e-9, atol=1e-11, options={"jump_t": kinks}
    )
    assert_same_with_gradients(mixer, x, mixer(x), expected, 1e-6)


def test_the_first_output_is_a_linear_map_of_the_first_observation() -> None:
    mixer = make(CubicHermite(), FixedStep())
    x = torch.randn(2, LENGTH, CHANNELS, dtype=torch.float64)
    torch.testing.assert_close(mixer(x)[:, 0], mixer.initial(x[:, 0]))


def test_a_constant_path_moves_nothing() -> None:
    for solver in (FixedStep(), Adaptive()):
        mixer = make(CubicHermite(), solver)
        x = torch.ones(2, LENGTH, CHANNELS, dtype=torch.float64)
        y = mixer(x)
        assert torch.equal(y, y[:, :1].expand_as(y))


def test_sequences_may_start_late() -> None:
    """An empty first part, or one element, in a batch where others have begun."""
    for solver in (FixedStep(Heun(), 2), Adaptive()):
        mixer = make(CubicHermite(), solver)
        x = torch.randn(3, LENGTH, CHANNELS, dtype=torch.float64)
        _, state = mixer(x[:, :4], lengths=[0, 1, 4], return_state=True)
        y = mixer(x[:, 4:], state)
        for b, begun in enumerate([0, 1, 4]):
            alone = mixer(torch.cat([x[b : b + 1, :begun], x[b : b + 1, 4:]], 1))
            torch.testing.assert_close(y[b], alone[0, begun:])


def test_adaptive_results_do_not_depend_on_the_batch() -> None:
    mixer = make_smooth(CubicHermite(), Adaptive())
    sizes = torch.tensor([0.01, 1.0, 5.0], dtype=torch.float64)[:, None, None]
    x = sizes * torch.randn(3, LENGTH, CHANNELS, dtype=torch.float64)
    together = mixer(x)
    for b in range(3):
        torch.testing.assert_close(mixer(x[b : b + 1])[0], together[b], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_parts_and_steps_with_adaptive_steps_are_the_whole(name: str) -> None:
    """The step size is carried from one part to the next."""
    torch.manual_seed(0)
    mixer = ADAPTIVE[name]().double()
    x = torch.randn(2, 7, mixer.channels, dtype=torch.float64, requires_grad=True)
    whole = mixer(x)
    inputs, weight = [x, *mixer.parameters()], torch.randn_like(whole)
    expected = torch.autograd.grad(whole, inputs, weight)
    for cuts in ([3, 4], [1] * 7):
        outputs, state = [], None
        for part in x.split(cuts, 1):
            y, state = mixer(part, state, return_state=True)
            outputs.append(y)
        y = torch.cat(outputs, 1)
        torch.testing.assert_close(y, whole, rtol=1e-8, atol=1e-9)
        found = torch.autograd.grad(y, inputs, weight)
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_padding_changes_nothing_with_adaptive_steps(name: str) -> None:
    torch.manual_seed(0)
    mixer = ADAPTIVE[name]().double()
    x = torch.randn(3, 6, mixer.channels, dtype=torch.float64)
    lengths = [6, 3, 1]
    padded = x.clone()
    for b, n in enumerate(lengths):
        padded[b, n:] = torch.nan
    y, state = mixer(padded.requires_grad_(), lengths=lengths, return_state=True)
    more = mixer(x, state)
    for b, n in enumerate(lengths):
        alone, own = mixer(x[b : b + 1, :n], return_state=True)
        torch.testing.assert_close(y[b : b + 1, :n], alone, rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(more[b : b + 1], mixer(x[b : b + 1], own), rtol=1e-8, atol=1e-9)
    (found,) = torch.autograd.grad(more.sum(), padded)
    assert found.isfinite().all() and all((found[b, n:] == 0).all() for b, n in enumerate(lengths))


def test_a_model_reads_out_the_last_state() -> None:
    mixer = NCDE(CHANNELS, DIM, HIDDEN, 2)
    model = SequenceModel(
        channels=CHANNELS, outputs=2, width=DIM, embed=False, blocks=[mixer], pool=Last()
    )
    x = torch.randn(3, LENGTH, CHANNELS)
    whole = model(x, lengths=[LENGTH, 4, 1])
    torch.testing.assert_close(whole[1:2], model(x[1:2, :4]))
    _, state = model(x[:, :4], return_state=True)
    torch.testing.assert_close(model(x[:, 4:], state), model(x))
