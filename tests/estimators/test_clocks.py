"""Dates and durations of all kinds are the seconds that they say."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from slicekit.estimators import SliceClassifier
from slicekit.estimators.clocks import seconds
from slicekit.estimators.inputs import read_cases
from tests.estimators.waves import RIDGE, waves


@pytest.mark.parametrize("year", [1, 1500, 1677, 1970, 2024, 2263, 9999])
def test_dates_of_any_year_are_read(year: int) -> None:
    start = datetime(1970, 1, 1)
    for when in (datetime(year, 3, 1, 5, 6, 7, 250_000), date(year, 3, 1)):
        whole = when if isinstance(when, datetime) else datetime(year, 3, 1)
        expected = (whole - start) / timedelta(seconds=1)
        for given in (when, np.datetime64(when)):
            found, dated = seconds(np.array([given], dtype=object))
            assert dated and found.tolist() == [expected]
    zoned, _ = seconds([datetime(year, 3, 1, tzinfo=UTC)])
    assert zoned.tolist() == [(datetime(year, 3, 1) - start) / timedelta(seconds=1)]


@pytest.mark.parametrize("long", [timedelta(days=400_000), np.timedelta64(400_000, "D")], ids=str)
def test_durations_of_any_size_are_read(long: Any) -> None:
    found, dated = seconds(np.array([long], dtype=object))
    assert not dated and found.tolist() == [400_000 * 86_400.0]


def test_dates_of_pandas_keep_their_nanoseconds() -> None:
    pd = pytest.importorskip("pandas")
    stamps = pd.to_datetime([1, 250], unit="ns")
    lengths = stamps - stamps[0]
    for zone in (None, "Europe/Berlin"):
        objects = np.array(list(stamps.tz_localize("UTC").tz_convert(zone)), dtype=object)
        assert seconds(objects)[0].tolist() == [1e-9, 2.5e-7]
    assert seconds(np.array(list(lengths), dtype=object))[0].tolist() == [0, 2.49e-7]


def test_dates_that_float64_can_not_tell_apart_are_named_and_durations_take_their_place() -> None:
    X, y = waves(6)
    stamps = np.datetime64("2024-01-01T00:00:00", "ns") + 100 * np.arange(20)
    with pytest.raises(ValueError, match=r"strictly.*less than 2.4e-07 s apart.* as durations"):
        read_cases(SliceClassifier(), X, stamps, reset=True)
    clock = read_cases(SliceClassifier(), X, stamps - stamps[0], reset=True).times
    assert clock is not None
    np.testing.assert_allclose(clock[:20], 1e-7 * np.arange(20), rtol=1e-12)
    days = np.datetime64("2024-01-01") + np.arange(20)
    stream = SliceClassifier(**RIDGE).fit(X, y, times=days).stream()
    stream.update(X[0, :, 0], stamps[0])
    with pytest.raises(ValueError, match=r"less than 2.4e-07 s apart"):
        stream.update(X[0, :, 1], stamps[1])
