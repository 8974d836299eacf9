"""Named baselines: the paper's sizes, on tokens and on series, and what a name promises."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from slicekit import SequenceModel, catalogue, load, save, tasks
from slicekit.catalogue.baselines import BASELINES
from slicekit.layers import BatchNorm, GatedBlock, Last, LayerNorm, Mean
from slicekit.training import train
from tests.test_catalogue_series import task as series_task

every_baseline = pytest.mark.parametrize("name", BASELINES)
FIELDS = ("ncde", "nrde", "log-ncde")
PAPERS = 18
"""Baselines in the paper's tables."""
ONE_STEP = {"steps": 1, "batch": 2, "lengths": (3, 6), "validation_lengths": (6, 6)}


def small(name: str, task) -> SequenceModel:
    return catalogue.build(f"{name}:width={16 if name in FIELDS else 64}", task)


def backward(model: torch.nn.Module, logits: torch.Tensor) -> None:
    logits.square().sum().backward()
    for parameter, tensor in model.named_parameters():
        assert tensor.grad is None or tensor.grad.isfinite().all(), parameter
    assert sum(p.grad is not None for p in model.parameters()) > 3


@every_baseline
@pytest.mark.parametrize("task_name", ["a5", "parity"])
def test_a_baseline_runs_on_tokens_and_is_saved(name: str, task_name: str, tmp_path) -> None:
    task = tasks.make(task_name)
    model = small(name, task)
    batch = task.sample(2, (4, 4), torch.Generator().manual_seed(0))
    logits = model(batch.inputs, lengths=batch.lengths)
    assert logits.shape == (2, 4, task.outputs)
    backward(model, logits)
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    torch.testing.assert_close(again(batch.inputs), model.eval()(batch.inputs))


@every_baseline
@pytest.mark.parametrize("task_name", ["a5", "parity"])
@pytest.mark.parametrize("recipe", catalogue.RECIPES)
def test_a_baseline_is_trained_by_its_recipes(name: str, task_name: str, recipe: str) -> None:
    task = tasks.make(task_name)
    settings = replace(catalogue.settings(name, task, recipe), **ONE_STEP)
    result = train(small(name, task), task, settings)
    assert result.steps == 1 and math.isfinite(result.accuracy)


@every_baseline
def test_a_baseline_runs_on_series_and_is_saved(name: str, tmp_path) -> None:
    own = series_task("SelfRegulationSCP2", length=21)
    model = catalogue.build(name, own)
    batch = own.whole("train")
    logits = model(batch.inputs, lengths=batch.lengths)
    assert logits.shape == (6, 2)
    backward(model, logits)
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    torch.testing.assert_close(again(batch.inputs), model.eval()(batch.inputs))


@every_baseline
def test_models_step_as_they_run(name: str) -> None:
    task = tasks.make("parity")
    model = small(name, task).double().eval()
    tokens = task.sample(2, (6, 6), torch.Generator().manual_seed(0)).inputs
    whole, state, outputs = model(tokens), None, []
    for token in tokens.unbind(1):
        y, state = model.step(token, state)
        outputs.append(y)
    torch.testing.assert_close(torch.stack(outputs, 1), whole, rtol=1e-7, atol=1e-9)


def test_the_papers_baselines_have_names() -> None:
    own = {"gla", "mamba2", "transformer-sinusoidal"}
    assert len(BASELINES.keys() - own) == PAPERS
    assert BASELINES.keys() <= catalogue.MODELS.keys()


@pytest.mark.parametrize("name", sorted(BASELINES.keys() - set(FIELDS)))
def test_sizes_on_tokens_are_those_of_the_paper(name: str) -> None:
    """Hidden size 1024 and one layer on words, 128 (Mamba-2 256) and two on languages."""
    words, languages = (catalogue.recipe(name, tasks.make(t), "paper") for t in ("a5", "parity"))
    assert (words.width, words.layers, words.dropout) == (1024, 1, 0.1)
    width = 256 if name == "mamba2" else 128
    assert (languages.width, languages.layers, languages.dropout) == (width, 2, 0.01)
    assert words.settings.steps == languages.settings.steps == 100_000
    assert (words.settings.rate, languages.settings.rate) == (1e-3, 2e-3)
    assert words.settings.penalty == languages.settings.penalty == 0


def test_stacked_lstms_are_those_of_torch() -> None:
    """4 h (h + h + 2) a layer, an embedding and a head."""
    task = tasks.make("a5")
    found = sum(p.numel() for p in catalogue.build("lstm", task, recipe="paper").parameters())
    layer = torch.nn.LSTM(1024, 1024)
    assert found == 60 * 1024 + sum(p.numel() for p in layer.parameters()) + 60 * 1025


SETS = (
    "EigenWorms",
    "EthanolConcentration",
    "Heartbeat",
    "MotorImagery",
    "SelfRegulationSCP1",
    "SelfRegulationSCP2",
)
PUBLISHED = {
    "lru": (
        ("width", "dim", "layers", "rate"),
        (64, 64, 4, 1e-3),
        (64, 16, 6, 1e-5),
        (128, 256, 2, 1e-4),
        (16, 256, 6, 1e-3),
        (64, 16, 2, 1e-3),
        (64, 16, 2, 1e-3),
    ),
    "s5": (
        ("width", "dim", "layers", "blocks", "rate"),
        (64, 16, 2, 8, 1e-4),
        (128, 16, 2, 8, 1e-5),
        (128, 16, 4, 4, 1e-3),
        (16, 64, 6, 4, 1e-3),
        (128, 16, 6, 8, 1e-3),
        (16, 64, 2, 2, 1e-4),
    ),
    "s6": (
        ("width", "dim", "layers", "rate"),
        (16, 64, 4, 1e-3),
        (16, 16, 4, 1e-5),
        (16, 16, 4, 1e-3),
        (16, 256, 4, 1e-3),
        (64, 16, 2, 1e-4),
        (16, 256, 2, 1e-3),
    ),
    "mamba": (
        ("width", "dim", "layers", "kernel", "expand", "rate"),
        (16, 64, 6, 2, 1, 1e-3),
        (64, 256, 4, 4, 4, 1e-3),
        (64, 256, 4, 2, 4, 1e-4),
        (128, 64, 2, 3, 1, 1e-5),
        (128, 16, 2, 4, 1, 1e-5),
        (64, 64, 6, 2, 2, 1e-4),
    ),
    "ncde": (
        ("dim", "rate", "depth", "hidden"),
        (128, 1e-3, 3, 128),
        (128, 1e-3, 4, 128),
        (128, 1e-3, 4, 128),
        (16, 1e-3, 4, 128),
        (128, 1e-4, 4, 128),
        (128, 1e-3, 4, 128),
    ),
    "nrde": (
        ("dim", "rate", "depth", "hidden", "log_depth", "window"),
        (64, 1e-3, 3, 64, 2, 4),
        (64, 1e-3, 4, 128, 1, 1),
        (64, 1e-3, 3, 128, 2, 2),
        (128, 1e-4, 4, 128, 1, 1),
        (64, 1e-3, 4, 128, 1, 1),
        (128, 1e-4, 4, 128, 1, 1),
    ),
    "log-ncde": (
        ("dim", "rate", "depth", "hidden", "log_depth", "window"),
        (128, 1e-3, 2, 32, 2, 12),
        (64, 1e-4, 3, 64, 1, 1),
        (16, 1e-3, 3, 128, 2, 2),
        (16, 1e-3, 3, 64, 2, 16),
        (64, 1e-4, 3, 128, 2, 16),
        (128, 1e-4, 2, 32, 2, 4),
    ),
}
"""The settings of the comparison, data set by data set in the order of `SETS`."""

STEP_LENGTHS = {
    "ncde": (5.5602e-5, 5.7078e-4, 2e-3, 3.3322e-4, 1.1148e-3, 8.6730e-4),
    "nrde": (2.2237e-4, 5.7078e-4, 2e-3, 3.3322e-4, 1.1148e-3, 8.6730e-4),
    "log-ncde": (6.6711e-4, 5.7078e-4, 2e-3, 2e-3, 2e-3, 2e-3),
}
"""The solver's steps there, on a whole series of duration 1."""

LENGTHS = (17_984, 1751, 405, 3000, 896, 1152)


@pytest.mark.parametrize("data_set", SETS)
@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_on_series_are_those_of_the_comparison(name: str, data_set: str) -> None:
    own, place = series_task(data_set, length=5), SETS.index(data_set)
    columns, *rows = PUBLISHED[name]
    expected = dict(zip(columns, rows[place], strict=True))
    model: Any = catalogue.build(name, own)
    rate = expected.pop("rate")
    assert catalogue.settings(name, own).rate == pytest.approx(min(10 * rate, 3e-3))
    published = catalogue.settings(name, own, "paper")
    assert (published.rate, published.steps, published.patience) == (rate, 100_000, 11)
    if name in STEP_LENGTHS:
        (layer,) = model.blocks
        arguments = layer.configuration()
        assert model.pool == Last()
        windows = -(-LENGTHS[place] // arguments.get("window", 1))
        per_window = 1 / STEP_LENGTHS[name][place] / windows
        steps = arguments["solver"].steps
        assert per_window - 0.1 <= steps < per_window + 1
    else:
        assert (model.width, len(model.blocks)) == (expected.pop("width"), expected.pop("layers"))
        assert model.pool == Mean()
        norm = BatchNorm() if name in ("lru", "s5") else LayerNorm()
        assert all(isinstance(x, GatedBlock) and x.policy == norm for x in model.blocks)
        arguments = model.blocks[-1].mixer.configuration()
    assert {key: arguments[key] for key in expected} == expected


def test_log_ncde_has_its_penalty() -> None:
    model = catalogue.build("log-ncde", series_task("SelfRegulationSCP2", length=9))
    assert catalogue.settings("log-ncde", series_task("SelfRegulationSCP2", length=9)).penalty > 0
    assert model.regularisation() > 0


def test_width_and_layers_can_be_chosen() -> None:
    task = tasks.make("parity")
    model = catalogue.build("mamba:width=32", task, layers=3)
    assert model.width == 32 and len(model.blocks) == 3
    with pytest.raises(ValueError, match="'bd-slice:width=32' has no size 'width'"):
        catalogue.build("bd-slice:width=32", task)
    with pytest.raises(ValueError, match="model 'rwkv7:width=30': head_dim=64 does not"):
        catalogue.build("rwkv7:width=30", task)
    own = series_task("SelfRegulationSCP1", length=9)
    with pytest.raises(ValueError, match="'ncde:width=32' has no size 'width'; its sizes are dim"):
        catalogue.build("ncde:width=32", own)
    small: Any = catalogue.build("ncde:dim=8,hidden=16", own)
    assert small.blocks[0].configuration()["hidden"] == 16 and small.width == 8
    with pytest.raises(ValueError, match="layers=2, but this model has one layer"):
        catalogue.build("ncde", own, layers=2)
