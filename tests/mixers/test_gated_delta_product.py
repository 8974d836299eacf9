"""Gated DeltaProduct against flash-linear-attention and its equations written out."""

import math

import pytest
import torch

from slicekit.mixers.delta_rule import product_steps
from slicekit.mixers.gated_delta_net import GatedDeltaNet
from slicekit.mixers.gated_delta_product import GatedDeltaProduct
from tests.mixers.agreement import assert_agrees
from tests.mixers.delta_by_hand import delta_layer, leaves_of, mamba_decay
from tests.mixers.peers import fla_naive

VARIANTS = {
    "default": {},
    "rank 3": {"rank": 3},
    "not gated": {"gated": False},
    "not negative": {"negative": False},
    "no output gate": {"output_gate": False, "kernel": 0},
    "sizes": {"head_dim": 3, "expand_values": 1.0, "heads": 3, "bias": True},
}


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_product_is_that_of_flash_linear_attention(rank, gated):
    naive = fla_naive("gated_delta_product").naive_recurrent_gated_delta_product
    batch, length, heads, dim, columns = 2, 7, 3, 4, 5
    x = {
        "q": torch.randn(batch, length, heads, dim),
        "k": torch.nn.functional.normalize(torch.randn(batch, length * rank, heads, dim), dim=-1),
        "v": torch.randn(batch, length * rank, heads, columns),
        "beta": 2 * torch.rand(batch, length * rank, heads),
        "hidden": torch.randn(batch, heads, dim, columns),
    }
    x["beta"][:, 1], x["beta"][:, 2], x["beta"][:, 3] = 0.0, 1.0, 2.0
    if gated:
        x["g"] = -torch.rand(batch, length, heads)
        x["g"][:, 2], x["g"][0, 3] = 0.0, -200.0
    x = {name: leaf.requires_grad_() for name, leaf in x.items()}

    def ours():
        folded = {name: leaf.transpose(1, 2).flatten(0, 1) for name, leaf in x.items()}
        keys, values, beta = (
            folded[name].unflatten(1, (length, rank)) for name in ("k", "v", "beta")
        )
        decay = folded["g"].exp() if gated else None
        steps = product_steps(folded["q"] * dim**-0.5, keys, values, beta, decay)
        read, last = steps.run(x["hidden"])
        return read.unflatten(0, (batch, heads)).transpose(1, 2), last

    def theirs():
        return naive(
            x["q"],
            x["k"],
            x["v"],
            x.get("g"),
            x["beta"],
            scale=dim**-0.5,
            initial_state=x["hidden"],
            num_householder=rank,
        )

    assert_agrees(ours, theirs, x, 1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_layer_is_its_equations_element_by_element(variant):
    mixer = GatedDeltaProduct(8, **{"heads": 2, **VARIANTS[variant]}).double()
    x = torch.randn(2, 6, 8, dtype=torch.float64, requires_grad=True)

    def by_hand():
        beta = torch.sigmoid(x @ mixer.beta.map.weight.T)
        beta = 2 * beta if mixer.beta.negative else beta
        decay = None if mixer.decay is None else mamba_decay(mixer, x)
        return [delta_layer(mixer, x, beta, decay, mixer.rank)]

    assert_agrees(lambda: [mixer(x)], by_hand, leaves_of(mixer, x), 1e-12)


@pytest.mark.parametrize("negative", [True, False])
def test_rank_one_is_the_gated_delta_net(negative):
    single = GatedDeltaNet(8, heads=2, negative=negative).double()
    product = GatedDeltaProduct(8, heads=2, rank=1, negative=negative).double()
    product.load_state_dict(single.state_dict())
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    lengths = torch.tensor([4, 9])
    y, state = single(x, lengths=lengths, return_state=True)
    y_product, state_product = product(x, lengths=lengths, return_state=True)
    assert torch.equal(y, y_product)
    assert torch.equal(state["hidden"], state_product["hidden"])


def test_two_reflections_rotate_by_twice_the_angle_between_their_keys():
    angle = 0.3
    keys = torch.tensor([[1.0, 0.0], [math.cos(angle), math.sin(angle)]], dtype=torch.float64)
    one = torch.ones(1, 1, 2, dtype=torch.float64)
    steps = product_steps(
        one, keys[None, None], torch.zeros_like(keys)[None, None], 2 * one[None, 0]
    )
    _, rotation = steps.run(torch.eye(2, dtype=torch.float64)[None, None])
    c, s = math.cos(2 * angle), math.sin(2 * angle)
    expected = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
    torch.testing.assert_close(rotation[0, 0], expected)


@pytest.mark.parametrize("logit", [-1e4, 1e4])
def test_saturated_gates_have_finite_gradients(logit):
    mixer = GatedDeltaProduct(4, heads=2, head_dim=2)
    assert mixer.decay is not None
    with torch.no_grad():
        mixer.beta.map.weight.fill_(logit)
        mixer.decay.map.weight.fill_(logit)
    x = torch.rand(2, 7, 4, requires_grad=True)
    y, state = mixer(x, return_state=True)
    (y.sum() + state["hidden"].sum()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in mixer.parameters())


def test_it_is_built_again_from_its_configuration():
    mixer = GatedDeltaProduct(8, heads=2, rank=3, gated=False)
    again = GatedDeltaProduct(**mixer.configuration())
    again.load_state_dict(mixer.state_dict())
    x = torch.randn(2, 5, 8)
    assert torch.equal(again(x), mixer(x))
