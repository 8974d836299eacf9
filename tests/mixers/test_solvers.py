"""Solvers against torchdiffeq and exact solutions, in value and gradient."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit.mixers.solvers import Adaptive, FixedStep, ForwardEuler, Heun, RungeKutta4, Solver

REASON = "torchdiffeq is a peer; PEERS=1 make test installs it"
METHODS = [(ForwardEuler(), 1), (Heun(), 2), (RungeKutta4(), 4)]


class Rotating(torch.nn.Module):
    """A smooth field with parameters, f(s, h) = tanh(W h + s b)."""

    def __init__(self, dim: int = 3, size: float = 1.0) -> None:
        super().__init__()
        source = torch.Generator().manual_seed(0)
        draw = torch.randn(dim, dim + 1, generator=source, dtype=torch.float64)
        self.weight = torch.nn.Parameter(size * draw)

    def forward(self, s: float | Tensor, h: Tensor) -> Tensor:
        return torch.tanh(h @ self.weight[:, :-1].mT + s * self.weight[:, -1])


def crossed(solver: Solver, field: Any, h: Tensor) -> Tensor:
    return solver.integrate(field, h, torch.ones_like(h[:, 0]))[0]


def assert_same_with_gradients(
    found: Tensor, expected: Tensor, inputs: list[Tensor], tolerance: float
) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    weight = torch.randn_like(found)
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs, weight),
        torch.autograd.grad(expected, inputs, weight),
        rtol=tolerance,
        atol=tolerance,
    )


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(("method", "name"), [(ForwardEuler(), "euler"), (Heun(), "heun2")])
def test_fixed_steps_are_those_of_torchdiffeq(method: Any, name: str, steps: int) -> None:
    peer = pytest.importorskip("torchdiffeq", reason=REASON)
    field = Rotating()
    h = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    found = crossed(FixedStep(method, steps), field, h)
    times = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    expected = peer.odeint(field, h, times, method=name)[-1]
    assert_same_with_gradients(found, expected, [h, field.weight], 1e-12)


def test_runge_kutta_is_the_classical_method() -> None:
    field = Rotating()
    h = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    k1 = field(0.0, h)
    k2 = field(0.5, h + k1 / 2)
    k3 = field(0.5, h + k2 / 2)
    k4 = field(1.0, h + k3)
    expected = h + (k1 + 2 * k2 + 2 * k3 + k4) / 6
    found = crossed(FixedStep(RungeKutta4()), field, h)
    assert_same_with_gradients(found, expected, [h, field.weight], 1e-12)


@pytest.mark.parametrize(("method", "order"), METHODS)
def test_the_error_falls_with_the_order_of_the_method(method: Any, order: int) -> None:
    h = torch.ones(1, 1, dtype=torch.float64)

    def error(steps: int) -> float:
        found = crossed(FixedStep(method, steps), lambda s, h: h * (1 + s), h)
        return abs(found.item() - math.exp(1.5))

    assert math.log2(error(16) / error(32)) == pytest.approx(order, abs=0.15)


@pytest.mark.parametrize("method", [method for method, _ in METHODS])
def test_fractions_are_where_slopes_are_asked_for(method: Any) -> None:
    asked = []
    solver = FixedStep(method, steps=3)
    crossed(solver, lambda s, h: asked.append(s) or h, torch.ones(1, 1))
    assert set(asked) == set(solver.fractions)


def test_adaptive_steps_agree_with_dopri5_at_tight_tolerance() -> None:
    peer = pytest.importorskip("torchdiffeq", reason=REASON)
    field = Rotating(size=3.0)
    h = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    found = crossed(Adaptive(rtol=1e-9, atol=1e-11), field, h)
    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    expected = peer.odeint(field, h, times, rtol=1e-10, atol=1e-12, method="dopri5")[-1]
    assert_same_with_gradients(found, expected, [h, field.weight], 1e-7)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
def test_the_error_follows_the_tolerance(tolerance: float) -> None:
    solver = Adaptive(rtol=tolerance, atol=tolerance)
    h = torch.ones(1, 1, dtype=torch.float64)
    found = crossed(solver, lambda s, h: 5 * h * torch.cos(10 * s), h)
    assert abs(found.item() - math.exp(math.sin(10) / 2)) < 10 * tolerance


def test_smaller_tolerances_take_more_steps() -> None:
    field = Rotating(size=3.0)

    def evaluations(tolerance: float) -> int:
        asked = []
        h = torch.ones(1, 3, dtype=torch.float64)
        crossed(Adaptive(tolerance, tolerance), lambda s, h: asked.append(s) or field(s, h), h)
        return len(asked)

    counts = [evaluations(tolerance) for tolerance in (1e-3, 1e-6, 1e-9)]
    assert counts[0] < counts[1] < counts[2] < 500


def test_a_result_does_not_depend_on_the_neighbours() -> None:
    """Rates from harmless to stiff in one batch: each goes at its own pace."""
    rates = torch.tensor([[0.1], [3.0], [200.0]], dtype=torch.float64)
    h = torch.ones(3, 1, dtype=torch.float64)
    step = torch.tensor([1.0, 0.3, 1e-4], dtype=torch.float64)
    together, after = Adaptive().integrate(lambda s, h: -rates * h, h, step)
    for b in range(3):
        one, own = Adaptive().integrate(
            lambda s, h, b=b: -rates[b] * h, h[b : b + 1], step[b : b + 1]
        )
        torch.testing.assert_close(one, together[b : b + 1], rtol=1e-13, atol=0.0)
        torch.testing.assert_close(own, after[b : b + 1], rtol=1e-13, atol=0.0)


def test_steps_that_overflowed_leave_no_trace_in_gradients() -> None:
    """The first steps of h' = -h^5 from 1000 are far too long, and end in infinity."""
    h = torch.tensor([[1000.0], [0.5]], dtype=torch.float64, requires_grad=True)
    found = crossed(Adaptive(1e-6, 1e-9), lambda s, h: -h.pow(5), h)
    exact = (h.pow(-4) + 4).pow(-0.25)
    assert_same_with_gradients(found, exact, [h], 1e-4)


def test_an_arrival_cut_short_does_not_shrink_the_step() -> None:
    h = torch.ones(1, 1, dtype=torch.float64)
    step = torch.tensor([0.7], dtype=torch.float64)
    _, after = Adaptive().integrate(lambda s, h: 0.1 * h, h, step)
    assert after.item() >= 0.7


def test_a_solution_that_leaves_all_bounds_is_an_error() -> None:
    h = torch.full((1, 1), 2.0, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="step size fell below"):
        crossed(Adaptive(), lambda s, h: h.square(), h)


def test_too_many_steps_are_an_error() -> None:
    h = torch.ones(1, 3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="more than most=3 steps"):
        crossed(Adaptive(1e-9, 1e-9, most=3), Rotating(size=3.0), h)
