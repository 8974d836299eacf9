"""Gated linear attention against flash-linear-attention and its equations written out."""

import pytest
import torch
from torch import nn

from slicekit.mixers.gated_linear_attention import GatedLinearAttention, PerHead, PerKey
from slicekit.mixers.heads import Steps
from slicekit.scans import Outer
from slicekit.structures import DiagonalTransition
from tests.mixers.agreement import assert_agrees
from tests.mixers.delta_by_hand import filtered, finished, leaves_of
from tests.mixers.peers import fla_naive

VARIANTS = {
    "default": {},
    "gate per head": {"gates": PerHead()},
    "no gate": {"gates": None},
    "sharp gates": {"gates": PerKey(rank=3, divisor=1.0)},
    "convolution": {"kernel": 4, "bias": True},
    "no output gate": {"output_gate": False},
    "sizes": {"expand_keys": 1.0, "expand_values": 2.0, "heads": 4},
}


@pytest.mark.parametrize("per_head", [False, True])
def test_the_recurrence_is_that_of_flash_linear_attention(per_head):
    batch, length, heads, dim, columns = 2, 9, 3, 4, 5
    gates = -torch.rand(batch, length, heads, *(() if per_head else (dim,)))
    gates[:, 2], gates[0, 3] = 0.0, -200.0
    x = {
        "q": torch.randn(batch, length, heads, dim),
        "k": torch.randn(batch, length, heads, dim),
        "v": torch.randn(batch, length, heads, columns),
        "g": gates,
        "hidden": torch.randn(batch, heads, dim, columns),
    }
    x = {name: leaf.requires_grad_() for name, leaf in x.items()}

    def ours():
        folded = {name: leaf.transpose(1, 2).flatten(0, 1) for name, leaf in x.items()}
        kept = folded["g"].exp()
        kept = kept.unsqueeze(-1).expand(-1, -1, dim) if per_head else kept
        inputs = Outer(folded["k"], folded["v"])
        steps = Steps(DiagonalTransition(kept), inputs, folded["q"] * dim**-0.5)
        read, last = steps.run(x["hidden"])
        return read.unflatten(0, (batch, heads)).transpose(1, 2), last

    def theirs():
        given = (x["q"], x["k"], x["v"], x["g"])
        carried = {"initial_state": x["hidden"], "output_final_state": True}
        if per_head:
            return fla_naive("simple_gla").naive_recurrent_simple_gla(*given, **carried)
        return fla_naive("gla").naive_recurrent_gla(*given, **carried)

    assert_agrees(ours, theirs, x, 1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_layer_is_its_equations_element_by_element(variant):
    mixer = GatedLinearAttention(8, **{"heads": 2, **VARIANTS[variant]}).double()
    x = torch.randn(2, 6, 8, dtype=torch.float64, requires_grad=True)

    def by_hand():
        heads, dim, columns = mixer.heads, mixer.keys, mixer.values
        queries, keys, values = filtered(mixer, x, mixer.features.convolution is not None)
        states = [x.new_zeros(2, columns, dim) for _ in range(heads)]
        read = []
        for t in range(x.shape[1]):
            read.append([])
            for h in range(heads):
                key, value = slice(h * dim, (h + 1) * dim), slice(h * columns, (h + 1) * columns)
                if mixer.gates is not None:
                    kept = torch.sigmoid(logits(mixer.gate_map, x[:, t])) ** (
                        1 / mixer.gates.divisor
                    )
                    per_head = isinstance(mixer.gates, PerHead)
                    kept = kept[:, h : h + 1] if per_head else kept[:, key]
                    states[h] = states[h] * kept[:, None]
                written = torch.einsum("bv,bk->bvk", values[:, t, value], keys[:, t, key])
                states[h] = states[h] + written
                q = queries[:, t, key] / dim**0.5
                read[-1].append(torch.einsum("bvk,bk->bv", states[h], q))
        return [finished(mixer, read, x)]

    assert_agrees(lambda: [mixer(x)], by_hand, leaves_of(mixer, x), 1e-12)


def logits(gate_map, x):
    if isinstance(gate_map, nn.Sequential):
        first, second = gate_map
        return x @ first.weight.T @ second.weight.T + second.bias
    return x @ gate_map.weight.T + gate_map.bias


@pytest.mark.parametrize("gates", [PerKey(rank=2), PerHead()], ids=["key", "head"])
@pytest.mark.parametrize("logit", [-1e4, 1e4])
def test_saturated_gates_are_exact_and_gradients_finite(gates, logit):
    mixer = GatedLinearAttention(4, heads=2, gates=gates)
    for p in mixer.gate_map.parameters() if mixer.gate_map is not None else ():
        nn.init.constant_(p, 0.0 if p.ndim == 2 else logit)
    x = torch.rand(2, 7, 4, requires_grad=True)
    steps, _ = mixer.recurrence(x, mixer.start(2, x))
    assert (steps.transitions.tensors()[0] == (0.0 if logit < 0 else 1.0)).all()
    y, state = mixer(x, return_state=True)
    (y.sum() + state["hidden"].sum()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in mixer.parameters())


def test_one_gate_a_head_is_passed_on_as_one_number():
    mixer = GatedLinearAttention(8, heads=2, gates=PerHead())
    x = torch.randn(2, 5, 8)
    steps, _ = mixer.recurrence(x, mixer.start(2, x))
    assert steps.transitions.tensors()[0].stride(-1) == 0


def test_it_is_built_again_from_its_configuration():
    mixer = GatedLinearAttention(8, heads=2, gates=PerKey(rank=4), kernel=2)
    again = GatedLinearAttention(**mixer.configuration())
    again.load_state_dict(mixer.state_dict())
    x = torch.randn(2, 5, 8)
    assert torch.equal(again(x), mixer(x))
