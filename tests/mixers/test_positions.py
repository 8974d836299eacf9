"""Sinusoidal positions against the formula of the paper, entry by entry."""

import math

import pytest
import torch

from slicekit.mixers.positions import SinusoidalPositions


@pytest.mark.parametrize("width", [1, 6, 7])
def test_sinusoids_are_those_of_the_paper(width: int) -> None:
    x = torch.randn(2, 9, width, dtype=torch.float64)
    y = SinusoidalPositions(width)(x)
    for t in range(9):
        for i in range(width):
            angle = t / 10000 ** (2 * (i // 2) / width)
            wave = math.cos(angle) if i % 2 else math.sin(angle)
            assert y[0, t, i].item() == pytest.approx(x[0, t, i].item() + wave, abs=1e-12)


def test_each_sequence_counts_for_itself() -> None:
    module = SinusoidalPositions(4)
    x = torch.zeros(2, 5, 4)
    _, state = module(x, lengths=[2, 5], return_state=True)
    y = module(x, state)
    waves = module(torch.zeros(1, 10, 4))[0]
    torch.testing.assert_close(y, torch.stack([waves[2:7], waves[5:10]]))


def test_positions_past_a_million_are_exact_in_single_precision() -> None:
    module = SinusoidalPositions(4)
    state = type(module.start(1, torch.zeros(1)))({"seen": torch.tensor([10_000_019])})
    y, _ = module.step(torch.zeros(1, 4), state)
    assert y[0, 0].item() == pytest.approx(math.sin(10_000_019), abs=1e-6)


def test_gradients_pass_through() -> None:
    x = torch.randn(2, 3, 4, requires_grad=True)
    (found,) = torch.autograd.grad(SinusoidalPositions(4)(x).sum(), x)
    assert torch.equal(found, torch.ones_like(x))
