"""Blocks: their wiring, written out independently, and whole = parts = steps."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from slicekit import Block, SLiCE, Wiring
from slicekit.layers import FeedForward, LayerNorm, RMSNorm
from tests.layers.reference import (
    INPUTS,
    LENGTH,
    assert_near,
    every_drive,
    every_split,
    gradients,
    make_input,
    make_layer,
    run_parts,
    run_steps,
)

WIRINGS = {
    "paper": Wiring(),
    "pre-norm": Wiring.pre_norm(),
    "pre-norm-by-layer-norm": Wiring.pre_norm(expansion=2, norm=LayerNorm()),
    "mixed": Wiring(mixed=True),
    "gated": Wiring(feedforward=FeedForward(nn.GLU)),
    "norms-everywhere": Wiring(
        norm=RMSNorm(), before_mixer=True, after_mixer=True, before_feedforward=True
    ),
}
every_wiring = pytest.mark.parametrize("wiring", WIRINGS.values(), ids=WIRINGS)


def make_block(wiring: Wiring | None = None, **rest: Any) -> Block:
    block = Block(make_layer("diagonal", **rest), INPUTS, wiring).double()
    for x in block.parameters():  # norms start as the identity, which would hide a missing scale
        nn.init.normal_(x, std=0.7)
    return block


def linear(x: Tensor, layer: nn.Module) -> Tensor:
    assert isinstance(layer, nn.Linear)
    return x @ layer.weight.t() + layer.bias


def layer_norm(x: Tensor, norm: nn.Module) -> Tensor:
    assert isinstance(norm, nn.LayerNorm)
    centred = x - x.mean(-1, keepdim=True)
    return (
        centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias
    )


def rms_norm(x: Tensor, norm: nn.Module) -> Tensor:
    assert isinstance(norm, nn.RMSNorm)
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight


def assert_same(block: Block, x: Tensor, expected: Tensor) -> None:
    y = block(x)
    assert_near(
        {"outputs": y, **gradients(y, block, x)},
        {"outputs": expected, **gradients(expected, block, x)},
    )


def test_the_default_is_the_papers_block() -> None:
    """Y = core(X) + X; Y = Y + tanh(Linear(Y)); Y = LayerNorm(Y); Y = Dropout(Y)."""
    block, x = make_block(), make_input()
    y = linear(block.mixer(x), block.project) + x
    y = y + torch.tanh(linear(y, block.feedforward[0]))
    assert_same(block, x, layer_norm(y, block.norm_after_feedforward))


def test_the_papers_block_has_a_gated_variant() -> None:
    """Y = Y + GLU(Linear_{d->2d}(Y)) instead."""
    block, x = make_block(WIRINGS["gated"]), make_input()
    y = linear(block.mixer(x), block.project) + x
    value, gate = linear(y, block.feedforward[0]).chunk(2, -1)
    y = y + value * torch.sigmoid(gate)
    assert_same(block, x, layer_norm(y, block.norm_after_feedforward))


def test_the_papers_block_drops_its_output_last() -> None:
    """A dropout of the normalised output: what survives is 1 / (1 - p) of what it was."""
    block = Block(make_layer("diagonal"), INPUTS, dropout=0.5).double()
    x = make_input(batch=40)
    whole = block.eval()(x)
    dropped = block.train()(x)
    kept = dropped != 0
    assert 0.3 < kept.double().mean() < 0.7
    torch.testing.assert_close(dropped[kept], 2 * whole[kept])


def test_the_pre_norm_block_has_its_norms_inside_the_branches() -> None:
    """Y = X + core(norm(X)); Y = Y + W2 gelu(W1 norm(Y)), with four times the width inside."""
    block, x = make_block(Wiring.pre_norm()), make_input()
    y = x + linear(block.mixer(rms_norm(x, block.norm_before_mixer)), block.project)
    hidden = linear(rms_norm(y, block.norm_before_feedforward), block.feedforward[0])
    assert hidden.shape[-1] == 4 * INPUTS
    hidden = hidden * (1 + torch.erf(hidden / 2**0.5)) / 2
    assert_same(block, x, y + linear(hidden, block.feedforward[2]))


def test_a_block_may_have_norms_everywhere() -> None:
    """Y = norm(X + core(norm(X))); Y = norm(Y + tanh(W norm(Y)))."""
    block, x = make_block(WIRINGS["norms-everywhere"]), make_input()
    y = x + linear(block.mixer(rms_norm(x, block.norm_before_mixer)), block.project)
    y = rms_norm(y, block.norm_after_mixer)
    y = y + torch.tanh(linear(rms_norm(y, block.norm_before_feedforward), block.feedforward[0]))
    assert_same(block, x, rms_norm(y, block.norm_after_feedforward))


def test_a_norm_may_come_right_after_the_mixer() -> None:
    """Y = W norm(core(X)) + X, and the rest as in the paper: the norm has the mixer's size."""
    block, x = make_block(WIRINGS["mixed"]), make_input()
    y = linear(layer_norm(block.mixer(x), block.norm_mixed), block.project) + x
    y = y + torch.tanh(linear(y, block.feedforward[0]))
    assert_same(block, x, layer_norm(y, block.norm_after_feedforward))


def test_the_pre_norm_block_never_drops_what_it_skips() -> None:
    block = make_block(Wiring.pre_norm())
    block.dropout.p = 1 - 1e-12
    x = make_input()
    torch.testing.assert_close(block.train()(x), x)


@every_wiring
def test_dropout_is_off_in_evaluation(wiring: Wiring) -> None:
    block = Block(make_layer("diagonal"), INPUTS, wiring, dropout=0.5).double()
    x = make_input()
    assert not torch.equal(block(x), block(x))
    assert torch.equal(block.eval()(x), block(x))


@every_wiring
@every_drive
def test_parts_and_steps_of_a_block_are_its_whole(wiring: Wiring, drive: str) -> None:
    block, x = make_block(wiring, drive=drive), make_input()
    whole, final = block(x, return_state=True)
    for sizes in every_split(LENGTH)[::3]:
        outputs, state = run_parts(block, x, sizes)
        assert_near({"outputs": torch.cat(outputs, 1)}, {"outputs": whole})
        assert_near(state.tensors, final.tensors)
    outputs, state = run_steps(block, x)
    y = torch.stack(outputs, 1)
    assert_near(
        {"outputs": y, **gradients(y, block, x)}, {"outputs": whole, **gradients(whole, block, x)}
    )
    assert_near(state.tensors, final.tensors)


@every_wiring
@every_drive
def test_padding_does_not_reach_a_block(wiring: Wiring, drive: str) -> None:
    block, x = make_block(wiring, drive=drive), make_input(length=4).detach()
    x[0, 2:] = torch.nan
    x.requires_grad_()
    y, state = block(x, lengths=[2, 4], return_state=True)
    alone, final = block(x[:1, :2], return_state=True)
    assert_near({"outputs": y[:1, :2]}, {"outputs": alone})
    assert_near(state.select(torch.tensor([0])).tensors, final.tensors)
    assert all(g.isfinite().all() for g in gradients(y, block, x).values())


def test_a_mixer_of_another_size_is_projected_and_an_equal_one_is_not() -> None:
    assert isinstance(Block(make_layer("diagonal"), INPUTS).project, nn.Linear)
    equal = SLiCE(7, make_layer("diagonal").structure)
    assert isinstance(Block(equal, 7).project, nn.Identity)


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_an_unfit_dropout_is_named(dropout: float) -> None:
    with pytest.raises(ValueError, match=rf"dropout={dropout}; expected a probability"):
        Block(make_layer(), INPUTS, dropout=dropout)


@pytest.mark.parametrize(("expansion", "back"), [(0, True), (2, False)])
def test_an_unfit_expansion_is_named(expansion: int, back: bool) -> None:
    with pytest.raises(ValueError, match=rf"expansion={expansion} with back={back}"):
        FeedForward(expansion=expansion, back=back)


def test_an_input_of_the_wrong_width_is_named() -> None:
    with pytest.raises(ValueError, match=r"x has shape \(2, 5, 3\); expected \(batch, length, 2\)"):
        make_block()(torch.zeros(2, 5, 3, dtype=torch.float64))
