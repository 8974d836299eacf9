"""How states change their size along time: by its definition, and at the edges of it."""

import math

import pytest
import torch

from slicekit import BlockDiagonal, Diagonal, Learned, LogODE, SequenceModel, SLiCE
from slicekit.training.drift import FEWEST, drift
from slicekit.training.pressure import CapturedLayers


def by_definition(states: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """One position after the other, over the sequences that reach it."""
    sizes, spreads = [], []
    for t in range(1, states.shape[1]):
        there = [h[t] for h, length in zip(states, lengths, strict=True) if length > t]
        if len(there) < FEWEST:
            continue
        h = torch.stack(there)
        sizes.append(h.square().sum(-1).mean().log())
        spreads.append((h - h.mean(0)).square().sum(-1).mean().log())
    return sum((torch.stack(x).var(correction=0) for x in (sizes, spreads)), torch.zeros(()))


@pytest.mark.parametrize("lengths", [None, [7] * 4 + [9] * 5 + [3, 12, 12, 12]])
def test_it_is_what_its_definition_says(lengths) -> None:
    torch.manual_seed(0)
    states = torch.randn(13, 12, 5, dtype=torch.float64) * torch.linspace(1, 4, 12)[:, None]
    states.requires_grad_()
    found = drift(states, None if lengths is None else torch.tensor(lengths))
    expected = by_definition(states, lengths or [12] * 13)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6, check_dtype=False)
    gradients = [torch.autograd.grad(x, states)[0] for x in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def separately(states: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """The same for numbers that no step mixes: every position as often as it has sequences."""
    rows: list[torch.Tensor] = []
    for t in range(1, states.shape[1]):
        there = [h[t] for h, length in zip(states, lengths, strict=True) if length > t]
        if len(there) >= FEWEST:
            logs = torch.stack(there).abs().log().mean(0)
            rows += [logs - logs.mean()] * len(there)
    return torch.stack(rows).var(0, correction=0).mean()


@pytest.mark.parametrize("lengths", [None, [7] * 4 + [9] * 5 + [3, 12, 12, 12]])
def test_numbers_that_no_step_mixes_are_taken_one_by_one(lengths) -> None:
    torch.manual_seed(0)
    states = torch.rand(13, 12, 5, dtype=torch.float64) + 0.1
    states.requires_grad_()
    found = drift(states, None if lengths is None else torch.tensor(lengths), separate=True)
    expected = separately(states, lengths or [12] * 13)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6, check_dtype=False)
    gradients = [torch.autograd.grad(x, states)[0] for x in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_counting_is_no_drift_but_counting_time_is() -> None:
    torch.manual_seed(0)
    steps = torch.randint(-1, 2, (32, 30)).double()
    counts = torch.cat([steps, -steps]).cumsum(1).unsqueeze(-1)
    slopes = torch.linspace(-0.2, 0.2, 5).double()
    assert drift((slopes * counts).exp(), separate=True) < 1e-4
    time = torch.arange(30.0).unsqueeze(-1)
    assert drift((slopes * (counts + time)).exp(), separate=True) > 0.1
    common = (0.1 * time).exp()
    assert drift(common * (slopes * counts).exp(), separate=True) < 1e-4


@pytest.mark.parametrize("separate", [False, True])
def test_a_unit_of_the_states_does_not_count(separate) -> None:
    torch.manual_seed(0)
    states = torch.randn(16, 20, 4).cumsum(1)
    expected = drift(states, separate=separate)
    for unit in (1e-15, 1e15, 1e30):
        found = drift(unit * states, separate=separate)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=0)


def test_states_that_fade_or_grow_or_become_alike_drift() -> None:
    torch.manual_seed(0)
    steady = torch.randn(32, 1, 4).expand(-1, 30, -1)
    time = torch.arange(30.0)[:, None]
    assert drift(steady) < 1e-9
    for rate in (-0.1, 0.1):
        found = drift(steady * (rate * time).exp())
        assert found == pytest.approx(2 * (2 * rate) ** 2 * (29**2 - 1) / 12, rel=1e-3)
    alike = 1 + steady * (-0.1 * time).exp()
    assert drift(alike) > 0.5


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize(
    "states",
    [torch.zeros(9, 5, 2), torch.ones(9, 5, 2), torch.ones(1, 5, 2), torch.ones(9, 1, 2)],
    ids=["zero", "alike", "one sequence", "one position"],
)
def test_value_and_gradient_are_finite_where_there_is_nothing_to_tell(states, separate) -> None:
    states = states.clone().requires_grad_()
    found = drift(states, separate=separate)
    found.backward()
    assert math.isclose(found.item(), 0.0, abs_tol=1e-6)
    assert states.grad is not None and states.grad.isfinite().all()


@pytest.mark.parametrize("separate", [False, True])
def test_what_stands_behind_the_end_does_not_count(separate) -> None:
    states, lengths = torch.randn(20, 6, 3), torch.tensor([6] * 10 + [2] * 10)
    poisoned = states.clone()
    poisoned[10:, 2:] = float("nan")
    poisoned.requires_grad_()
    found = drift(poisoned, lengths, separate)
    torch.testing.assert_close(found, drift(states, lengths, separate))
    found.backward()
    assert poisoned.grad is not None and poisoned.grad.isfinite().all()


@pytest.mark.parametrize("structure", [BlockDiagonal(8, 4), Diagonal(8)], ids=repr)
def test_the_states_of_every_layer_count(structure) -> None:
    torch.manual_seed(0)
    model = SequenceModel(
        vocabulary=3,
        outputs=3,
        width=8,
        layers=2,
        mixer=lambda width: SLiCE(width, structure, initial=Learned()),
    )
    kept: list[torch.Tensor] = []
    layers = [x for x in model.modules() if isinstance(x, SLiCE)]
    for layer in layers:
        layer.register_forward_hook(lambda module, given, result: kept.append(result[0]))
    with CapturedLayers(model) as captured:
        model(torch.randint(3, (16, 9)))
        found = captured.take(0.0, 0.0, 2.0)
    separate = isinstance(structure, Diagonal)
    expected = sum(drift(states, separate=separate) for states in kept)
    torch.testing.assert_close(found, 2 * expected)


def test_half_precision_counts_in_float32() -> None:
    torch.manual_seed(0)
    states = torch.randn(64, 9, 32).bfloat16() * torch.linspace(1, 30, 9).bfloat16()[:, None]
    found = drift(states, [9] * 64)
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, drift(states.float()))


def test_states_of_windows_are_refused() -> None:
    layer = SLiCE(4, BlockDiagonal(8, 4), flow=LogODE(depth=2, window=3))
    with CapturedLayers(layer) as captured:
        layer(torch.randn(16, 9, 4))
        with pytest.raises(ValueError, match="gives 4 states for 9 elements; expected one for eac"):
            captured.take(0.0, 0.0, 1.0)
