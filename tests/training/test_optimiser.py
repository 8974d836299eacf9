"""The paper's groups of parameters, and what the optimiser remembers."""

import pytest
import torch
from torch import nn

from slicekit.training import Settings
from slicekit.training.optimiser import (
    make_optimiser,
    restore_moments,
    set_rate,
    stored_moments,
    trained_parameters,
)
from tests.training.small import assert_same_weights, small_model


def test_all_parameters_but_the_embeddings_are_decayed() -> None:
    model = small_model()
    optimiser = make_optimiser(model, Settings(decay=0.25))
    decay = {
        id(x): group["weight_decay"] for group in optimiser.param_groups for x in group["params"]
    }
    found = {name: decay[id(x)] for name, x in model.named_parameters()}
    assert found == {name: 0.0 if "embedding" in name else 0.25 for name in found}
    assert {"embedding.weight", "heads.0.bias"} <= found.keys()


def test_an_update_is_that_of_adamw_by_its_definition() -> None:
    model = nn.Linear(2, 1, bias=False).double()
    settings = Settings(rate=0.1, decay=0.2, betas=(0.8, 0.9), eps=1e-3)
    optimiser = make_optimiser(model, settings)
    weight, first, second = model.weight.detach().clone(), 0.0, 0.0
    for step in range(1, 4):
        set_rate(optimiser, 0.1 / step)
        gradient = torch.full((1, 2), float(step), dtype=torch.float64)
        model.weight.grad = gradient.clone()
        optimiser.step()
        weight = weight * (1 - 0.1 / step * 0.2)
        first = 0.8 * first + 0.2 * gradient
        second = 0.9 * second + 0.1 * gradient**2
        scale = (second / (1 - 0.9**step)).sqrt() + 1e-3
        weight = weight - 0.1 / step * first / (1 - 0.8**step) / scale
    torch.testing.assert_close(model.weight.detach(), weight)


def test_an_optimiser_goes_on_from_what_another_remembers() -> None:
    one, other = small_model(), small_model()
    optimisers = [make_optimiser(model, Settings()) for model in (one, other)]
    for x in one.parameters():
        x.grad = torch.ones_like(x)
    optimisers[0].step()
    stored = {name: x.clone() for name, x in stored_moments(optimisers[0], one).items()}
    other.load_state_dict(one.state_dict())
    restore_moments(optimisers[1], other, stored)
    for model, optimiser in zip((one, other), optimisers, strict=True):
        for x in model.parameters():
            x.grad = torch.full_like(x, 2.0)
        optimiser.step()
    assert_same_weights(other, one)


def test_frozen_parameters_are_left_alone() -> None:
    model = small_model()
    model.embedding.requires_grad_(False)
    assert "embedding.weight" not in trained_parameters(model)
    assert len(make_optimiser(model, Settings()).param_groups) == 1


def test_a_model_without_anything_to_train_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to train"):
        trained_parameters(nn.Tanh())
