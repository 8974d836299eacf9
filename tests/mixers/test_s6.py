"""S6 against the equations of its paper, step by step, at its extremes, and its initialisation."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from slicekit.layers.state import State
from slicekit.mixers.discretisation import StepSizes
from slicekit.mixers.s6 import S6
from tests.mixers.agreement import assert_agrees, shared_leaves


def transcription(s6: S6, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """h_t = exp(Δ_t A) h_{t-1} + Δ_t B_t x_t, y_t = C_t^T h_t + D x_t, channel by channel."""
    low_rank, b_map, c_map = s6.selection.weight.split([s6.rank, s6.dim, s6.dim])
    rates, outputs = -s6.log_rates.exp(), []
    for x_t in x.unbind(1):
        step = torch.log1p((x_t @ low_rank.mT @ s6.step_weight.mT + s6.step_bias).exp())
        b, c = x_t @ b_map.mT, x_t @ c_map.mT
        h = (step.unsqueeze(-1) * rates).exp() * h + torch.einsum("bh,bn->bhn", step * x_t, b)
        outputs.append(torch.einsum("bhn,bn->bh", h, c) + s6.skip * x_t)
    return torch.stack(outputs, 1), h


def test_s6_is_the_recurrence_of_its_paper() -> None:
    s6 = S6(6, 3, rank=2).double()
    with torch.no_grad():
        s6.step_bias.add_(3)
    x = torch.randn(2, 19, 6, dtype=torch.float64, requires_grad=True)
    hidden = torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)

    def found() -> tuple[Tensor, ...]:
        y, state = s6(x, State({"hidden": hidden}), return_state=True)
        return y, state["hidden"]

    leaves = shared_leaves(x=x, hidden=hidden, **dict(s6.named_parameters()))
    assert_agrees(found, lambda: transcription(s6, x, hidden), leaves, 1e-12)


@pytest.mark.parametrize("extreme", [-1e4, 1e4])
def test_steps_of_no_time_and_of_very_long_time_give_finite_gradients(extreme: float) -> None:
    s6 = S6(6, 3)
    with torch.no_grad():
        s6.step_bias.fill_(extreme)
    x = torch.randn(2, 40, 6, requires_grad=True)
    hidden = torch.randn(2, 6, 3, requires_grad=True)
    y, state = s6(x, State({"hidden": hidden}), return_state=True)
    (y.sum() + state["hidden"].sum()).backward()
    assert torch.isfinite(y).all()
    for leaf in (x, hidden, *s6.parameters()):
        assert leaf.grad is not None and torch.isfinite(leaf.grad).all()
    if extreme < 0:
        assert torch.equal(state["hidden"], hidden)


@pytest.mark.parametrize("step_weights", ["random", "constant"])
def test_initial_parameters_are_those_of_the_authors(step_weights: str) -> None:
    s6 = S6(40, 4, steps=StepSizes(0.01, 0.05), step_weights=step_weights, step_scale=2.0)
    assert s6.rank == 3
    torch.testing.assert_close(s6.log_rates.detach().exp(), torch.arange(1.0, 5).expand(40, -1))
    assert (s6.skip == 1).all()
    steps = functional.softplus(s6.step_bias)
    assert steps.min() >= 0.0099 and steps.max() <= 0.0501
    size = 2 * 3**-0.5
    if step_weights == "constant":
        torch.testing.assert_close(s6.step_weight.detach(), torch.full((40, 3), size))
    else:
        assert 0.8 * size < s6.step_weight.abs().max() <= size
