"""The blocks of xLSTM: against the package of their authors, and in a model."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from slicekit import SequenceModel
from slicekit.mixers.headwise import HeadLayerNorm, HeadLinear
from slicekit.mixers.lstm import LSTM
from slicekit.mixers.mlstm import MLSTM
from slicekit.mixers.slstm import SLSTM, PowerLaw, Spaced
from slicekit.mixers.xlstm import GatedFeedForward, MLSTMBlock, SLSTMBlock, xlstm_blocks
from tests.mixers.xlstm_peer import (
    assert_same,
    block_names,
    block_pair,
    from_package,
    give_weights,
    mlstm_names,
    slstm_names,
    unsettled,
)


@pytest.mark.parametrize("kind, expansion", [("mlstm", None), ("slstm", 4 / 3), ("slstm", None)])
def test_a_block_is_the_authors(kind: str, expansion: float | None) -> None:
    torch.manual_seed(0)
    ours, theirs, inside = block_pair(kind, 16, 20, expansion)
    x = torch.randn(2, 20, 16, dtype=torch.float64)
    assert_same(ours, theirs, lambda named: block_names(named, inside), x, 1e-11)


def test_the_stack_is_the_authors() -> None:
    """Four blocks with sLSTMs in the second and fourth place, then their norm."""
    package = from_package("xlstm")
    feedforward = from_package("xlstm.components.feedforward")
    torch.manual_seed(0)
    layer = package.sLSTMLayerConfig(backend="vanilla", num_heads=4, dtype="float32")
    part = feedforward.FeedForwardConfig(proj_factor=1.3, act_fn="gelu")
    config = package.xLSTMBlockStackConfig(
        mlstm_block=package.mLSTMBlockConfig(package.mLSTMLayerConfig(num_heads=4)),
        slstm_block=package.sLSTMBlockConfig(slstm=layer, feedforward=part),
        context_length=12,
        num_blocks=4,
        embedding_dim=16,
        slstm_at=[1, 3],
    )
    theirs = package.xLSTMBlockStack(config)
    blocks = xlstm_blocks(16, 4)
    for place, (block, peer) in enumerate(zip(blocks, theirs.blocks, strict=True)):
        if place % 2:
            own = slstm_names({k: p.detach() for k, p in peer.xlstm.named_parameters()}, 4)
            assert torch.allclose(block.mixer.bias, own["bias"], atol=1e-5)  # type: ignore[union-attr]
    unsettled(theirs).double()
    for place, (block, peer) in enumerate(zip(blocks, theirs.blocks, strict=True)):
        inside = (lambda named: slstm_names(named, 4)) if place % 2 else mlstm_names
        block.double()
        named = {k: p.detach() for k, p in peer.named_parameters()}
        give_weights(block, block_names(named, inside))
    x = torch.randn(2, 12, 16, dtype=torch.float64)
    y = torch.nn.Sequential(*blocks)(x)
    assert torch.allclose(theirs.post_blocks_norm(y), theirs(x), rtol=1e-10, atol=1e-11)


def test_the_blocks_alternate_and_know_their_place() -> None:
    blocks = xlstm_blocks(16, 5, dropout=0.1)
    assert [type(block) for block in blocks] == [MLSTMBlock, SLSTMBlock] * 2 + [MLSTMBlock]
    first, second = blocks[:2]
    assert isinstance(first, MLSTMBlock) and isinstance(second, SLSTMBlock)
    assert second.configuration()["forget_bias"] == PowerLaw(1, 5)
    assert first.configuration()["blocks"] == second.configuration()["blocks"] == 5
    assert first.configuration()["dropout"] == 0.1
    for block in (first, second):
        again = type(block)(**block.configuration())
        again.load_state_dict(block.state_dict())
        x = torch.randn(2, 3, 16)
        assert torch.equal(again.eval()(x), block.eval()(x))


def test_a_model_of_them_can_be_cut_and_padded() -> None:
    torch.manual_seed(0)
    model = SequenceModel(
        vocabulary=7, outputs=3, width=8, blocks=xlstm_blocks(8, 2, multiple=8), final_norm=True
    ).double()
    tokens = torch.randint(7, (3, 11))
    whole = model(tokens)
    y, state = model(tokens[:, :6], return_state=True)
    parts = [y, model(tokens[:, 6:], state)]
    assert torch.allclose(torch.cat(parts, 1), whole, rtol=1e-10, atol=1e-12)
    state, steps = None, []
    for token in tokens.unbind(1):
        y, state = model.step(token, state)
        steps.append(y)
    assert torch.allclose(torch.stack(steps, 1), whole, rtol=1e-10, atol=1e-12)
    lengths = torch.tensor([11, 2, 5])
    padded = model(tokens, lengths=lengths)
    for b, n in enumerate(lengths):
        assert torch.allclose(padded[b, :n], whole[b, :n], rtol=1e-10, atol=1e-12)


def test_a_model_of_them_compiles_and_learns() -> None:
    torch.manual_seed(0)
    torch.compiler.reset()
    model = SequenceModel(
        vocabulary=4, outputs=4, width=8, blocks=xlstm_blocks(8, 2, multiple=8), final_norm=True
    )
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(50):
        tokens = torch.randint(4, (16, 8))
        logits = compiled(tokens)[:, 2:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, :-2].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) / 5 < 0.75 * losses[0], losses[::10]
    torch.compiler.reset()


WORD: Any = "a"
FRACTION: Any = 1.5

WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: LSTM(3, 0), "dim=0; expected at least 1"),
    (lambda: LSTM(FRACTION, 4), "channels=1.5 is a float; expected a whole number"),
    (lambda: LSTM(3, 4, forget_bias=WORD), "forget_bias='a' is a str"),
    (lambda: HeadLinear(0, 1), "width=0"),
    (lambda: HeadLinear(8, 3), "heads=3 does not divide width=8"),
    (lambda: HeadLayerNorm(2, 0), "dim=0"),
    (lambda: PowerLaw(3, 3), "block=3; expected 0..2 of 3"),
    (lambda: PowerLaw(0, 0), "blocks=0; expected at least 1"),
    (lambda: Spaced(WORD), "low='a' is a str; expected a finite number"),
    (lambda: SLSTM(8, heads=3), "heads=3 does not divide width=8"),
    (lambda: SLSTM(8, heads=0), "heads=0; expected at least 1"),
    (lambda: SLSTM(8, kernel=-1), "kernel=-1; expected at least 0"),
    (lambda: SLSTM(8, forget_bias=WORD), "forget_bias='a'; expected PowerLaw"),
    (lambda: SLSTM(8, recurrent_bound=-1.0), "recurrent_bound=-1.0; expected at least 0"),
    (lambda: SLSTM(8, dropout=1.5), "dropout=1.5; expected a probability"),
    (lambda: MLSTM(8, heads=3), "heads=3 does not divide inner size=64"),
    (lambda: MLSTM(8, qkv_block=7), "qkv_block=7 does not divide inner size=64"),
    (lambda: MLSTM(8, kernel=0), "kernel=0; expected at least 1"),
    (lambda: MLSTM(8, expand=0), "expand=0; expected a positive number"),
    (lambda: MLSTM(8, multiple=0), "multiple=0"),
    (lambda: MLSTM(8, dropout=1.5), "dropout=1.5; expected a probability"),
    (lambda: GatedFeedForward(0), "width=0"),
    (lambda: GatedFeedForward(8, expansion=0.0), "expansion=0.0; expected a positive number"),
    (lambda: MLSTMBlock(8, blocks=0), "blocks=0"),
    (lambda: SLSTMBlock(8, multiple=0), "multiple=0; expected at least 1"),
    (lambda: SLSTMBlock(8, blocks=0), "blocks=0; expected at least 1"),
    (lambda: SLSTMBlock(8, expansion=None, blocks=0), "blocks=0; expected at least 1"),
    (lambda: xlstm_blocks(8, 0), "layers=0"),
]


@pytest.mark.parametrize("call, message", WRONG)
def test_wrong_arguments_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()
