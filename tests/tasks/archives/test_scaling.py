"""Scaling takes the range of each channel to [-1, 1]; time runs from 0 to nearly 1."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given

from slicekit.tasks.archives import Scaling, Series, with_time_channel
from tests.tasks.archives.writers import quick, small_series

NAN = float("nan")


@quick
@given(small_series())
def test_each_channel_fills_its_range(series: Series) -> None:
    scaled = Scaling.fit(series)(series)
    assert torch.equal(scaled.observations.isnan(), series.observations.isnan())
    assert torch.equal(scaled.lengths, series.lengths)
    for before, after in zip(
        series.observations.unbind(1), scaled.observations.unbind(1), strict=True
    ):
        seen = ~before.isnan()
        if not seen.any():
            continue
        if before[seen].min() < before[seen].max():
            assert after[seen].min() == -1 and after[seen].max() == 1
            assert torch.equal(after[seen].argsort(), before[seen].argsort())
        else:
            assert not after[seen].any()


@quick
@given(small_series())
def test_scaling_is_affine_and_can_be_saved(series: Series) -> None:
    scaling = Scaling.fit(series)
    again = Scaling.from_table(json.loads(json.dumps(scaling.as_table())))
    assert again == scaling
    low, high = (torch.tensor(x) for x in (scaling.minimum, scaling.maximum))
    back = (again(series).observations + 1) / 2 * (high - low) + low
    there = high > low
    torch.testing.assert_close(back[:, there], series.observations[:, there], equal_nan=True)


def test_only_the_series_fitted_on_count() -> None:
    series = Series.of([np.array([[0.0], [2.0]]), np.array([[5.0], [1.0]])], [0.0, 0.0])
    scaled = Scaling.fit(series.select([0]))(series)
    assert scaled.values.squeeze(2).tolist() == [[-1, 1], [4, 0]]


def test_channels_that_never_change_or_were_never_seen_are_safe() -> None:
    case = np.array([[7.0, NAN, 3e38], [7.0, NAN, -3e38]])
    series = Series.of([case], [0.0])
    scaled = Scaling.fit(series)(series).values[0]
    assert scaled[:, 0].tolist() == [0, 0] and scaled[:, 1].isnan().all()
    assert scaled[:, 2].tolist() == [1, -1]


def test_errors_of_scaling() -> None:
    series = Series.of([np.zeros((2, 3))], [0.0])
    with pytest.raises(ValueError, match="series has 3 channels; expected 1"):
        Scaling((0.0,), (1.0,))(series)
    with pytest.raises(ValueError, match="series is empty"):
        Scaling.fit(series.select([]))
    for ends in (((0.0,), (1.0, 2.0)), ((2.0,), (1.0,)), ((0.0,), (NAN,))):
        with pytest.raises(ValueError, match="expected as many finite numbers"):
            Scaling(*ends)


@quick
@given(small_series(timed=False))
def test_time_is_the_position_over_the_length(series: Series) -> None:
    timed = with_time_channel(series)
    assert timed.channels == series.channels + 1
    for row, length in enumerate(series.lengths.tolist()):
        expected = torch.tensor([i / length for i in range(length)])
        torch.testing.assert_close(timed.case(row)[:, 0], expected)
    rest = timed.observations[:, 1:].nan_to_num(7)
    assert torch.equal(rest, series.observations.nan_to_num(7))


def test_regular_timestamps_are_positions() -> None:
    cases = [np.zeros((n, 1)) for n in (4, 1, 3)]
    series = Series.of(cases, [0.0] * 3)
    times = [3.0 + 0.5 * np.arange(len(x)) for x in cases]
    stamped = Series.of(cases, [0.0] * 3, times=times)
    torch.testing.assert_close(with_time_channel(stamped).values, with_time_channel(series).values)
    assert stamped.times is not None
    late = replace(stamped, times=stamped.times**2)
    first = with_time_channel(late).values[0, :, 0]
    squares = np.array([9, 12.25, 16, 20.25])
    expected = (squares - 9) / (20.25 - 9) * 0.75
    torch.testing.assert_close(first, torch.from_numpy(expected).float())
