"""The moving average of the weights against its definition."""

import pytest
import torch
from torch import nn

from slicekit.training.average import Average


def test_the_average_is_the_weighted_sum_of_its_definition() -> None:
    model, decay = nn.Linear(3, 2).double(), 0.9
    average = Average(model, decay)
    history = [model.weight.detach().clone()]
    for _ in range(20):
        with torch.no_grad():
            model.weight.add_(torch.randn(2, 3, dtype=torch.float64))
        average.update()
        history.append(model.weight.detach().clone())
    steps = len(history) - 1
    weights = [decay**steps] + [(1 - decay) * decay ** (steps - k) for k in range(1, steps + 1)]
    assert sum(weights) == pytest.approx(1)
    expected = torch.stack([w * x for w, x in zip(weights, history, strict=True)]).sum(0)
    torch.testing.assert_close(average.tensors["weight"], expected)


def test_the_models_own_weights_come_back_exactly_after_the_average() -> None:
    model = nn.Linear(3, 2)
    average = Average(model, 0.5)
    own = model.weight.detach().clone().mul_(3)
    with torch.no_grad():
        model.weight.copy_(own)
    average.update()
    with pytest.raises(KeyError), average.in_model():
        assert torch.equal(model.weight, average.tensors["weight"])
        raise KeyError
    assert torch.equal(model.weight, own)
