"""A layer among torch's own tools: copies, state dicts, functional transforms, optimisers."""

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.utils.parametrize import register_parametrization
from torch.nn.utils.prune import l1_unstructured
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

from slicekit import (
    Associative,
    Chunked,
    Dense,
    Diagonal,
    DirectSum,
    Mean,
    Recurrent,
    SequenceModel,
    SLiCE,
    Sparse,
    State,
    Wiring,
)
from slicekit.layers import States
from slicekit.scans import Scan
from tests.layers.reference import INPUTS, make_input, make_layer
from tests.market import STRUCTURES, every_structure


def make_model(**rest: Any) -> SequenceModel:
    return SequenceModel(
        vocabulary=4,
        outputs=2,
        width=4,
        layers=2,
        mixer=lambda width: SLiCE(width, STRUCTURES["sparse-by-density"]),
        wiring=Wiring.pre_norm(),
        **rest,
    )


@every_structure
def test_a_deep_copy_is_equal_and_apart(name: str) -> None:
    layer, x = make_layer(name), make_input()
    other = copy.deepcopy(layer)
    assert torch.equal(other(x), layer(x))
    own = {p.data_ptr() for p in layer.parameters()}
    assert own.isdisjoint(p.data_ptr() for p in other.parameters())


@every_structure
def test_a_layer_travels_by_pickle_and_torch_save(name: str) -> None:
    layer, x = make_layer(name, "gates"), make_input()
    assert torch.equal(pickle.loads(pickle.dumps(layer))(x), layer(x))
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), layer(x))


@every_structure
def test_a_state_dict_makes_another_layer_the_same(name: str) -> None:
    """Also where the number of parameters is random, as that of a sparse layer's entries is."""
    layer, other = (make_layer(name, "gates", mode="affine") for _ in range(2))
    x = make_input()
    assert not torch.equal(other(x), layer(x))
    result = other.load_state_dict(layer.state_dict())
    assert not result.missing_keys and not result.unexpected_keys
    assert torch.equal(other(x), layer(x))


@pytest.mark.parametrize("assign", [False, True])
def test_sparse_layers_of_other_sizes_load_into_each_other(assign: bool) -> None:
    layer, other = (
        SLiCE(INPUTS, Sparse(8, density=0.3), generator=torch.Generator().manual_seed(seed))
        for seed in (1, 2)
    )
    sizes = [x.A.floating()[0].numel() for x in (layer, other)]
    assert sizes[0] != sizes[1]
    other.load_state_dict(layer.state_dict(), assign=assign)
    x = torch.randn(2, 5, INPUTS)
    y = other(x)
    assert torch.equal(y, layer(x))
    y.sum().backward()
    assert other.A.floating()[0].grad is not None


def test_the_parts_of_a_sum_may_be_sparse() -> None:
    structure = DirectSum(Diagonal(2), Sparse(8, density=0.3))
    layer, other = SLiCE(INPUTS, structure), SLiCE(INPUTS, structure)
    other.load_state_dict(layer.state_dict())
    x = torch.randn(2, 5, INPUTS)
    assert torch.equal(other(x), layer(x))


def test_a_strict_load_names_what_is_missing_unknown_or_unfit() -> None:
    layer = make_layer("blocks")
    stored = layer.state_dict()
    missing = {k: x for k, x in stored.items() if k != "A.blocks"}
    with pytest.raises(RuntimeError, match=r"Missing key.*A\.blocks"):
        layer.load_state_dict(missing)
    with pytest.raises(RuntimeError, match=r"Unexpected key.*nonsense"):
        layer.load_state_dict(stored | {"nonsense": torch.zeros(1)})
    with pytest.raises(RuntimeError, match=r"size mismatch for A\.blocks"):
        make_layer(Dense(8)).load_state_dict(stored)


@pytest.mark.parametrize(
    ("scan", "mode"),
    [
        (None, "plain"),
        (None, "projective"),
        (Recurrent(), "plain"),
        (Recurrent(), "projective"),
        (Associative(), "plain"),
        (Chunked(2), "plain"),
    ],
)
def test_gradients_of_each_sample_by_vmap(scan: Scan | None, mode: str) -> None:
    layer, x = make_layer("blocks", "gates", mode=mode, scan=scan), make_input().detach()
    parameters = dict(layer.named_parameters())

    def loss(parameters: dict[str, Any], sample: Tensor) -> Tensor:
        return functional_call(layer, parameters, (sample[None],)).tanh().sum()

    each = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    for row, sample in enumerate(x):
        layer.zero_grad()
        loss(parameters, sample).backward()
        for name, parameter in parameters.items():
            assert parameter.grad is not None
            torch.testing.assert_close(each[name][row], parameter.grad)


def test_an_ensemble_by_vmap_over_parameters() -> None:
    layers = [make_layer("diagonal", scan=Recurrent()) for _ in range(3)]
    x = make_input().detach()
    stacked, _ = torch.func.stack_module_state(list(layers))

    def run(parameters: dict[str, Tensor]) -> Tensor:
        return functional_call(layers[0], parameters, (x,))

    together = vmap(run)(stacked)
    for y, layer in zip(together, layers, strict=True):
        torch.testing.assert_close(y, layer(x))


def test_second_derivatives_go_through_the_recurrent_scan() -> None:
    layer, x = make_layer("dense", scan=Recurrent()), make_input(1, 3)
    assert torch.autograd.gradgradcheck(lambda x: layer(x).tanh(), (x,))


@every_structure
def test_inference_mode_gives_the_same(name: str) -> None:
    layer, x = make_layer(name), make_input()
    with torch.inference_mode():
        y, state = layer(x, return_state=True)
        stepped, _ = layer.step(x[:, 0], state)
    assert y.is_inference() and not y.requires_grad
    assert torch.equal(y, layer(x))
    assert stepped.isfinite().all()


def test_a_model_in_inference_mode_gives_the_same() -> None:
    model, tokens = make_model(pool=Mean()), torch.randint(4, (3, 6))
    with torch.inference_mode():
        assert torch.equal(model(tokens, lengths=[6, 2, 4]), model(tokens, lengths=[6, 2, 4]))


@every_structure
def test_an_optimiser_step_lowers_the_loss_and_leaves_patterns_alone(name: str) -> None:
    layer, x = make_layer(name, "gates", mode="projective"), make_input().detach()
    target = torch.nn.functional.normalize(torch.randn_like(layer(x)), dim=-1)
    patterns = {k: b.clone() for k, b in layer.named_buffers()}
    optimiser = torch.optim.Adam(layer.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        optimiser.zero_grad()
        loss = (layer(x) - target).square().mean() + 1e-3 * layer.regularisation()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    for k, b in layer.named_buffers():
        assert not b.is_floating_point() and not b.requires_grad
        assert torch.equal(b, patterns[k])


def test_the_pattern_of_a_sparse_layer_is_a_buffer_and_its_entries_are_trained() -> None:
    layer = make_layer("sparse-by-density")
    assert "A.values" in dict(layer.named_parameters())
    assert dict(layer.named_buffers()).keys() == {"A.places"}
    assert layer.double().A()["places"].dtype == torch.int64


def test_gradient_checkpointing_gives_the_same_gradients() -> None:
    layer, x = make_layer("blocks"), make_input()
    (plain,) = torch.autograd.grad(layer(x).tanh().sum(), x)
    kept: Any = checkpoint(layer, x, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(kept.tanh().sum(), x)[0], plain)


class Halved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / 2


def test_parametrised_and_pruned_tensors_are_used_as_they_stand() -> None:
    layer, x = make_layer(Dense(4)), make_input()
    halved, pruned = copy.deepcopy(layer), copy.deepcopy(layer)
    register_parametrization(halved.A, "blocks", Halved())
    l1_unstructured(pruned.A, "blocks", amount=0.5)
    for changed, blocks in (
        (halved, layer.A()["blocks"] / 2),
        (pruned, layer.A()["blocks"] * pruned.A.get_buffer("blocks_mask")),
    ):
        plain = copy.deepcopy(layer)
        plain.load_state_dict(layer.state_dict() | {"A.blocks": blocks})
        torch.testing.assert_close(changed(x), plain(x))
        torch.testing.assert_close(changed.regularisation(), plain.regularisation())


def test_frozen_structures_get_no_gradient() -> None:
    layer, x = make_layer("blocks"), make_input()
    layer.A.requires_grad_(False)
    layer(x).sum().backward()
    assert x.grad is not None and x.grad.count_nonzero() > 0
    assert all(p.grad is None for p in layer.A.parameters())


def test_states_are_containers_to_torch() -> None:
    model, tokens = make_model(pool=Mean()), torch.randint(4, (3, 6))
    _, state = model(tokens, return_state=True)
    zeros = tree_map(torch.zeros_like, state)
    assert isinstance(zeros, States)
    *_, pooled = zeros
    assert isinstance(pooled, State) and pooled["count"].count_nonzero() == 0
    layer, x = make_layer(drive="differences"), make_input().detach()
    each = vmap(lambda x: layer(x[None], return_state=True)[1])(x)
    assert isinstance(each, State)
    torch.testing.assert_close(each["previous"].squeeze(1), x[:, -1])


def test_a_model_with_states_can_be_exported() -> None:
    model, tokens = make_model(pool=Mean()).eval(), torch.randint(4, (3, 6))
    expected, state = model(tokens, return_state=True)
    again, later = torch.export.export(model, (tokens,), {"return_state": True}).module()(
        tokens, return_state=True
    )
    torch.testing.assert_close(again, expected)
    assert isinstance(later, States)
    stepped = torch.export.export(model, (tokens, state)).module()(tokens, state)
    torch.testing.assert_close(stepped, model(tokens, state))
