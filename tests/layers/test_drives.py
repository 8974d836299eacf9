"""Drives: how inputs become increments."""

from collections.abc import Callable
from typing import cast

import pytest
import torch
from torch import nn

from slicekit import Differences, Pointwise, TimeAndInput, increments
from slicekit.layers import Drive
from tests.layers.reference import (
    DRIVES,
    INPUTS,
    assert_near,
    every_drive,
    increments_by_hand,
    make_input,
)


@every_drive
def test_increments_are_those_written_by_hand(drive: str) -> None:
    policy, x = DRIVES[drive]().__class__, make_input()
    made = DRIVES[drive]()
    if isinstance(made, nn.Module):
        made.double()
    assert isinstance(made, policy) and isinstance(made, Drive)
    expected = torch.stack(increments_by_hand(made, x), 1)
    assert_near({"increments": made(x)}, {"increments": expected})
    assert expected.shape[-1] == made.channels(INPUTS)


@pytest.mark.parametrize("origin", [False, True])
@pytest.mark.parametrize("timed", [False, True])
def test_differences_are_the_increments_of_the_path(origin: bool, timed: bool) -> None:
    """With an origin the clock has already made one step when X_0 is reached."""
    x = make_input().detach()
    step = 0.5
    times = torch.arange(1, x.shape[1] + 1) * step if timed else None
    drive = Differences(times=step if timed else None, origin=origin)
    torch.testing.assert_close(drive(x), increments(x, times, origin=origin))


@pytest.mark.parametrize("times", [None, 0.5])
@pytest.mark.parametrize("origin", [False, True])
def test_differences_go_on_from_the_element_before(times: float | None, origin: bool) -> None:
    drive, x = Differences(times=times, origin=origin), make_input().detach()
    late = drive(x[:, 2:], x[:, 1])
    torch.testing.assert_close(late, drive(x)[:, 2:])


def test_pointwise_refuses_a_module_that_does_not_keep_its_promise() -> None:
    drive = Pointwise(nn.Linear(2, 4), channels=3)
    with pytest.raises(ValueError, match=r"declared with channels=3, but its module gives 4"):
        drive(torch.zeros(1, 2, 2))


def test_pointwise_takes_a_plain_function() -> None:
    x = torch.randn(4, 2)
    torch.testing.assert_close(Pointwise(torch.tanh, channels=2)(x), x.tanh())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_pointwise_of_half_precision_takes_and_gives_what_the_layer_computes_in(
    dtype: torch.dtype,
) -> None:
    drive, x = Pointwise(nn.Linear(2, 3), channels=3), torch.randn(4, 2)
    expected = drive(x)
    found = drive.to(dtype)(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TimeAndInput(dt=0), ValueError, "dt=0"),
        (lambda: TimeAndInput(dt=float("inf")), ValueError, "dt=inf"),
        (lambda: Differences(times=-1.0), ValueError, "times=-1.0"),
        (lambda: Differences(scale=0.0), ValueError, "scale=0.0"),
        (lambda: Pointwise(nn.Identity(), channels=0), ValueError, "channels=0"),
        (lambda: Pointwise(nn.Identity(), channels=2, scale=-1), ValueError, "scale=-1"),
        (lambda: TimeAndInput(dt=cast(float, "fast")), TypeError, "dt='fast' is a str"),
    ],
)
def test_unfit_settings_are_named(
    make: Callable[[], Drive], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()
