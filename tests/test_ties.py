"""Tensors that are one stay one: on disk, in what is loaded, and in what is trained further."""

import copy
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from slicekit import Block, Dense, SequenceModel, SLiCE, Sparse, load, save
from slicekit.layers import BatchNorm, GatedBlock
from slicekit.stored_files import digest
from slicekit.ties import ties
from slicekit.training import train
from tests.training.small import EVERYTHING, Parity, StopAfter, assert_same_weights, small_model

WIDTH = 4


def make_layer() -> SLiCE:
    return SLiCE(WIDTH, Sparse(WIDTH, 0.5))


def make_model(*blocks: nn.Module) -> SequenceModel:
    return SequenceModel(vocabulary=5, outputs=5, width=WIDTH, blocks=blocks)


def tied_head() -> SequenceModel:
    model: Any = make_model(Block(make_layer(), WIDTH))
    model.heads[0].weight = model.embedding.weight
    return model


def one_block_twice() -> SequenceModel:
    block = GatedBlock(make_layer(), WIDTH, norm=BatchNorm())
    return make_model(block, block)


def one_vector_field() -> SequenceModel:
    first, second = make_layer(), make_layer()
    second.A = first.A
    return make_model(Block(first, WIDTH), Block(second, WIDTH))


MODELS = {"head": tied_head, "blocks": one_block_twice, "vector field": one_vector_field}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


def trained(model: nn.Module, tokens: Tensor) -> Tensor:
    """What a model gives after a few steps of gradient descent."""
    optimiser = torch.optim.SGD(model.train().parameters(), 0.01)
    for _ in range(3):
        optimiser.zero_grad()
        model(tokens).square().mean().backward()
        optimiser.step()
    return model.eval()(tokens)


@every_model
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_loaded_model_trains_as_the_one_that_was_saved(
    make: Callable[[], SequenceModel], dtype: torch.dtype, tmp_path: Path
) -> None:
    model = make().to(dtype)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert ties(again) == ties(model) != []
    assert len(list(again.parameters())) == len(list(model.parameters()))
    tokens = torch.randint(5, (2, 6))
    expected = trained(model, tokens)
    torch.testing.assert_close(trained(again, tokens), expected)


def test_a_tie_of_numbers_that_are_none_is_kept(tmp_path: Path) -> None:
    model: Any = tied_head()
    with torch.no_grad():
        model.embedding.weight.fill_(torch.nan)
    save(model, tmp_path / "model")
    assert ties(load(tmp_path / "model")) == [["embedding.weight", "heads.0.weight"]]


class Tying(nn.Module):
    """A module of a user's that ties on its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.there, self.back = nn.Linear(width, width), nn.Linear(width, width)
        self.back.weight = self.there.weight
        self.register_buffer("passing", torch.zeros(1), persistent=False)

    def configuration(self) -> dict[str, Any]:
        return {"width": self.there.in_features}


def test_a_class_that_ties_its_own_tensors_comes_back(tmp_path: Path) -> None:
    model = Tying(3)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model", classes=[Tying])
    assert again.back.weight is again.there.weight
    assert torch.equal(again.there.weight, model.there.weight)


def test_a_model_without_ties_has_none_on_disk(tmp_path: Path) -> None:
    save(make_model(Block(make_layer(), WIDTH)), tmp_path / "model")
    with safe_open(tmp_path / "model", framework="pt") as stored:
        assert "ties" not in json.loads(stored.metadata()["slicekit"])


def rewrite(path: Path, ties: Any) -> None:
    """Put other ties into a file, or none, as one who knows about digests would."""
    with safe_open(path, framework="pt") as stored:
        header = json.loads(stored.metadata()["slicekit"])
        tensors = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118
    del header["ties"]
    header |= {} if ties is None else {"ties": ties}
    text = json.dumps(header)
    save_file(tensors, path, metadata={"slicekit": text, "digest": digest(text, tensors)})


def test_a_file_from_before_ties_were_kept_still_loads(tmp_path: Path) -> None:
    model = tied_head().eval()
    save(model, tmp_path / "model")
    rewrite(tmp_path / "model", None)
    again, tokens = load(tmp_path / "model"), torch.randint(5, (2, 6))
    assert ties(again) == []
    assert torch.equal(again(tokens), model(tokens))


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        ("heads", "its ties are no lists of names"),
        ({"embedding.weight": "heads.0.weight"}, "its ties are no lists of names"),
        ([7], "its ties are no lists of names"),
        ([["heads.0.weight"]], "expected two names or more"),
        ([[]], "expected two names or more"),
        ([["embedding.weight", "heads.1.weight"]], "heads.1.weight', which the model does not"),
        ([["embedding.weight", ["heads"]]], r"\['heads'\], which the model does not have"),
        ([["embedding.weight", "__class__"]], "__class__', which the model does not have"),
        ([["embedding.weight", "embedding.weight"]], "embedding.weight twice"),
        (
            [["embedding.weight", "heads.0.weight"], ["heads.0.weight", "embedding.weight"]],
            "heads.0.weight twice",
        ),
        ([["embedding.weight", "heads.0.bias"]], "embedding.weight and heads.0.bias, which are"),
        (
            [["blocks.0.mixer.A.values", "blocks.0.mixer.A.places"]],
            "A.values and blocks.0.mixer.A.places, which are not the same",
        ),
        (
            [["blocks.0.norm_after_feedforward.weight", "blocks.0.norm_after_feedforward.bias"]],
            "weight and blocks.0.norm_after_feedforward.bias, which are not the same",
        ),
    ],
)
def test_damaged_ties_are_named(damaged: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model"
    save(tied_head(), path)
    rewrite(path, damaged)
    with pytest.raises(ValueError, match=rf"{path}: the model can't be built again: .*{message}"):
        load(path)


def shared_data(model: Any) -> None:
    model.heads[0].weight = nn.Parameter(model.embedding.weight.data)


def shared_part(model: Any) -> None:
    model.heads[0].bias = nn.Parameter(model.embedding.weight.data.view(-1)[3:8])


def parameter_and_buffer(model: Any) -> None:
    del model.heads[0].weight
    model.heads[0].register_buffer("weight", model.embedding.weight)


@pytest.mark.parametrize("share", [shared_data, shared_part, parameter_and_buffer])
def test_memory_that_is_shared_in_another_way_is_refused_by_name(
    share: Callable[[Any], None], tmp_path: Path
) -> None:
    model = make_model(Block(make_layer(), WIDTH))
    share(model)
    with pytest.raises(TypeError, match=r"embedding.weight and heads.0.\w+ share memory"):
        save(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_parts_of_one_tensor_beside_each_other_are_not_shared(tmp_path: Path) -> None:
    model: Any = SLiCE(WIDTH, Dense(WIDTH))
    rows = torch.randn(WIDTH + 1, WIDTH)
    model.start.weight, model.start.bias = nn.Parameter(rows[1:]), nn.Parameter(rows[0])
    save(model, tmp_path / "model")
    assert torch.equal(load(tmp_path / "model").start.weight, model.start.weight)
    both = torch.randn(WIDTH, WIDTH + 1)
    model.start.weight, model.start.bias = nn.Parameter(both[:, 1:]), nn.Parameter(both[:, 0])
    save(model, tmp_path / "model")
    assert torch.equal(load(tmp_path / "model").start.bias, model.start.bias)


def test_a_run_of_a_tied_model_that_was_cut_short_ends_tied(tmp_path: Path) -> None:
    def tied(seed: int = 0) -> Any:
        model: Any = small_model(seed=seed)
        model.heads[0].weight = model.embedding.weight
        return model

    settings = replace(EVERYTHING, steps=12)
    expected = train(tied(), Parity(), settings, folder=tmp_path / "whole").model
    with pytest.raises(KeyboardInterrupt):
        train(tied(), Parity(), settings, folder=tmp_path / "parts", watch=StopAfter(7))
    found = train(tied(seed=9), Parity(), folder=tmp_path / "parts", resume=True).model
    assert_same_weights(found, expected)
    assert ties(found) == ties(load(tmp_path / "parts" / "model.safetensors")) != []


def test_an_estimator_keeps_the_ties_of_its_networks(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    from slicekit.estimators import SliceClassifier
    from tests.estimators.waves import gradient, waves

    X, y = waves(12)
    model: Any = SliceClassifier(**gradient(members=2, layers=2)).fit(X, y)
    network = model.model_.networks[1]
    network.blocks[1] = copy.copy(network.blocks[0])
    model.save(tmp_path / "model")
    again: Any = SliceClassifier.load(tmp_path / "model")
    apart, tied = again.model_.networks
    assert ties(apart) == []
    assert ties(tied) == ties(network) != []


def test_jax_says_that_it_has_no_ties(tmp_path: Path) -> None:
    jax = pytest.importorskip("slicekit.jax")
    save(make_model(Block(SLiCE(WIDTH, Dense(WIDTH)), WIDTH)), tmp_path / "apart")
    model: Any = make_model(Block(SLiCE(WIDTH, Dense(WIDTH)), WIDTH))
    model.heads[0].weight = model.embedding.weight
    save(model, tmp_path / "tied")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.load(tmp_path / "apart")
    with pytest.warns(UserWarning, match=r"embedding.weight.*heads.0.weight.*another model"):
        jax.load(tmp_path / "tied")
