"""Named models: the paper's sizes, and what a name promises."""

import pytest
import torch

from slicekit import SLiCE, catalogue, load, save, tasks
from slicekit.catalogue.tokens import TOKEN_MODELS

PAPER = ("bd-slice", "dplr-slice", "wh-slice", "s-slice", "de-lncde", "d-slice", "d-de-slice")
every_model = pytest.mark.parametrize("name", TOKEN_MODELS)
every_family = pytest.mark.parametrize("task_name", ["a5", "parity"])


def count(name: str, task_name: str) -> int:
    model = catalogue.build(name, tasks.make(task_name))
    return sum(x.numel() for x in model.parameters())


@pytest.mark.parametrize(
    ("name", "task_name", "published"),
    [
        ("bd-slice", "a5", 426_044),
        ("de-lncde", "a5", 39_868),
        ("dplr-slice", "a5", 320_680),
        ("bd-slice", "cycle-navigation", 200_969),
        ("dplr-slice", "cycle-navigation", 73_995),
    ],
)
def test_the_papers_models_have_as_many_parameters_as_the_authors(
    name: str, task_name: str, published: int
) -> None:
    assert count(name, task_name) == published


@every_model
@every_family
def test_a_named_model_runs_learns_and_is_saved(name: str, task_name: str, tmp_path) -> None:
    task = tasks.make(task_name)
    model = catalogue.build(name, task)
    batch = task.sample(2, (4, 4), torch.Generator().manual_seed(0))
    logits = model(batch.inputs, lengths=batch.lengths)
    assert logits.shape == (2, 4, task.outputs)
    logits.square().sum().backward()
    for parameter, tensor in model.named_parameters():
        assert tensor.grad is not None and tensor.grad.isfinite().all(), parameter
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert torch.equal(again(batch.inputs), model.eval()(batch.inputs))


@every_model
def test_the_seed_alone_settles_the_weights(name: str) -> None:
    task = tasks.make("parity")
    before = torch.random.get_rng_state()
    first = catalogue.build(name, task, seed=3).state_dict()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(7)
    again, other = (catalogue.build(name, task, seed=s).state_dict() for s in (3, 4))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("name", PAPER)
def test_the_paper_trains_one_layer_on_words_and_two_on_languages(name: str) -> None:
    words, language = tasks.make("a5"), tasks.make("parity")
    assert len(catalogue.build(name, words).blocks) == 1
    assert len(catalogue.build(name, language).blocks) == 2
    assert len(catalogue.build(name, language, layers=3).blocks) == 3
    assert catalogue.settings(name, words).steps == 100_000
    assert catalogue.settings(name, words).rate == 1e-3
    assert catalogue.settings(name, language).rate == 2e-3


def test_the_authors_initialisation() -> None:
    """Blocks 0.5 / sqrt(b), factors 0.5 / sqrt(r), sparse entries 0.5 / sqrt(dim), W_0 0.5."""
    task = tasks.make("a5")
    expected = {
        "bd-slice": {"A.blocks": 0.25},
        "dplr-slice": {"A.diagonal": 0.5, "A.left": 0.5 / 2**0.5, "A.right": 0.5 / 2**0.5},
        "s-slice": {"A.values": 0.5 / 128**0.5},
        "de-lncde": {"A.blocks": 0.5 / 32**0.5},
        "d-slice": {"A.values": 0.5},
        "wh-slice": {"A.values": 0.5},
    }
    for name, deviations in expected.items():
        (mixer,) = (x for x in catalogue.build(name, task).modules() if isinstance(x, SLiCE))
        found = dict(mixer.named_parameters())
        for tensor, deviation in {**deviations, "start.weight": 0.5}.items():
            assert found[tensor].std().item() == pytest.approx(deviation, rel=0.05), (name, tensor)


def test_defaults_by_family_and_an_unknown_name() -> None:
    assert catalogue.default(tasks.make("s5")) == "orthogonal-slice"
    assert catalogue.default(tasks.make("even-pairs")) == "projective-slice"
    with pytest.raises(ValueError, match="unknown model 'bdslice', did you mean 'bd-slice'"):
        catalogue.build("bdslice", tasks.make("parity"))
