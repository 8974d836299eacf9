"""RWKV-7 against flash-linear-attention's DPLR reference and the paper's equations written out."""

import math

import pytest
import torch
from torch import Tensor

from slicekit.mixers.heads import unfold
from slicekit.mixers.rwkv7 import RWKV7, Driven
from tests.mixers.agreement import assert_agrees
from tests.mixers.delta_by_hand import leaves_of
from tests.mixers.market_delta import RANKS, awake
from tests.mixers.peers import fla_naive


def test_the_recurrence_is_that_of_flash_linear_attention():
    naive = fla_naive("generalized_delta_rule/dplr").dplr_recurrence
    mixer = RWKV7(12, head_dim=4)
    x = {name: torch.randn(2, 9, 12) for name in ("receptance", "written", "values")}
    x["decay"], x["rate"] = torch.rand(2, 9, 12), torch.rand(2, 9, 12)
    x["rate"][:, 1], x["rate"][:, 2], x["decay"][:, 3] = 0.0, 1.0, 1.0
    removed = torch.nn.functional.normalize(torch.randn(2, 9, 3, 4), dim=-1)
    x["removed"] = removed.flatten(2)
    x = {name: leaf.requires_grad_() for name, leaf in x.items()}
    hidden = torch.randn(2, 3, 4, 4, requires_grad=True)

    def ours():
        read, last = mixer.steps(Driven(**x, gate=torch.empty(0))).run(hidden)
        return unfold(read, 3).transpose(1, 2), last

    def theirs():
        by_head = {k: leaf.unflatten(-1, (3, 4)).transpose(1, 2) for k, leaf in x.items()}
        return naive(
            by_head["receptance"] * 2,  # it divides by the root of the size of a head
            by_head["written"],
            by_head["values"],
            -by_head["removed"],
            by_head["removed"] * by_head["rate"],
            by_head["decay"].log(),
            initial_state=hidden,
        )

    assert_agrees(ours, theirs, {**x, "hidden": hidden}, 1e-5)


def layer_by_hand(mixer: RWKV7, x: Tensor, first: Tensor | None) -> Tensor:
    """The paper's equations, one element and one head at a time, with S (values, keys)."""
    heads, dim = mixer.heads, mixer.head_dim
    states = [x.new_zeros(x.shape[0], dim, dim) for _ in range(heads)]
    rows = []
    for t in range(x.shape[1]):
        before = x[:, t - 1] if t else torch.zeros_like(x[:, 0])
        seen = [x[:, t] + (before - x[:, t]) * mu for mu in mixer.shift]
        x_r, x_w, x_k, x_v, x_a, x_g = seen
        r = x_r @ mixer.receptance.weight.T
        d = torch.tanh(x_w @ mixer.decay.first.weight.T) @ mixer.decay.second.weight.T
        w = torch.exp(-math.exp(-0.5) * torch.sigmoid(mixer.decay.second.bias + d))
        k = x_k @ mixer.key.weight.T
        v = x_v @ mixer.value.weight.T
        if mixer.residual is not None and first is not None:
            low = mixer.residual
            nu = torch.sigmoid(low.second.bias + x_v @ low.first.weight.T @ low.second.weight.T)
            v = (1 - nu) * v + nu * first[:, t]
        low = mixer.rate
        a = torch.sigmoid(low.second.bias + x_a @ low.first.weight.T @ low.second.weight.T)
        g = torch.sigmoid(x_g @ mixer.gate.first.weight.T) @ mixer.gate.second.weight.T
        kappa, k = k * mixer.removal, k * (1 + (a - 1) * mixer.replacement)
        outputs = []
        for h in range(heads):
            here = slice(h * dim, (h + 1) * dim)
            kap = kappa[:, here] / torch.linalg.vector_norm(kappa[:, here], dim=-1, keepdim=True)
            transition = torch.diag_embed(w[:, here]) - torch.einsum(
                "bi,bj->bij", kap, a[:, here] * kap
            )
            states[h] = states[h] @ transition + torch.einsum("bv,bk->bvk", v[:, here], k[:, here])
            o = torch.einsum("bvk,bk->bv", states[h], r[:, here])
            o = o - o.mean(-1, keepdim=True)
            o = o / torch.sqrt((o**2).mean(-1, keepdim=True) + dim * 1e-5)
            o = o * mixer.norm.weight[here] + mixer.norm.bias[here]
            agreement = (r[:, here] * mixer.bonus[h] * k[:, here]).sum(-1, keepdim=True)
            outputs.append((o + agreement * v[:, here]) * g[:, here])
        rows.append(torch.cat(outputs, -1) @ mixer.output.weight.T)
    return torch.stack(rows, 1)


def test_the_layer_is_its_equations_element_by_element():
    mixer = awake(RWKV7(12, head_dim=4, layer=1, depth=3, **RANKS)).double()
    x = torch.randn(2, 6, 12, dtype=torch.float64, requires_grad=True)
    assert_agrees(
        lambda: [mixer(x)], lambda: [layer_by_hand(mixer, x, None)], leaves_of(mixer, x), 1e-11
    )


def test_the_value_residual_draws_values_towards_those_of_the_first_layer():
    first = awake(RWKV7(12, head_dim=4, layer=0, depth=2, **RANKS)).double()
    later = awake(RWKV7(12, head_dim=4, layer=1, depth=2, residual=True, **RANKS)).double()
    x = torch.randn(2, 6, 12, dtype=torch.float64, requires_grad=True)

    def ours():
        return [later(torch.cat([first(x), first.first_values(x)], -1))]

    def by_hand():
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        values = (x + (before - x) * first.shift[3]) @ first.value.weight.T
        return [layer_by_hand(later, layer_by_hand(first, x, None), values)]

    leaves = {f"later {name}": p for name, p in later.named_parameters()}
    assert_agrees(ours, by_hand, {**leaves_of(first, x), **leaves}, 1e-11)


def test_first_values_continue_over_parts():
    mixer = RWKV7(8, head_dim=4)
    x = torch.randn(2, 7, 8)
    _, state = mixer(x[:, :3], return_state=True)
    parts = torch.cat([mixer.first_values(x[:, :3]), mixer.first_values(x[:, 3:], state)], 1)
    torch.testing.assert_close(parts, mixer.first_values(x))


def test_first_values_are_checked_and_masked_as_inputs_are():
    mixer = RWKV7(8, head_dim=4)
    x, lengths = torch.randn(2, 5, 8), [3, 5]
    expected = mixer.first_values(x)[0, :3]
    x[0, 3:] = torch.nan
    values = mixer.first_values(x, lengths=lengths)
    torch.testing.assert_close(values[0, :3], expected)
    assert values.isfinite().all()
    assert mixer.first_values(x[1:].bfloat16()).dtype == torch.bfloat16
    with pytest.raises(ValueError, match=r"x has shape \(2, 5, 7\)"):
        mixer.first_values(x[..., 1:])
    with pytest.raises(ValueError, match="lengths holds 6 at batch 1"):
        mixer.first_values(x, lengths=[3, 6])


def test_the_previous_element_is_carried_and_empty_parts_leave_it():
    mixer = RWKV7(8, head_dim=4)
    x = torch.randn(3, 5, 8)
    _, state = mixer(x, return_state=True)
    _, after = mixer(x.flip(1), state, lengths=torch.tensor([0, 2, 5]), return_state=True)
    assert torch.equal(after["previous"][0], state["previous"][0])
    assert torch.equal(after["previous"][1, 0], x.flip(1)[1, 1])
    assert torch.equal(after["previous"][2, 0], x[2, 0])
    assert torch.equal(after["hidden"][0], state["hidden"][0])


@pytest.mark.parametrize(("layer", "depth"), [(0, 1), (0, 4), (3, 4)])
def test_parameters_start_as_the_authors_do(layer, depth):
    width, head = 128, 64
    mixer = RWKV7(width, layer=layer, depth=depth, residual=True)
    assert mixer.residual is not None
    up = layer / (depth - 1) if depth > 1 else 0.0
    for n in (0, 1, 63, 64, 100, 127):
        linear = n / (width - 1) - 0.5
        zigzag = ((n % head) - (head - 1) / 2) / ((head - 1) / 2)
        zigzag *= abs(zigzag)
        decay = -6 + 6 * (n / (width - 1)) ** (1 + up**0.3) + 0.5 + zigzag * 2.5
        starts = {
            mixer.decay.second.bias: decay,
            mixer.rate.second.bias: -0.19 + zigzag * 0.3 + linear * 0.4,
            mixer.residual.second.bias: 0.73 - linear * 0.4,
            mixer.removal: 0.71 - linear * 0.1,
            mixer.norm.weight: ((layer + 1) / depth) ** 0.7,
        }
        for p, start in starts.items():
            assert p[n].item() == pytest.approx(start, abs=1e-5)
        for row, power in zip(mixer.shift, (0.2, 0.9, 0.7, 0.7, 0.9, 0.2), strict=True):
            start = 1 - (n / width) ** (power * (1 - layer / depth))
            assert row[n].item() == pytest.approx(start, abs=1e-5)
    assert not mixer.output.weight.any() and not mixer.decay.first.weight.any()
    assert mixer.key.weight.abs().max() <= 0.05 / width**0.5
    ranks = (mixer.decay, mixer.rate, mixer.gate, mixer.residual)
    assert [p.first.out_features for p in ranks] == [32, 32, 64, 32]
    product = mixer.gate.second.weight.T @ mixer.gate.second.weight
    torch.testing.assert_close(product, 0.01 * torch.eye(64), atol=1e-6, rtol=0)


@pytest.mark.parametrize("logit", [-1e4, 1e4])
def test_saturated_gates_are_exact_and_gradients_finite(logit):
    mixer = awake(RWKV7(8, head_dim=4, **RANKS))
    for gate in (mixer.decay, mixer.rate):
        torch.nn.init.constant_(gate.second.bias, logit)
    x = torch.randn(2, 7, 8, requires_grad=True)
    driven, _ = mixer.drive(x, mixer.start(2, x))
    decay = torch.tensor(1.0 if logit < 0 else math.exp(-math.exp(-0.5)))
    torch.testing.assert_close(driven.decay, decay.expand_as(driven.decay), rtol=1e-6, atol=0)
    assert (driven.rate == (0.0 if logit < 0 else 1.0)).all()
    mixer(x).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in mixer.parameters())


def test_it_is_built_again_from_its_configuration():
    mixer = awake(RWKV7(8, head_dim=4, layer=1, depth=2, residual=True, gate_rank=5))
    again = RWKV7(**mixer.configuration())
    again.load_state_dict(mixer.state_dict())
    x = torch.randn(2, 5, 16)
    assert torch.equal(again(x), mixer(x))
