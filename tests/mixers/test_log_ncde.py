"""Log-NCDEs: brackets against Jacobians, linear fields against SLiCE under LogODE."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import jacrev, vmap

from slicekit import Dense, SequenceModel, SLiCE
from slicekit.flows import Exponential, LogODE
from slicekit.layers.drives import Differences
from slicekit.layers.pooling import Last
from slicekit.mixers.fields import IDENTITY, Field
from slicekit.mixers.log_ncde import LogNCDE
from slicekit.mixers.solvers import Adaptive, FixedStep, Heun, RungeKutta4
from slicekit.paths import hall, log_signatures

CHANNELS, DIM, HIDDEN, WINDOW, LENGTH = 3, 5, 7, 4, 11


def make(log_depth: int = 2, **settings) -> LogNCDE:
    torch.manual_seed(0)
    mixer = LogNCDE(CHANNELS, DIM, WINDOW, log_depth, HIDDEN, 2, **settings).double()
    with torch.no_grad():
        for p in mixer.parameters():
            p.normal_(std=0.4)
    return mixer


def rows(mixer: LogNCDE, h: Tensor) -> Tensor:
    """f_1, ..., f_channels at one h (dim,), from torch's own modules: (channels, dim)."""
    first, second, last = mixer.field.maps
    value = nn.functional.silu(second(nn.functional.silu(first(h))))
    return torch.tanh(last(value)).view(CHANNELS, DIM)


def log_ode_slope(mixer: LogNCDE, h: Tensor, signature: Tensor) -> Tensor:
    """Σ λ_i f_i + Σ_{i<j} λ_ij [f_i, f_j] with all Jacobians and all pairs, for one h."""
    f = rows(mixer, h)
    jacobians = jacrev(lambda h: rows(mixer, h))(h)
    total = signature[:CHANNELS] @ f
    if mixer.log_depth == 1:
        return total
    pairs = [(i, j) for i in range(CHANNELS) for j in range(i + 1, CHANNELS)]
    for (i, j), coefficient in zip(pairs, signature[CHANNELS:].unbind(), strict=True):
        total = total + coefficient * (jacobians[j] @ f[i] - jacobians[i] @ f[j])
    return total


def solved_by_torchdiffeq(mixer: LogNCDE, x: Tensor, **settings) -> Tensor:
    peer = pytest.importorskip(
        "torchdiffeq", reason="torchdiffeq is a peer; PEERS=1 make test installs it"
    )
    signatures = log_signatures(x.diff(dim=1), hall(CHANNELS, mixer.log_depth), WINDOW)
    h = mixer.initial(x[:, 0])
    states = [h]
    times = torch.tensor([0.0, 1.0], dtype=x.dtype)
    for signature in signatures.unbind(1):

        def slope(s: Tensor, h: Tensor, signature: Tensor = signature) -> Tensor:
            return vmap(lambda h, own: log_ode_slope(mixer, h, own))(h, signature)

        h = peer.odeint(slope, h, times, **settings)[-1]
        states.append(h)
    return torch.stack(states, 1)


def assert_same_with_gradients(mixer: LogNCDE, x: Tensor, expected: Tensor, to: float) -> None:
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


@pytest.mark.parametrize("log_depth", [1, 2])
def test_brackets_are_those_of_the_jacobians(log_depth: int) -> None:
    mixer = make(log_depth, solver=FixedStep(Heun(), 2))
    x = torch.randn(2, LENGTH, CHANNELS, dtype=torch.float64, requires_grad=True)
    expected = solved_by_torchdiffeq(mixer, x, method="heun2", options={"step_size": 0.5})
    assert_same_with_gradients(mixer, x, expected, 1e-10)


def test_adaptive_steps_solve_the_equation() -> None:
    mixer = make(solver=Adaptive(1e-9, 1e-11))
    x = 0.5 * torch.randn(2, 6, CHANNELS, dtype=torch.float64)
    x.requires_grad_()
    expected = solved_by_torchdiffeq(mixer, x, method="dopri5", rtol=1e-9, atol=1e-11)
    assert_same_with_gradients(mixer, x, expected, 1e-6)


@pytest.mark.parametrize("log_depth", [1, 2])
def test_with_a_linear_field_it_is_slice_under_log_ode(log_depth: int) -> None:
    """The signs of brackets and areas agree: f_i(h) = A^i h gives the layer's own generators."""
    torch.manual_seed(0)
    flow = LogODE(log_depth, WINDOW, Exponential())
    layer = SLiCE(CHANNELS, Dense(DIM), drive=Differences(), flow=flow).double()
    solver = FixedStep(RungeKutta4(), steps=64)
    mixer = LogNCDE(CHANNELS, DIM, WINDOW, log_depth, solver=solver).double()
    mixer.field = Field(DIM, CHANNELS, 1, [IDENTITY]).double()
    one_hot = torch.eye(CHANNELS, dtype=torch.float64).unsqueeze(0)
    matrices = layer.structure.combine(layer.A(), one_hot).as_dense()[0]
    start = layer.start()
    with torch.no_grad():
        only = mixer.field.maps[0]
        only.weight.copy_(matrices.reshape(CHANNELS * DIM, DIM))  # type: ignore[operator]
        only.bias.zero_()  # type: ignore[operator]
        mixer.initial.weight.copy_(start["weight"])
        mixer.initial.bias.copy_(start["bias"])
    x = 0.3 * torch.randn(2, LENGTH, CHANNELS, dtype=torch.float64)
    y, expected = mixer(x.requires_grad_()), layer(x)
    torch.testing.assert_close(y, expected, rtol=1e-7, atol=1e-7)
    weight = torch.randn_like(y)
    torch.testing.assert_close(
        torch.autograd.grad(y, x, weight),
        torch.autograd.grad(expected, x, weight),
        rtol=1e-7,
        atol=1e-7,
    )


def test_depth_two_beats_depth_one_on_a_path_with_area() -> None:
    """Against the same equation with windows of one increment, which are straight lines."""
    solver = FixedStep(RungeKutta4(), 8)
    deep, flat = make(2, solver=solver), make(1, solver=solver)
    fine = LogNCDE(CHANNELS, DIM, 1, 1, HIDDEN, 2, solver).double()
    fine.load_state_dict(deep.state_dict())
    x = 0.3 * torch.randn(2, 41, CHANNELS, dtype=torch.float64).cumsum(1)
    exact = fine(x)[:, -1]
    assert (deep(x)[:, -1] - exact).norm() < 0.5 * (flat(x)[:, -1] - exact).norm()


def test_the_penalty_is_the_papers() -> None:
    mixer = make()
    expected = 0.0
    for linear in mixer.field.maps:
        weight, bias = linear.weight, linear.bias
        norms = [row.square().sum().sqrt() for row in weight]  # type: ignore[union-attr]
        expected = expected + sum(norms) / len(norms) + bias.square().sum().sqrt()  # type: ignore[operator]
    torch.testing.assert_close(mixer.regularisation(), expected)
    model = SequenceModel(
        channels=CHANNELS, outputs=2, width=DIM, embed=False, blocks=[mixer], pool=Last()
    )
    torch.testing.assert_close(model.regularisation(), expected)
    model.regularisation().backward()
    assert all(p.grad is not None for p in mixer.field.parameters())


def test_the_field_starts_a_thousand_times_smaller() -> None:
    torch.manual_seed(0)
    small = LogNCDE(CHANNELS, DIM, WINDOW, hidden=HIDDEN)
    torch.manual_seed(0)
    large = LogNCDE(CHANNELS, DIM, WINDOW, hidden=HIDDEN, scale=1.0)
    pairs = zip(small.field.parameters(), large.field.parameters(), strict=True)
    for a, b in pairs:
        torch.testing.assert_close(1000 * a, b)
    assert torch.equal(small.initial.weight, large.initial.weight)
