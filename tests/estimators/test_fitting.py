"""The training loop: it stops in time, keeps the best, and starts again when numbers run away."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("sklearn")

from slicekit.estimators.fitting import (
    CrossEntropy,
    Examples,
    Plan,
    SquaredError,
    fit_network,
    mean_loss,
)

PLAN = Plan(steps=200, batch=8, rate=0.05, decay=0.0, evaluate_every=5)


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


def test_it_fits_and_keeps_the_best_weights() -> None:
    train, held = examples(32), examples(16)
    network, history = fit_network(Line, train, held, SquaredError(), PLAN, 0)
    losses = [loss for _, loss in history.validation]
    assert losses[-1] < 0.1 * losses[0]
    assert mean_loss(network, held, SquaredError()) == pytest.approx(min(losses))
    assert not network.training


def test_it_stops_when_validation_no_longer_improves() -> None:
    train, held = examples(16), examples(16, noise=3.0)
    plan = Plan(steps=1000, batch=8, rate=0.05, decay=0.0, patience=3, evaluate_every=5)
    network, history = fit_network(Line, train, held, SquaredError(), plan, 0)
    losses = [loss for _, loss in history.validation]
    assert history.steps < 1000
    assert len(losses) - 1 - losses.index(min(losses)) == 3
    assert mean_loss(network, held, SquaredError()) == pytest.approx(min(losses))


def test_a_rate_that_is_too_high_is_lowered_once() -> None:
    attempts = []

    class Fragile(Line):
        def __init__(self) -> None:
            super().__init__(factor=float("nan") if not attempts else 1.0)
            attempts.append(self)

    with pytest.warns(RuntimeWarning, match="a tenth of learning_rate=0.05"):
        network, _ = fit_network(Fragile, examples(8), examples(0), SquaredError(), PLAN, 0)
    assert network is attempts[1] and len(attempts) == 2


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_that_run_away_twice_are_an_error() -> None:
    with pytest.raises(FloatingPointError, match=r"even at a learning rate of 0\.005"):
        fit_network(lambda: Line(float("inf")), examples(8), examples(0), SquaredError(), PLAN, 0)


def test_the_first_update_and_the_last_have_a_rate() -> None:
    for steps in (1, 2):
        plan = Plan(steps=steps, batch=8, rate=0.05, decay=0.0)
        made: list[Any] = []

        def make(made: list[Any] = made) -> nn.Module:
            made.append(Line().map.weight.detach().clone())
            torch.manual_seed(0)
            line = Line()
            made.append(line.map.weight.detach().clone())
            return line

        network: Any = fit_network(make, examples(8), examples(0), SquaredError(), plan, 0)[0]
        assert (network.map.weight != made[-1]).all()


def test_validation_is_judged_without_smoothing() -> None:
    logits, targets = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    smooth, plain = CrossEntropy(0.3), CrossEntropy(0.0)
    torch.testing.assert_close(smooth.plain(logits, targets), plain(logits, targets))
    mixed = 0.7 * plain(logits, targets) - 0.3 * logits.log_softmax(-1).mean(-1)
    torch.testing.assert_close(smooth(logits, targets), mixed)
