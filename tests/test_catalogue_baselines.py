"""Named baselines: the paper's sizes, on tokens and on series, and what a name promises."""

import pytest
import torch

from slicekit import SequenceModel, catalogue, load, save, tasks
from slicekit.catalogue.baselines import BASELINES
from slicekit.catalogue.series_baselines import LRU, MAMBA, NCDE, NRDE, S5, S6, SETS
from slicekit.layers import BatchNorm, GatedBlock, Last, LayerNorm, Mean
from tests.test_catalogue_series import task as series_task

every_baseline = pytest.mark.parametrize("name", BASELINES)
FIELDS = ("ncde", "nrde", "log-ncde")
PAPERS = 18
"""Baselines in the paper's tables."""


def small(name: str, task) -> SequenceModel:
    return catalogue.build(name, task, width=16 if name in FIELDS else 64)


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
    words, languages = (BASELINES[name].design(tasks.make(t)) for t in ("a5", "parity"))
    assert (words.width, words.layers, words.dropout) == (1024, 1, 0.1)
    width = 256 if name == "mamba2" else 128
    assert (languages.width, languages.layers, languages.dropout) == (width, 2, 0.01)
    assert words.settings.steps == languages.settings.steps == 100_000
    assert (words.settings.rate, languages.settings.rate) == (1e-3, 2e-3)
    assert words.settings.penalty == languages.settings.penalty == 0


def test_stacked_lstms_are_those_of_torch() -> None:
    """4 h (h + h + 2) a layer, an embedding and a head."""
    task = tasks.make("a5")
    found = sum(p.numel() for p in catalogue.build("lstm", task).parameters())
    layer = torch.nn.LSTM(1024, 1024)
    assert found == 60 * 1024 + sum(p.numel() for p in layer.parameters()) + 60 * 1025


@pytest.mark.parametrize("data_set", SETS)
def test_sizes_on_series_are_those_of_the_comparison(data_set: str) -> None:
    own = series_task(data_set, length=5)
    for name, table, norm in (
        ("lru", LRU, BatchNorm()),
        ("s5", S5, BatchNorm()),
        ("s6", S6, LayerNorm()),
        ("mamba", MAMBA, LayerNorm()),
    ):
        width, dim, layers = (int(x) for x in table[data_set][:3])
        model = catalogue.build(name, own)
        assert (model.width, len(model.blocks), model.pool) == (width, layers, Mean())
        for block in model.blocks:
            assert isinstance(block, GatedBlock) and block.policy == norm
            arguments = block.mixer.configuration()  # type: ignore[operator]
            assert arguments["dim"] == dim
    for name, table in (("ncde", NCDE), ("nrde", NRDE)):
        dim, depth, hidden = (int(x) for x in table[data_set][:3])
        model = catalogue.build(name, own)
        (layer,) = model.blocks
        arguments = layer.configuration()  # type: ignore[operator]
        assert model.pool == Last()
        assert (arguments["dim"], arguments["depth"], arguments["hidden"]) == (dim, depth, hidden)


def test_log_ncde_has_its_penalty() -> None:
    model = catalogue.build("log-ncde", series_task("SelfRegulationSCP2", length=9))
    assert catalogue.settings("log-ncde", series_task("SelfRegulationSCP2", length=9)).penalty > 0
    assert model.regularisation() > 0


def test_width_and_layers_can_be_chosen() -> None:
    task = tasks.make("parity")
    model = catalogue.build("mamba", task, width=32, layers=3)
    assert model.width == 32 and len(model.blocks) == 3
    with pytest.raises(ValueError, match="width=32, but the width of bd-slice is that of its"):
        catalogue.build("bd-slice", task, width=32)
    own = series_task("SelfRegulationSCP1", length=9)
    with pytest.raises(ValueError, match="width=32, but the width of ncde"):
        catalogue.build("ncde", own, width=32)
    with pytest.raises(ValueError, match="layers=2, but this model has one layer"):
        catalogue.build("ncde", own, layers=2)
