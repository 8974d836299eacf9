"""The block around state space models on time series."""

import pytest
import torch
from torch.nn import functional

from slicekit import Dense, Duration, LogODE, SLiCE, load, save
from slicekit.layers import BatchNorm, GatedBlock, LayerNorm
from slicekit.mixers import NRDE

WIDTH = 6
every_norm = pytest.mark.parametrize("norm", [BatchNorm(), LayerNorm()])


def make(norm, dropout: float = 0.0) -> GatedBlock:
    torch.manual_seed(0)
    return GatedBlock(SLiCE(WIDTH, Dense(WIDTH)), WIDTH, norm, dropout).double()


@every_norm
def test_it_is_one_branch_with_a_skip_connection(norm) -> None:
    block = make(norm)
    x = torch.randn(3, 7, WIDTH, dtype=torch.float64)
    if isinstance(norm, BatchNorm):
        normed = functional.batch_norm(x.mT, None, None, training=True).mT
    else:
        normed = functional.layer_norm(x, (WIDTH,))
    inner = functional.gelu(block.mixer(normed)) @ block.gate.weight.T + block.gate.bias
    value, gate = inner.chunk(2, -1)
    torch.testing.assert_close(block(x), x + value * gate.sigmoid())


@every_norm
def test_parts_and_steps_are_the_whole_in_evaluation(norm) -> None:
    block = make(norm, dropout=0.5)
    x = torch.randn(3, 7, WIDTH, dtype=torch.float64)
    block(x)
    block.eval()
    whole = block(x)
    first, state = block(x[:, :4], return_state=True)
    torch.testing.assert_close(torch.cat([first, block(x[:, 4:], state)], 1), whole)
    state, outputs = None, []
    for element in x.unbind(1):
        y, state = block.step(element, state)
        outputs.append(y)
    torch.testing.assert_close(torch.stack(outputs, 1), whole)


@every_norm
def test_padding_changes_nothing(norm) -> None:
    block = make(norm)
    block.eval()
    x = torch.randn(2, 7, WIDTH, dtype=torch.float64)
    padded = x.clone()
    padded[1, 3:] = torch.nan
    padded.requires_grad_()
    y = block(padded, lengths=[7, 3])
    torch.testing.assert_close(y[1, :3], block(x[1:, :3])[0])
    block.train()
    y = block(padded, lengths=[7, 3])
    (y[0].sum() + y[1, :3].sum()).backward()
    assert padded.grad is not None and padded.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in block.parameters())


@every_norm
def test_it_is_saved_and_loaded(norm, tmp_path) -> None:
    block = make(norm).float()
    x = torch.randn(2, 5, WIDTH)
    block(x)
    save(block, tmp_path / "block.safetensors")
    again = load(tmp_path / "block.safetensors")
    assert torch.equal(again(x), block.eval()(x))


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="dropout=1"):
        GatedBlock(SLiCE(6, Dense(6)), 6, dropout=1)
    with pytest.raises(ValueError, match="4 outputs; expected width=6"):
        GatedBlock(SLiCE(6, Dense(4)), 6)


@pytest.mark.parametrize(
    "mixer",
    [
        SLiCE(WIDTH, Dense(WIDTH), flow=LogODE(1, 3)),
        SLiCE(WIDTH, Dense(WIDTH), flow=LogODE(1, Duration(0.5))),
        NRDE(WIDTH, WIDTH, depth=1, window=3),
    ],
    ids=["steps", "time", "mixer"],
)
def test_a_mixer_with_windows_is_refused_by_name(mixer) -> None:
    message = f"mixer is a {type(mixer).__name__} with one output for each window; expected one"
    with pytest.raises(ValueError, match=message):
        GatedBlock(mixer, WIDTH)
