"""Named models: the paper's sizes, and what a name promises."""

from dataclasses import asdict, replace

import pytest
import torch

from slicekit import SLiCE, catalogue, load, save, tasks
from slicekit.catalogue.tokens import (
    BOUNDED,
    SEPARATE,
    TOKEN_MODELS,
    UNDIVIDED,
    WITHOUT_ISOMETRIES,
)

PAPER = ("bd-slice", "dplr-slice", "wh-slice", "s-slice", "de-lncde", "d-slice", "d-de-slice")
every_model = pytest.mark.parametrize("name", TOKEN_MODELS)
every_family = pytest.mark.parametrize("task_name", ["a5", "parity"])


def count(name: str, task_name: str) -> int:
    model = catalogue.build(name, tasks.make(task_name), recipe="paper")
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
    for recipe in catalogue.RECIPES:
        assert len(catalogue.build(name, words, recipe=recipe).blocks) == 1
        assert len(catalogue.build(name, language, recipe=recipe).blocks) == 2
        assert len(catalogue.build(name, language, recipe=recipe, layers=3).blocks) == 3
    assert catalogue.settings(name, words, "paper").steps == 100_000
    assert catalogue.settings(name, words, "paper").rate == 1e-3
    assert catalogue.settings(name, language, "paper").rate == 2e-3


def test_the_fast_recipe_is_one_for_all_of_the_papers_structures() -> None:
    found = {name: catalogue.settings(name, tasks.make("parity")) for name in PAPER}
    blocks, whole = {"bd-slice", "d-de-slice"}, {"dplr-slice", "s-slice", "de-lncde"}
    ours = next(found[name] for name in blocks)
    assert {found[name] for name in blocks} == {ours}
    assert {found[name] for name in whole} == {replace(ours, **UNDIVIDED)}
    assert found["wh-slice"] == replace(ours, **UNDIVIDED, growth=0.0)  # directions of states
    assert found["d-slice"] == replace(ours, **SEPARATE)  # numbers that no step mixes
    found = {name: catalogue.settings(name, tasks.make("a5")) for name in PAPER}
    own = {"s-slice", "wh-slice"}  # no isometries but the identity; bounded matrices
    assert len({found[name] for name in PAPER if name not in own}) == 1
    assert WITHOUT_ISOMETRIES.items() <= asdict(found["s-slice"]).items()
    assert BOUNDED.items() <= asdict(found["wh-slice"]).items()


@pytest.mark.parametrize(
    ("name", "dim"),
    [
        ("bd-slice:dim=64,block=8", 64),
        ("s-slice:dim=32,epsilon=0.5", 32),
        ("d-de-slice:block=4", 272),
        ("orthogonal-slice:block=2", 128),
    ],
)
def test_sizes_are_part_of_a_name(name: str, dim: int) -> None:
    model = catalogue.build(name, tasks.make("parity"))
    structure = next(x.structure for x in model.modules() if isinstance(x, SLiCE))
    assert structure.dim == dim
    for size, number in catalogue.parse(name)[1].items():
        assert getattr(structure, size) == number


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("bd-slice:rank=3", "model 'bd-slice:rank=3' has no size 'rank'; its sizes are dim, block"),
        ("bd-slice:dim=10", r"model 'bd-slice:dim=10': block=4 does not divide dim=10"),
        ("bd-slice:dim=1.5", "model 'bd-slice:dim=1.5': .*dim=1.5 is a float; expected a whole"),
        ("bd-slice:dim", "'dim'; expected size=number"),
        ("mamba:width=wide", "width=wide; expected a number"),
        ("mamba:width=1.5", "width=1.5; expected a whole number"),
        ("mamba:width=0", "width=0"),
        ("bdslice:dim=4", "unknown model 'bdslice', did you mean 'bd-slice'"),
    ],
)
def test_a_name_that_does_not_fit_says_why(name: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        catalogue.build(name, tasks.make("parity"))


def test_an_unknown_recipe_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="unknown recipe 'papre', did you mean 'paper'"):
        catalogue.settings("bd-slice", tasks.make("a5"), "papre")


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
        (mixer,) = (
            x for x in catalogue.build(name, task, recipe="paper").modules() if isinstance(x, SLiCE)
        )
        found = dict(mixer.named_parameters())
        for tensor, deviation in {**deviations, "start.weight": 0.5}.items():
            assert found[tensor].std().item() == pytest.approx(deviation, rel=0.05), (name, tensor)


def test_defaults_by_family_and_an_unknown_name() -> None:
    assert catalogue.default(tasks.make("s5")) == "orthogonal-slice"
    assert catalogue.default(tasks.make("even-pairs")) == "projective-slice"
    with pytest.raises(ValueError, match="unknown model 'bdslice', did you mean 'bd-slice'"):
        catalogue.build("bdslice", tasks.make("parity"))
