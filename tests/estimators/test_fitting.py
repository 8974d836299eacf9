"""Fits by the trainer: they stop in time, keep the best, and start again when numbers run away."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("sklearn")

from slicekit.estimators.fitting import Examples, Fit, fit_network
from slicekit.tasks.losses import SquaredError
from slicekit.training import Settings
from slicekit.training.evaluation import tally

SETTINGS = Settings(steps=200, batch=8, rate=0.05, decay=0.0, evaluate_every=5)


class Line(nn.Module):
    """The mean over time, and a linear map."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.map, self.factor = nn.Linear(2, 1), factor

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.map(x.sum(1) / lengths[:, None]) * self.factor


def examples(cases: int, noise: float = 0.0) -> Examples:
    lengths = torch.arange(cases) % 4 + 1
    x = torch.randn(cases, 4, 2).masked_fill((torch.arange(4) >= lengths[:, None])[..., None], 0)
    y = (x.sum(1) / lengths[:, None]) @ torch.tensor([[1.0], [-2.0]])
    return Examples(x, lengths, y + noise * torch.randn_like(y), torch.ones(cases))


def fit(train: Examples, held: Examples) -> Fit:
    return Fit(train, held, SquaredError(), 1)


def mean_loss(network: nn.Module, held: Examples) -> float:
    found = tally(network, held.batch(), loss=SquaredError())
    return found.loss / found.weight


def test_it_fits_and_keeps_the_best_weights() -> None:
    train, held = examples(32), examples(16)
    network, history = fit_network(Line, fit(train, held), SETTINGS)
    losses = [loss for _, loss in history.validation]
    assert losses[-1] < 0.1 * losses[0]
    assert mean_loss(network, held) == pytest.approx(min(losses))
    assert not network.training


def test_it_stops_when_validation_no_longer_improves() -> None:
    train, held = examples(16), examples(16, noise=3.0)
    settings = replace(SETTINGS, steps=1000, patience=3)
    network, history = fit_network(Line, fit(train, held), settings)
    losses = [loss for _, loss in history.validation]
    assert history.steps < 1000
    assert len(losses) - 1 - losses.index(min(losses)) == 3
    assert mean_loss(network, held) == pytest.approx(min(losses))


def test_cases_of_weight_zero_do_not_count() -> None:
    train, held, wrong = examples(32), examples(16), examples(8, noise=100.0)
    parts = zip(vars(train).values(), vars(wrong).values(), strict=True)
    both = Examples(*(torch.cat([a, b]) for a, b in parts))
    both = Examples(both.features, both.lengths, both.targets, (torch.arange(40) < 32).float())
    network, _ = fit_network(Line, fit(both, both), SETTINGS)
    assert mean_loss(network, held) < 0.05


def test_the_same_seed_gives_the_same_network_and_leaves_torch_alone() -> None:
    train, held = examples(16), examples(8)
    before = torch.get_rng_state()
    found = [fit_network(Line, fit(train, held), SETTINGS)[0].state_dict() for _ in range(2)]
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(x, found[1][name]) for name, x in found[0].items())


def test_a_rate_that_is_too_high_is_lowered_once() -> None:
    attempts = []

    class Fragile(Line):
        def __init__(self) -> None:
            super().__init__(factor=float("nan") if not attempts else 1.0)
            attempts.append(self)

    with pytest.warns(RuntimeWarning, match="a tenth of learning_rate=0.05"):
        network, history = fit_network(Fragile, fit(examples(8), examples(0)), SETTINGS)
    assert network is attempts[1] and len(attempts) == 2
    assert history.steps == SETTINGS.steps and history.validation == ()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_that_run_away_twice_are_an_error() -> None:
    with pytest.raises(FloatingPointError, match=r"even at a learning rate of 0\.005"):
        fit_network(lambda: Line(float("inf")), fit(examples(8), examples(0)), SETTINGS)


def test_the_first_update_and_the_last_have_a_rate() -> None:
    for steps in (1, 2):
        made: list[Any] = []

        def make(made: list[Any] = made) -> nn.Module:
            torch.manual_seed(0)
            line = Line()
            made.append(line.map.weight.detach().clone())
            return line

        task = fit(examples(8), examples(0))
        network: Any = fit_network(make, task, replace(SETTINGS, steps=steps))[0]
        assert (network.map.weight != made[-1]).all()
