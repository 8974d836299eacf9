"""Windows of equal time: segments are cut at their edges, and nothing else changes."""

import pytest
import torch
from torch import Tensor

from slicekit.paths import (
    Duration,
    LieBasis,
    chen,
    hall,
    log_signatures,
    log_signatures_in_time,
    lyndon,
    split_at,
)

BASES = [hall(3, 1), hall(3, 2), lyndon(3, 3)]


def path_in_time(batch: int, length: int, channels: int = 3) -> Tensor:
    """Increments whose channel 0 are steps of time in (0, 2)."""
    increments = torch.randn(batch, length, channels, dtype=torch.float64)
    increments[..., 0] = 2 * torch.rand(batch, length, dtype=torch.float64) + 0.01
    return increments


def cut(increments: Tensor, time: float, elapsed: float) -> tuple[list[list[Tensor]], float]:
    """The pieces of each window by walking along one path, and what has passed of the last."""
    windows: list[list[Tensor]] = [[]]
    for increment in increments:
        left = float(increment[0])
        while left > 0:
            taken = min(left, time - elapsed)
            windows[-1].append(increment * taken / increment[0])
            left, elapsed = left - taken, elapsed + taken
            if elapsed >= time - 1e-12:
                windows.append([])
                elapsed = 0.0
    return windows if windows[-1] else windows[:-1], elapsed


@pytest.mark.parametrize("basis", BASES, ids=repr)
@pytest.mark.parametrize("time", [0.3, 1.7, 100.0])
def test_windows_are_those_of_a_walk_along_the_path(basis: LieBasis, time: float) -> None:
    increments, lengths = path_in_time(3, 9), [9, 4, 1]
    elapsed = torch.tensor([0.0, 0.29, 0.1], dtype=torch.float64)
    found, counts, rest = log_signatures_in_time(
        increments, basis, Duration(time), elapsed, lengths
    )
    assert found.shape == (3, int(counts.max()), basis.size)
    for row, length in enumerate(lengths):
        windows, last = cut(increments[row, :length], time, float(elapsed[row]))
        assert len(windows) == counts[row]
        assert float(rest[row]) == pytest.approx(last, abs=1e-9)
        for number, pieces in enumerate(windows):
            expected = log_signatures(torch.stack(pieces)[None], basis, len(pieces))[0, 0]
            assert torch.allclose(found[row, number], expected)
        assert found[row, len(windows) :].eq(0).all()


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_windows_put_together_are_the_path(basis: LieBasis) -> None:
    increments = path_in_time(2, 8)
    found, _, _ = log_signatures_in_time(increments, basis, Duration(0.7))
    whole = found[:, 0]
    for number in range(1, found.shape[1]):
        whole = chen(basis, whole, found[:, number])
    assert torch.allclose(whole, log_signatures(increments, basis, 8)[:, 0])


def test_parts_of_a_path_enter_the_same_windows() -> None:
    basis, duration, increments = hall(3, 2), Duration(0.5), path_in_time(2, 12)
    whole, counts, rest = log_signatures_in_time(increments, basis, duration)
    passed = torch.zeros(2, dtype=torch.float64)
    closed = torch.zeros(2, dtype=torch.int64)
    for part in increments.split(5, dim=1):
        found, entered, passed = log_signatures_in_time(part, basis, duration, passed)
        for row in range(2):
            inner = range(1, int(entered[row]) - 1)
            for number in inner:
                assert torch.allclose(found[row, number], whole[row, int(closed[row]) + number])
        closed += entered - (passed > 0).to(torch.int64)
    assert torch.equal(closed + (passed > 0).to(torch.int64), counts)
    assert torch.allclose(passed, rest)


@pytest.mark.parametrize("steps", [3, 10, 1000])
def test_rounding_begins_no_window_of_nothing(steps: int) -> None:
    increments = torch.full((1, steps, 1), 0.1, dtype=torch.float64)
    counts, elapsed = Duration(0.1 * steps).count(increments)
    assert counts.tolist() == [1] and elapsed.tolist() == [0.0]
    counts, elapsed = Duration(0.1).count(increments)
    assert counts.tolist() == [steps] and elapsed.tolist() == [0.0]
    assert Duration(0.1).ends(increments).tolist() == [list(range(steps))]


def test_exact_steps_in_single_precision_begin_no_window_of_nothing() -> None:
    counts, elapsed = Duration(5.0).count(torch.ones(1, 100_000, 1))
    assert counts.tolist() == [20_000] and elapsed.tolist() == [0.0]


def test_ends_are_the_last_increments_of_the_windows() -> None:
    increments = torch.tensor([[[0.4], [0.4], [0.2], [3.0]]])
    assert Duration(0.5).ends(increments).tolist() == [[0, 2, 2, 2, 2, 2, 2, 3]]
    assert Duration(0.5).ends(increments, torch.tensor([0.2]), [2]).tolist() == [[-1, 1]]


def test_a_jump_without_time_belongs_to_the_window_that_begins() -> None:
    jump = torch.tensor([[[0.0, 2.0]]])
    counts, elapsed = Duration(0.5).count(jump)
    assert counts.tolist() == [1] and (elapsed > 0).all()
    counts, elapsed = Duration(0.5).count(torch.zeros(1, 3, 2), elapsed)
    assert counts.tolist() == [1] and (elapsed > 0).all()
    path = torch.tensor([[[0.0, 1.0], [0.5, 1.0], [0.0, 3.0], [0.5, 1.0]]])
    found, counts, _ = log_signatures_in_time(path, hall(2, 1), Duration(0.5))
    assert counts.tolist() == [2]
    assert found.tolist() == [[[0.5, 2.0], [0.5, 4.0]]]


def test_pieces_add_up_to_their_segments() -> None:
    increments = path_in_time(2, 6)
    pieces = split_at(increments, Duration(0.25), lengths=[6, 2])
    expected = torch.stack([increments[0].sum(0), increments[1, :2].sum(0)])
    assert torch.allclose(pieces.increments.sum(1), expected)
    assert pieces.edges.diff(dim=1).ge(0).all()


def test_gradients_are_true_in_space_and_time() -> None:
    basis = hall(2, 2)
    increments = path_in_time(1, 4, 2).requires_grad_()
    torch.autograd.gradcheck(
        lambda x: log_signatures_in_time(x, basis, Duration(0.83))[0], increments
    )


def test_the_time_channel_may_be_any() -> None:
    increments, basis = path_in_time(2, 5), hall(3, 1)
    found, counts, _ = log_signatures_in_time(increments, basis, Duration(0.6))
    turned, same, _ = log_signatures_in_time(
        increments.roll(2, -1), basis, Duration(0.6, channel=2)
    )
    assert torch.equal(counts, same)
    assert torch.allclose(turned, found.roll(2, -1))


@pytest.mark.parametrize("length", [0, 3])
def test_a_path_without_time_enters_no_window(length: int) -> None:
    found, counts, elapsed = log_signatures_in_time(
        torch.zeros(2, length, 3), hall(3, 2), Duration(1.0)
    )
    assert found.shape == (2, 1, 6) and found.eq(0).all()
    assert counts.tolist() == [0, 0] and elapsed.tolist() == [0, 0]


def test_other_values_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="time=0; expected a positive number"):
        Duration(0)
    with pytest.raises(ValueError, match="channel=-1; expected at least 0"):
        Duration(1.0, channel=-1)
    with pytest.raises(ValueError, match="channel=3 is no channel of increments"):
        Duration(1.0, channel=3).count(torch.zeros(1, 2, 3))
    backwards = torch.tensor([[[1.0], [-0.5]]])
    with pytest.raises(ValueError, match=r"-0\.5 in time at batch 0, position 1, channel 0"):
        Duration(1.0).count(backwards)
    assert Duration(1.0).count(backwards, lengths=[1])[0].tolist() == [1]
    with pytest.raises(ValueError, match="windows; expected at most"):
        log_signatures_in_time(torch.tensor([[[1.0]]]), hall(1, 1), Duration(1e-9))
