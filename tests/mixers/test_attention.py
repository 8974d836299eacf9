"""Attention against torch's own modules and transformers' rotary embedding."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from slicekit import SequenceModel
from slicekit.layers.block import Block, LayerNorm, Wiring
from slicekit.mixers import attention
from slicekit.mixers.attention import CausalAttention
from slicekit.mixers.positions import Rotary, SinusoidalPositions

WIDTH, HEADS, LENGTH = 16, 4, 11


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-11)


def causal_mask(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def copy_attention(mixer: CausalAttention, peer: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        for p in peer.parameters():
            p.normal_(std=0.4)
        mixer.queries_keys_values.weight.copy_(peer.in_proj_weight)
        mixer.readout.weight.copy_(peer.out_proj.weight)
        if peer.in_proj_bias is not None:
            mixer.queries_keys_values.bias.copy_(peer.in_proj_bias)
            mixer.readout.bias.copy_(peer.out_proj.bias)


@pytest.mark.parametrize("bias", [True, False])
def test_without_positions_it_is_torch_attention(bias: bool) -> None:
    torch.manual_seed(0)
    peer = nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=True).double()
    mixer = CausalAttention(WIDTH, HEADS, positions=None, bias=bias).double()
    copy_attention(mixer, peer)
    x = torch.randn(3, LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)
    y = mixer(x)
    expected, _ = peer(x, x, x, attn_mask=causal_mask(LENGTH), need_weights=False)
    assert_same([y], [expected])
    own = [mixer.queries_keys_values.weight, mixer.readout.weight]
    theirs = [peer.in_proj_weight, peer.out_proj.weight]
    if bias:
        own += [mixer.queries_keys_values.bias, mixer.readout.bias]
        theirs += [peer.in_proj_bias, peer.out_proj.bias]
    weight = torch.randn_like(y)
    found = torch.autograd.grad(y, [x, *own], weight)
    assert_same(list(found), list(torch.autograd.grad(expected, [x, *theirs], weight)))


def test_it_starts_as_torch_attention_does() -> None:
    torch.manual_seed(0)
    mixer = CausalAttention(256, 4)
    bound = (6 / (256 + 3 * 256)) ** 0.5
    weight = mixer.queries_keys_values.weight.detach()
    assert weight.abs().max() <= bound and weight.std().item() == pytest.approx(
        bound / 3**0.5, rel=0.02
    )
    assert not mixer.queries_keys_values.bias.any() and not mixer.readout.bias.any()


def test_a_pre_norm_block_is_a_torch_encoder_layer() -> None:
    torch.manual_seed(0)
    peer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
    ).double()
    mixer = CausalAttention(WIDTH, HEADS, positions=None)
    block = Block(mixer, WIDTH, Wiring.pre_norm(4, LayerNorm())).double()
    copy_attention(mixer, peer.self_attn)
    feedforward: Any = block.feedforward
    pairs: list[tuple[Any, Any]] = [
        (block.norm_before_mixer, peer.norm1),
        (block.norm_before_feedforward, peer.norm2),
        (feedforward[0], peer.linear1),
        (feedforward[2], peer.linear2),
    ]
    with torch.no_grad():
        for own, theirs in pairs:
            own.weight.copy_(theirs.weight.normal_())
            own.bias.copy_(theirs.bias.normal_())
    x = torch.randn(3, LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)
    y, expected = block(x), peer(x, src_mask=causal_mask(LENGTH))
    own = [x, *(p for a, _ in pairs for p in (a.weight, a.bias))]
    theirs = [x, *(p for _, b in pairs for p in (b.weight, b.bias))]
    weight = torch.randn_like(y)
    assert_same([y], [expected])
    found = torch.autograd.grad(y, own, weight)
    assert_same(list(found), list(torch.autograd.grad(expected, theirs, weight)))


def test_rotary_is_that_of_transformers() -> None:
    llama = pytest.importorskip(
        "transformers.models.llama.modeling_llama",
        reason="transformers is a peer; PEERS=1 make test installs it",
    )
    q, k = torch.randn(2, 3, HEADS, LENGTH, 8, dtype=torch.float64).requires_grad_().unbind()
    positions = torch.arange(LENGTH).expand(3, -1) + torch.tensor([[0], [5], [100]])
    turn = positions.double().unsqueeze(-1) * 10000.0 ** (-torch.arange(0, 8, 2).double() / 8)
    both = torch.cat([turn, turn], -1)
    expected = llama.apply_rotary_pos_emb(q, k, both.cos(), both.sin())
    found = [Rotary().rotate(x, positions) for x in (q, k)]
    assert_same(found, list(expected))
    weight = torch.randn_like(q)
    for x, a, b in zip((q, k), found, expected, strict=True):
        assert_same(
            list(torch.autograd.grad(a, x, weight)), list(torch.autograd.grad(b, x, weight))
        )


def test_rotary_scores_depend_on_the_difference_of_positions() -> None:
    q, k = torch.randn(2, 1, 1, 6, 8, dtype=torch.float64).unbind()
    positions = torch.randint(50, (1, 6))
    rotate = Rotary().rotate
    scores = rotate(q, positions) @ rotate(k, positions).mT
    moved = rotate(q, positions + 100_000) @ rotate(k, positions + 100_000).mT
    torch.testing.assert_close(moved, scores, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(rotate(q, positions + 1) @ rotate(k, positions).mT, scores)


def test_shifted_sequences_have_the_same_outputs() -> None:
    """A state that has seen elements, none of which count any more, changes positions alone."""
    mixer = CausalAttention(WIDTH, HEADS).double()
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    start = mixer.start(2, x)
    later = type(start)({**start.tensors, "seen": torch.tensor([7, 1000])})
    torch.testing.assert_close(mixer(x, later), mixer(x), rtol=1e-9, atol=1e-9)


def test_many_queries_after_a_part_are_masked_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    mixer = CausalAttention(WIDTH, HEADS).double()
    x = torch.randn(2, 30, WIDTH, dtype=torch.float64)
    expected = mixer(x)
    monkeypatch.setattr(attention, "ROWS", 4)
    _, state = mixer(x[:, :9], return_state=True)
    torch.testing.assert_close(mixer(x[:, 9:], state), expected[:, 9:], rtol=1e-10, atol=1e-11)


def test_empty_sequences_in_every_part_stay_numbers() -> None:
    mixer = CausalAttention(WIDTH, HEADS).double()
    x = torch.randn(2, 4, WIDTH, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([4, 0])
    y, state = mixer(x, lengths=lengths, return_state=True)
    z, state = mixer(x, state, lengths, return_state=True)
    assert y.isfinite().all() and z.isfinite().all() and state["seen"].tolist() == [8, 0]
    (found,) = torch.autograd.grad(z.sum() + y.sum(), x)
    assert found.isfinite().all()
    torch.testing.assert_close(mixer(x, state)[1:], mixer(x[1:]), rtol=1e-10, atol=1e-11)


def test_dropout_acts_in_training_alone() -> None:
    mixer = CausalAttention(WIDTH, HEADS, dropout=0.5)
    x = torch.randn(2, LENGTH, WIDTH)
    assert not torch.equal(mixer(x), mixer(x))
    mixer.eval()
    assert torch.equal(mixer(x), mixer(x))


def test_a_transformer_of_the_blocks_runs_in_parts() -> None:
    torch.manual_seed(0)
    wiring = Wiring.pre_norm(2, LayerNorm())
    blocks = [Block(CausalAttention(8, 2, positions=None), 8, wiring) for _ in range(2)]
    model = SequenceModel(
        vocabulary=5, outputs=5, width=8, blocks=[SinusoidalPositions(8), *blocks], wiring=wiring
    ).double()
    tokens = torch.randint(5, (3, 9))
    whole = model(tokens)
    first, state = model(tokens[:, :4], return_state=True)
    torch.testing.assert_close(torch.cat([first, model(tokens[:, 4:], state)], 1), whole)
    y, state = model.step(tokens[:, 4], state)
    torch.testing.assert_close(y, whole[:, 4])
