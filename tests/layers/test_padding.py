"""Padding is exact: whatever stands past the end, a sequence is as if it were alone."""

import pytest
import torch
from torch import Tensor

from slicekit import SLiCE, State
from tests.layers.reference import (
    INPUTS,
    assert_near,
    every_drive,
    every_initial,
    every_mode,
    gradients,
    make_input,
    make_layer,
)
from tests.market import every_structure

LENGTHS = torch.tensor([3, 1, 6, 5])
PADDED = 6


def padded_input() -> Tensor:
    """Sequences with NaN and infinity in their padding."""
    x = make_input(len(LENGTHS), PADDED).detach()
    garbage = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e300], dtype=x.dtype)
    for row, length in zip(x, LENGTHS.tolist(), strict=True):
        row[length:] = garbage[torch.randint(4, row[length:].shape)]
    return x.requires_grad_()


def alone(layer: SLiCE, x: Tensor) -> tuple[Tensor, State]:
    """Each sequence by itself, its valid outputs one after the other, and the stacked states."""
    found = [
        layer(row[None, :length], return_state=True)
        for row, length in zip(x, LENGTHS.tolist(), strict=True)
    ]
    states = {k: torch.cat([state[k] for _, state in found]) for k in found[0][1].tensors}
    return torch.cat([y[0] for y, _ in found]), State(states)


def valid(y: Tensor, lengths: Tensor = LENGTHS) -> Tensor:
    """The outputs inside the sequences, one after the other."""
    return torch.cat([row[:length] for row, length in zip(y, lengths.tolist(), strict=True)])


def assert_exact(layer: SLiCE, x: Tensor) -> None:
    y, state = layer(x, lengths=LENGTHS, return_state=True)
    expected, final = alone(layer, x)
    found = gradients(valid(y), layer, x)
    assert all(g.isfinite().all() for g in found.values())
    assert_near(
        {"outputs": valid(y), **found}, {"outputs": expected, **gradients(expected, layer, x)}
    )
    assert_near(state.tensors, final.tensors)


@every_structure
@every_mode
def test_a_padded_batch_of_every_structure_is_its_sequences_alone(name: str, mode: str) -> None:
    assert_exact(make_layer(name, mode=mode), padded_input())


@every_drive
@every_initial
@every_mode
def test_a_padded_batch_of_every_drive_is_its_sequences_alone(
    drive: str, initial: str, mode: str
) -> None:
    assert_exact(make_layer("blocks", drive, initial, mode), padded_input())


@every_drive
@every_initial
@every_mode
def test_past_the_end_the_state_stays_as_it_is(drive: str, initial: str, mode: str) -> None:
    layer, x = make_layer("diagonal", drive, initial, mode), padded_input()
    y = layer(x, lengths=LENGTHS)
    for row, length in zip(y, LENGTHS.tolist(), strict=True):
        after = row[length:]
        torch.testing.assert_close(after, row[length - 1].expand_as(after))


@every_drive
@every_initial
@every_mode
@pytest.mark.parametrize("cut", [1, 4])
def test_padded_parts_are_the_padded_whole(drive: str, initial: str, mode: str, cut: int) -> None:
    """Sequences that ended in an earlier part have length 0 in a later one."""
    layer, x = make_layer("blocks", drive, initial, mode), padded_input()
    early, late = LENGTHS.clamp_max(cut), (LENGTHS - cut).clamp_min(0)
    first, state = layer(x[:, :cut], lengths=early, return_state=True)
    second, state = layer(x[:, cut:], state, late, return_state=True)
    expected, final = alone(layer, x)
    rows = zip(first, early.tolist(), second, late.tolist(), strict=True)
    y = torch.cat([torch.cat([a[:m], b[:n]]) for a, m, b, n in rows])
    assert_near(
        {"outputs": y, **gradients(y, layer, x)},
        {"outputs": expected, **gradients(expected, layer, x)},
    )
    assert_near(state.tensors, final.tensors)


@pytest.mark.parametrize("drive", ["differences", "timed-differences-from-origin"])
def test_the_cache_of_a_drive_holds_the_last_valid_input(drive: str) -> None:
    layer, x = make_layer(drive=drive), padded_input()
    _, state = layer(x, lengths=LENGTHS, return_state=True)
    assert torch.equal(state["previous"], x[torch.arange(4), LENGTHS - 1])
    _, later = layer(x, state, torch.tensor([0, 0, 2, 0]), return_state=True)
    kept = state["previous"].clone()
    kept[2] = x[2, 1]
    assert torch.equal(later["previous"], kept)


@every_mode
@pytest.mark.parametrize("drive", ["time-and-input", "gates"])
def test_an_empty_sequence_stays_at_a_learned_state(drive: str, mode: str) -> None:
    layer, x = make_layer("blocks", drive, "learned", mode), padded_input()
    y, state = layer(x, lengths=[0, 1, 6, 0], return_state=True)
    start = layer.start()["state"]
    start = start / start.norm() if layer.projective else start
    torch.testing.assert_close(state["hidden"][[0, 3]], start.expand(2, -1))
    torch.testing.assert_close(y[0], start.expand(PADDED, -1))
    assert all(g.isfinite().all() for g in gradients(y, layer, x).values())


@pytest.mark.parametrize(
    ("drive", "initial"), [("gates", "first-input"), ("differences", "learned")]
)
def test_an_empty_sequence_can_not_start_what_needs_a_first_element(
    drive: str, initial: str
) -> None:
    layer = make_layer(drive=drive, initial=initial)
    with pytest.raises(ValueError, match=r"lengths holds 0 at batch 1; expected at least 1"):
        layer(padded_input(), lengths=[3, 0, 2, 2])


def test_lengths_of_the_whole_padded_length_change_nothing() -> None:
    layer, x = make_layer("joint-dplr", "differences"), make_input()
    full = torch.full((2,), x.shape[1], dtype=torch.int32)
    assert torch.equal(layer(x, lengths=full), layer(x))


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        ([3, 7], ValueError, r"lengths holds 7 at batch 1; expected 0\.\.6"),
        ([-1, 2], ValueError, r"lengths holds -1 at batch 0"),
        ([3], ValueError, r"lengths has shape \(1,\); expected \(2,\)"),
        ([1.0, 2.0], TypeError, r"lengths has dtype torch.float32; expected integers"),
    ],
)
def test_unfit_lengths_are_named(lengths: list[int], error: type[Exception], message: str) -> None:
    layer = SLiCE(INPUTS, make_layer().structure)
    with pytest.raises(error, match=message):
        layer(torch.zeros(2, 6, INPUTS), lengths=lengths)
