"""Gaps are filled as each policy says, from what it may see."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from slicekit.paths import Causal, Filling, LastValue, Linear
from tests.paths.series import Series, quick, series

POLICIES: list[Filling] = [Linear(), LastValue(), LastValue(-1.5), Causal(), Causal(2.0)]
CAUSAL: list[Filling] = [LastValue(), LastValue(-1.5), Causal(), Causal(2.0)]
NAN = float("nan")


def interpolated(channel: Tensor, times: Tensor) -> Tensor:
    """One channel (length,) through numpy's interpolation, which is constant past the ends."""
    seen = ~channel.isnan()
    if not seen.any():
        return torch.zeros_like(channel)
    return torch.from_numpy(np.interp(times, times[seen], channel[seen]))


def carried(channel: Tensor, initial: float) -> tuple[Tensor, Tensor]:
    """One channel (length,) with the last value carried forward, and its counts, by a loop."""
    last, count, values, counts = initial, 0, [], []
    for value in channel.tolist():
        if value == value:
            last, count = value, count + 1
        values.append(last)
        counts.append(count)
    return torch.tensor(values, dtype=channel.dtype), torch.tensor(counts, dtype=channel.dtype)


def by_channel(values: Tensor) -> list[tuple[int, int]]:
    return [(row, channel) for row in range(values.shape[0]) for channel in range(values.shape[2])]


@quick
@given(series())
def test_linear_is_interpolation_in_time(drawn: Series) -> None:
    filled = Linear().fill(drawn.with_gaps, drawn.times)
    for row, channel in by_channel(drawn.values):
        expected = interpolated(drawn.with_gaps[row, :, channel], drawn.times[row])
        torch.testing.assert_close(filled[row, :, channel], expected)


@quick
@given(series())
def test_linear_without_times_counts_positions(drawn: Series) -> None:
    positions = torch.arange(drawn.values.shape[1])
    filled = Linear().fill(drawn.with_gaps)
    assert torch.equal(filled, Linear().fill(drawn.with_gaps, positions))
    for row, channel in by_channel(drawn.values):
        expected = interpolated(drawn.with_gaps[row, :, channel], positions)
        torch.testing.assert_close(filled[row, :, channel], expected)


@quick
@given(series(), st.sampled_from([0.0, -1.5]))
def test_last_value_and_causal_are_the_loop(drawn: Series, initial: float) -> None:
    filled = LastValue(initial).fill(drawn.with_gaps, drawn.times)
    with_counts = Causal(initial).fill(drawn.with_gaps, drawn.times)
    channels = drawn.values.shape[2]
    for row, channel in by_channel(drawn.values):
        values, counts = carried(drawn.with_gaps[row, :, channel], initial)
        assert torch.equal(filled[row, :, channel], values)
        assert torch.equal(with_counts[row, :, channel], values)
        assert torch.equal(with_counts[row, :, channels + channel], counts)


@pytest.mark.parametrize("policy", POLICIES)
@quick
@given(drawn=series())
def test_observations_stay_and_nothing_is_missing(policy: Filling, drawn: Series) -> None:
    filled = policy.fill(drawn.with_gaps, drawn.times)
    kept = filled[..., : drawn.values.shape[2]]
    assert torch.equal(kept[~drawn.missing], drawn.values[~drawn.missing])
    assert not filled.isnan().any()


@pytest.mark.parametrize("policy", POLICIES)
def test_an_infinite_observation_stays(policy: Filling) -> None:
    values = torch.tensor([[[1.0], [torch.inf], [NAN]]])
    assert torch.equal(policy.fill(values)[:, :2, :1], values[:, :2])


@pytest.mark.parametrize("policy", CAUSAL)
@quick
@given(drawn=series(), cut=st.integers(1, 9))
def test_filling_a_prefix_is_the_prefix_of_the_filling(
    policy: Filling, drawn: Series, cut: int
) -> None:
    prefix = policy.fill(drawn.with_gaps[:, :cut], drawn.times[:, :cut])
    assert torch.equal(prefix, policy.fill(drawn.with_gaps, drawn.times)[:, :cut])


def test_linear_looks_ahead() -> None:
    values = torch.tensor([[[1.0], [NAN], [3.0]]])
    assert not torch.equal(Linear().fill(values[:, :2]), Linear().fill(values)[:, :2])


@pytest.mark.parametrize("policy", POLICIES)
@quick
@given(drawn=series())
def test_with_lengths_is_each_series_alone(policy: Filling, drawn: Series) -> None:
    poisoned = drawn.with_gaps.masked_fill(drawn.padding[..., None], torch.inf)
    times = drawn.times.masked_fill(drawn.padding, torch.nan)
    filled = policy.fill(poisoned, times, drawn.lengths)
    assert filled.isfinite().all()
    for row, length in enumerate(drawn.lengths.tolist()):
        if length > 0:
            alone = policy.fill(
                drawn.with_gaps[row : row + 1, :length], drawn.times[row : row + 1, :length]
            )
            assert torch.equal(filled[row, :length], alone[0])


@pytest.mark.parametrize("policy", POLICIES)
def test_gradients_flow_to_the_observations_only(policy: Filling) -> None:
    values = torch.randn(2, 6, 2, dtype=torch.float64, requires_grad=True)
    times = torch.tensor([0.0, 0.1, 1.0, 1.5, 3.0, 4.0], dtype=torch.float64, requires_grad=True)
    missing = torch.tensor([[1, 0, 1, 1, 0, 1], [0, 0, 0, 1, 1, 0]], dtype=torch.bool)[..., None]

    def filled(values: Tensor, times: Tensor) -> Tensor:
        return policy.fill(values.masked_fill(missing, torch.nan), times, [6, 4])

    assert torch.autograd.gradcheck(filled, (values, times))
    poisoned = values.detach().masked_fill(missing, torch.nan).requires_grad_()
    late = times.detach().expand(2, -1).clone()
    late[1, 4:] = torch.nan
    late.requires_grad_()
    gradients = torch.autograd.grad(
        policy.fill(poisoned, late, [6, 4]).sum(), [poisoned, late], allow_unused=True
    )
    assert (gradients[0][missing.expand_as(values)] == 0).all()
    assert all(gradient is None or gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_dtype_is_that_of_the_values(policy: Filling, dtype: torch.dtype) -> None:
    values = torch.tensor([[[1.0], [NAN], [3.0]]], dtype=dtype)
    for times in (torch.tensor([0, 1, 2]), torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)):
        filled = policy.fill(values, times)
        assert filled.dtype == dtype
        assert filled.isfinite().all()


def test_large_timestamps_lose_nothing() -> None:
    values = torch.tensor([[[0.0], [NAN], [4.0]]])
    seconds = torch.tensor([0, 1, 4]) + 1_700_000_000
    assert Linear().fill(values, seconds)[0, 1, 0] == 1.0
    assert Linear().fill(values, seconds.double())[0, 1, 0] == 1.0
    assert Linear().fill(values.half(), seconds * 1_000_000)[0, 1, 0] == 1.0


@pytest.mark.parametrize("policy", POLICIES)
def test_an_empty_sequence_has_no_gaps(policy: Filling) -> None:
    assert policy.fill(torch.zeros(2, 0, 1)).shape[:2] == (2, 0)


@pytest.mark.parametrize("policy", [Linear(), Causal(2.0)])
def test_filling_compiles_whole_and_maps_over_batches(policy: Filling) -> None:
    values = torch.randn(4, 2, 6, 3).masked_fill(torch.rand(4, 2, 6, 3) < 0.5, NAN)
    times = torch.tensor([0.0, 0.1, 1.0, 1.5, 3.0, 4.0])
    expected = torch.stack([policy.fill(part, times) for part in values])
    mapped = torch.func.vmap(lambda part: policy.fill(part, times))(values)
    torch.testing.assert_close(mapped, expected)
    compiled = torch.compile(policy.fill, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(values[0], times), expected[0])


@pytest.mark.parametrize("policy", POLICIES)
def test_arguments_that_do_not_fit_are_named(policy: Filling) -> None:
    with pytest.raises(ValueError, match=r"^values has shape \(2, 3\); expected \(batch, length, "):
        policy.fill(torch.zeros(2, 3))
    with pytest.raises(TypeError, match=r"^values has dtype torch.int64; expected a floating"):
        policy.fill(torch.zeros(2, 3, 1, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"^lengths holds 4 at batch 1; expected 0..3"):
        policy.fill(torch.zeros(2, 3, 1), None, [3, 4])


def test_linear_checks_times() -> None:
    with pytest.raises(ValueError, match=r"^times must increase strictly: 1.0 at position 2 "):
        Linear().fill(torch.full((1, 3, 1), NAN), torch.tensor([0.0, 1.0, 1.0]), [3])


@pytest.mark.parametrize("policy", [LastValue, Causal])
def test_the_initial_value_must_be_finite(policy: type[LastValue] | type[Causal]) -> None:
    with pytest.raises(ValueError, match=r"^initial=nan; expected a finite number$"):
        policy(initial=NAN)
