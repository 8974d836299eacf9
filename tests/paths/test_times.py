"""Time as channel 0, and times that increase strictly."""

import pytest
import torch
from hypothesis import given

from slicekit.paths import with_time
from tests.paths.series import Series, quick, series


@quick
@given(series())
def test_time_is_channel_zero_and_the_rest_is_as_given(drawn: Series) -> None:
    augmented = with_time(drawn.values, drawn.times)
    assert torch.equal(augmented[..., 0], drawn.times)
    assert torch.equal(augmented[..., 1:], drawn.values)


@quick
@given(series())
def test_shared_times_are_the_times_of_every_series(drawn: Series) -> None:
    shared = drawn.times[0]
    every = shared.expand_as(drawn.times)
    assert torch.equal(with_time(drawn.values, shared), with_time(drawn.values, every))


def test_regular_grids_start_at_zero() -> None:
    values = torch.zeros(2, 4, 1)
    assert torch.equal(with_time(values)[1, :, 0], torch.tensor([0.0, 1.0, 2.0, 3.0]))
    assert torch.equal(with_time(values, 0.5)[1, :, 0], torch.tensor([0.0, 0.5, 1.0, 1.5]))
    assert torch.equal(with_time(values, 2)[1, :, 0], torch.tensor([0.0, 2.0, 4.0, 6.0]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_dtype_is_that_of_the_values(dtype: torch.dtype) -> None:
    values = torch.zeros(2, 4, 1, dtype=dtype)
    for times in (None, 0.5, torch.arange(4), torch.arange(4.0)):
        assert with_time(values, times).dtype == dtype


def test_gradients_flow_to_values_and_times() -> None:
    values = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    times = torch.arange(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(with_time, (values, times))


def test_times_in_the_padding_are_not_checked() -> None:
    times = torch.tensor([[0.0, 1.0, 0.0], [0.0, 1.0, torch.nan]])
    augmented = with_time(torch.zeros(2, 3, 1), times, lengths=[2, 2])
    assert torch.equal(augmented[:, :2, 0], times[:, :2])
    with pytest.raises(ValueError, match="at batch 1, position 2 is not finite"):
        with_time(torch.zeros(2, 3, 1), times, lengths=[2, 3])
    shared = torch.tensor([0.0, 1.0, 1.0])
    with_time(torch.zeros(2, 3, 1), shared, lengths=[2, 1])
    with pytest.raises(ValueError, match="at position 2 comes after"):
        with_time(torch.zeros(2, 3, 1), shared, lengths=[2, 3])


def test_times_that_do_not_increase_are_located() -> None:
    values = torch.zeros(2, 3, 1)
    times = torch.tensor([[0.0, 1.0, 2.0], [0.0, 2.0, 1.5]])
    message = "^times must increase strictly: 1.5 at batch 1, position 2 comes after 2.0$"
    with pytest.raises(ValueError, match=message):
        with_time(values, times)
    message = "^times must increase strictly: 1 at position 1 comes after 1$"
    with pytest.raises(ValueError, match=message):
        with_time(values, torch.tensor([1, 1, 2]))
    message = "^times must increase strictly: inf at position 2 is not finite$"
    with pytest.raises(ValueError, match=message):
        with_time(values, torch.tensor([0.0, 1.0, torch.inf]))


def test_times_that_collapse_in_the_dtype_of_the_values_are_located() -> None:
    times = 1.7e9 + torch.arange(3, dtype=torch.float64)
    message = "^times must increase strictly in torch.float32, the dtype of values: .* position 1"
    with pytest.raises(ValueError, match=message):
        with_time(torch.zeros(2, 3, 1), times)
    with_time(torch.zeros(2, 3, 1, dtype=torch.float64), times)


def test_times_that_do_not_fit_are_named() -> None:
    values = torch.zeros(2, 3, 1)
    for shape in [(), (2,), (3, 3), (1, 3), (2, 3, 1)]:
        message = r"^times has shape .*; expected \(3,\) or \(2, 3\)$"
        with pytest.raises(ValueError, match=message):
            with_time(values, torch.zeros(shape))
    with pytest.raises(TypeError, match=r"^times has dtype torch.bool; expected real numbers$"):
        with_time(values, torch.ones(3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"^times is on meta, but values is on cpu"):
        with_time(values, torch.zeros(3, device="meta"))
    with pytest.raises(ValueError, match=r"^times=-1.0; expected a positive number$"):
        with_time(values, -1.0)
    with pytest.raises(TypeError, match=r"^times=\[0, 1, 2\] is a list; expected a positive"):
        with_time(values, [0, 1, 2])  # pyright: ignore[reportArgumentType]


def test_values_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"^values has shape \(2, 3\); expected \(batch, length, "):
        with_time(torch.zeros(2, 3))
    with pytest.raises(TypeError, match=r"^values has dtype torch.int64; expected a floating"):
        with_time(torch.zeros(2, 3, 1, dtype=torch.int64))
