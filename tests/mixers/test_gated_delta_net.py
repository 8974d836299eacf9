"""Gated DeltaNet against flash-linear-attention, transformers and its equations written out."""

import pytest
import torch
from torch import Tensor

from slicekit.mixers.delta_rule import Decay, delta_steps
from slicekit.mixers.gated_delta_net import GatedDeltaNet
from tests.mixers.agreement import assert_agrees
from tests.mixers.delta_by_hand import delta_layer, leaves_of, mamba_decay
from tests.mixers.peers import fla_naive

VARIANTS = {
    "default": {},
    "negative": {"negative": True},
    "no output gate": {"output_gate": False},
    "no convolution": {"kernel": 0},
    "biased convolution": {"kernel": 3, "bias": True},
    "sizes": {"head_dim": 3, "expand_values": 1.0, "heads": 3},
}


def operands(batch=2, length=9, heads=3, dim=4, columns=5) -> dict[str, Tensor]:
    """Queries, keys, values, logarithms of decays, betas and a state; some gates at extremes."""
    queries, keys = torch.randn(2, batch, length, heads, dim).unbind()
    keys = torch.nn.functional.normalize(keys, dim=-1)
    values = torch.randn(batch, length, heads, columns)
    beta = torch.rand(batch, length, heads)
    beta[:, 1], beta[:, 2], beta[:, 3] = 0.0, 1.0, 2.0
    log_decay = -torch.rand(batch, length, heads)
    log_decay[:, 4], log_decay[0, 5] = 0.0, -200.0
    hidden = torch.randn(batch, heads, dim, columns)
    found = {"q": queries, "k": keys, "v": values, "g": log_decay, "beta": beta, "hidden": hidden}
    return {name: x.requires_grad_() for name, x in found.items()}


def ours(x: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    batch, _, heads, dim = x["q"].shape
    folded = {name: x[name].transpose(1, 2).flatten(0, 1) for name in ("q", "k", "v", "g", "beta")}
    steps = delta_steps(
        folded["q"] * dim**-0.5, folded["k"], folded["v"], folded["beta"], folded["g"].exp()
    )
    read, last = steps.run(x["hidden"])
    return read.unflatten(0, (batch, heads)).transpose(1, 2), last


@pytest.mark.parametrize("form", ["recurrent", "chunk"])
def test_the_gated_delta_rule_is_that_of_flash_linear_attention(form):
    naive = getattr(fla_naive("gated_delta_rule"), f"naive_{form}_gated_delta_rule")
    x = operands()

    def theirs():
        given = {name: x[name] for name in ("q", "k", "v", "g", "beta")}
        chunks = {"chunk_size": 4} if form == "chunk" else {}
        return naive(**given, initial_state=x["hidden"], output_final_state=True, **chunks)

    assert_agrees(lambda: ours(x), theirs, x, 2e-5)


@pytest.mark.parametrize("form", ["recurrent", "chunk"])
def test_the_gated_delta_rule_is_that_of_transformers(form):
    qwen = qwen3_next()
    rule = getattr(qwen, f"torch_{form}_gated_delta_rule")
    x = operands()

    def theirs():
        given = (x["q"], x["k"], x["v"], x["g"], x["beta"])
        return rule(*given, initial_state=x["hidden"], output_final_state=True)

    assert_agrees(lambda: ours(x), theirs, x, 2e-5)


def qwen3_next():
    return pytest.importorskip(
        "transformers.models.qwen3_next.modeling_qwen3_next",
        reason="transformers is a peer; PEERS=1 make test installs it",
    )


def test_the_layer_is_that_of_qwen3_next():
    qwen = qwen3_next()
    heads, dim, columns, width = 2, 4, 6, 8
    settings = qwen.Qwen3NextConfig(
        hidden_size=width,
        linear_num_value_heads=heads,
        linear_num_key_heads=heads,
        linear_key_head_dim=dim,
        linear_value_head_dim=columns,
        linear_conv_kernel_dim=4,
        num_hidden_layers=1,
        layer_types=["linear_attention"],
        rms_norm_eps=1e-5,
        hidden_act="silu",
    )
    theirs = qwen.Qwen3NextGatedDeltaNet(settings, 0)
    mixer = GatedDeltaNet(width, heads=heads, head_dim=dim, expand_values=1.5)
    assert mixer.output_gate is not None and mixer.features.convolution is not None
    queries, keys, values = mixer.features.map.weight.split(mixer.features.sizes)
    gate = mixer.output_gate.weight
    parts = (queries, keys, values, gate)
    by_head = [part.unflatten(0, (heads, -1)) for part in parts]
    rates = [mixer.beta.map.weight, mixer.decay.map.weight]
    weights = {
        "in_proj_qkvz.weight": torch.cat(by_head, 1).flatten(0, 1),
        "in_proj_ba.weight": torch.stack(rates, 1).flatten(0, 1),
        "conv1d.weight": mixer.features.convolution.weight,
        "dt_bias": mixer.decay.step_bias,
        "A_log": mixer.decay.log_rate,
        "norm.weight": mixer.norm.weight,
        "out_proj.weight": mixer.output.weight,
    }
    x = torch.randn(2, 9, width, requires_grad=True)
    assert_agrees(
        lambda: [mixer(x)],
        lambda: [torch.func.functional_call(theirs, weights, (x,))],
        leaves_of(mixer, x),
        2e-5,
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_layer_is_its_equations_element_by_element(variant):
    mixer = GatedDeltaNet(8, **{"heads": 2, **VARIANTS[variant]}).double()
    x = torch.randn(2, 6, 8, dtype=torch.float64, requires_grad=True)

    def by_hand():
        beta = torch.sigmoid(x @ mixer.beta.map.weight.T)
        beta = 2 * beta if mixer.beta.negative else beta
        return [delta_layer(mixer, x, beta, mamba_decay(mixer, x))]

    assert_agrees(lambda: [mixer(x)], by_hand, leaves_of(mixer, x), 1e-12)


@pytest.mark.parametrize("decay", [0.0, 1.0])
def test_a_decay_of_zero_forgets_everything_and_of_one_nothing(decay):
    mixer = GatedDeltaNet(4, heads=2, head_dim=2, kernel=0)
    with torch.no_grad():
        mixer.decay.map.weight.fill_(1e4 if decay == 0 else -1e4)
        mixer.beta.map.weight.fill_(-1e4)
    x = torch.rand(1, 3, 4, requires_grad=True)
    assert (mixer.decay(x, torch.float32) == decay).all()
    before = mixer.start(1, x).map(torch.ones_like)
    y, after = mixer(x, before, return_state=True)
    assert (after["hidden"] == decay * before["hidden"]).all()
    y.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in mixer.parameters())


def test_rates_and_steps_start_in_the_authors_ranges():
    decay = Decay(4, 2000)
    rates, steps = decay.log_rate.exp(), torch.nn.functional.softplus(decay.step_bias)
    assert 0 < rates.min() < 0.1 and 15.9 < rates.max() <= 16.0001
    assert 0.99e-3 < steps.min() < 1.1e-3 and 0.09 < steps.max() < 0.1001
    assert 0.0085 < steps.median() < 0.0115


def test_the_advised_head_makes_six_squares_of_the_width():
    for output_gate in (True, False):
        mixer = GatedDeltaNet(48, heads=6, output_gate=output_gate)
        count = sum(p.numel() for p in mixer.parameters() if p.ndim == 2 and p.shape[0] > 6)
        assert count == 6 * 48**2
    assert GatedDeltaNet(2048).keys == 256


def test_it_is_built_again_from_its_configuration():
    mixer = GatedDeltaNet(8, heads=2, negative=True, kernel=2)
    again = GatedDeltaNet(**mixer.configuration())
    again.load_state_dict(mixer.state_dict())
    x = torch.randn(2, 5, 8)
    assert torch.equal(again(x), mixer(x))
