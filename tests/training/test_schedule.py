"""The learning rate against its formula."""

import math

import pytest
import torch

from slicekit.training import Settings
from slicekit.training.schedule import learning_rate


@pytest.mark.parametrize(("steps", "warmup"), [(1000, 0.1), (1000, 0.0), (37, 0.33), (1, 0.0)])
def test_the_rate_follows_the_formula_of_the_paper(steps: int, warmup: float) -> None:
    settings = Settings(steps=steps, warmup=warmup, rate=2e-3, final_rate=1e-5)
    growing = int(warmup * steps)
    for step in range(steps + 1):
        if step < growing:
            expected = 2e-3 * step / growing
        else:
            angle = math.pi * (step - growing) / (steps - growing)
            expected = 1e-5 + (2e-3 - 1e-5) * math.cos(angle / 2) ** 2
        assert learning_rate(step, settings) == pytest.approx(expected, rel=1e-12, abs=1e-18)


def test_the_rate_is_that_of_torchs_own_schedules() -> None:
    settings = Settings(steps=50, warmup=0.2, rate=0.1, final_rate=0.01)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=40, eta_min=0.01)
    for step in range(10, 51):
        assert learning_rate(step, settings) == pytest.approx(cosine.get_last_lr()[0])
        optimiser.step()
        cosine.step()


def test_the_ends_are_zero_the_peak_and_the_final_rate() -> None:
    settings = Settings(steps=100, warmup=0.1, rate=0.3, final_rate=0.2)
    assert learning_rate(0, settings) == 0
    assert learning_rate(10, settings) == 0.3
    assert learning_rate(100, settings) == 0.2
