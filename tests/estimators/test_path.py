"""Observations as a path: lines between them, whatever their times, and a prefix is a prefix."""

import warnings

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from slicekit.estimators import Ridge, SliceClassifier, SliceRegressor
from slicekit.estimators import path as path_room
from slicekit.estimators.inputs import Cases, read_cases
from slicekit.estimators.path import Path
from slicekit.estimators.preparation import statistics


def cases(values: np.ndarray, times: np.ndarray | None = None) -> Cases:
    """Of values (cases, length, channels)."""
    lengths = torch.full((len(values),), values.shape[1])
    clock = None if times is None else torch.from_numpy(times).flatten()
    return Cases(torch.from_numpy(values).flatten(0, 1), lengths, clock)


def test_a_line_is_the_same_path_wherever_it_is_observed() -> None:
    random = np.random.RandomState(0)
    times = np.sort(random.choice(np.arange(1, 40), (6, 20), replace=True), axis=1)
    times = np.stack(
        [np.r_[0, np.sort(random.permutation(np.arange(1, 40))[:20]), 40] for _ in times]
    )
    times = times.astype(float)
    values = np.stack([times, -2 * times], -1)
    path = Path.fit(cases(values, times))
    assert path.step == 1.0 and path.origin == 0.0
    found, lengths = path(cases(values, times))
    assert lengths.tolist() == [41] * 6
    torch.testing.assert_close(found[0], found[3], rtol=1e-5, atol=1e-5)
    steps = torch.diff(found[0, 0])
    torch.testing.assert_close(steps, steps.mean().expand(40), rtol=1e-3, atol=1e-4)


def test_a_row_without_observations_is_bridged() -> None:
    values = np.random.RandomState(0).randn(3, 9, 2)
    values[:, 4] = (values[:, 3] + values[:, 5]) / 2
    whole = cases(values)
    path = Path.fit(whole)
    holed = values.copy()
    holed[:, 4] = np.nan
    torch.testing.assert_close(path(cases(holed))[0], path(whole)[0], rtol=1e-5, atol=1e-5)


def test_a_prefix_gives_a_prefix() -> None:
    random = np.random.RandomState(1)
    values, times = random.randn(4, 12, 2), np.cumsum(random.uniform(0.2, 2, (4, 12)), 1)
    values[random.rand(4, 12, 2) < 0.3] = np.nan
    path = Path.fit(cases(values, times))
    whole, _ = path(cases(values, times))
    part, lengths = path(cases(values[:, :7], times[:, :7]))
    for case, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(part[case, :, :length], whole[case, :, :length])


def test_times_in_another_unit_are_noticed() -> None:
    random = np.random.RandomState(0)
    X, times = random.randn(6, 2, 20), np.arange(20.0)
    model = SliceClassifier(solver=Ridge(groups=1), random_state=0)
    model.fit(X, [0, 1] * 3, times=times)
    with pytest.raises(ValueError, match="same unit"):
        model.predict(X, times=1e6 * times)


def test_bursts_that_the_grid_hides_are_named_and_no_other_times() -> None:
    random = np.random.RandomState(0)
    values = random.randn(3, 40, 1)
    bursts = np.tile(np.add.outer(3600.0 * np.arange(4), 0.01 * np.arange(10)).ravel(), (3, 1))
    with pytest.warns(UserWarning, match=r"within 0.01 .* steps of 67.5.* leave times out") as told:
        path = Path.fit(cases(values, bursts))
    assert len(told) == 1 and path.step == pytest.approx(bursts[0, -1] / (4 * 40))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for steps in (
            np.ones((3, 40)),
            random.exponential(size=(3, 40)),
            random.lognormal(sigma=1.5, size=(3, 40)),
            np.where(random.rand(3, 40) < 0.1, 20.0, 1.0),
        ):
            Path.fit(cases(values, np.cumsum(steps, 1)))


def test_dropped_observations_change_little() -> None:
    t = np.linspace(0, 6, 80)
    random = np.random.RandomState(0)
    phase, speed = random.rand(60, 1) * 6, np.where(np.arange(60) % 2, 2.0, 2.6)[:, None]
    X, y = np.sin(speed * t + phase)[:, None], np.arange(60) % 2
    kept = [np.sort(random.permutation(80)[:32]) for _ in X]
    series = [x[:, k] for x, k in zip(X, kept, strict=True)]
    times = [t[k] for k in kept]
    model = SliceClassifier(solver=Ridge(groups=4), random_state=0)
    model.fit(series[:40], y[:40], times=times[:40])
    assert model.score(series[40:], y[40:], times=times[40:]) >= 0.9


def test_paths_are_the_same_whether_all_are_held_or_read_when_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = np.random.RandomState(0)
    X = [random.randn(2, n).cumsum(1) for n in random.randint(5, 300, 24)]
    y = np.arange(24) % 3

    def said() -> np.ndarray:
        model = SliceClassifier(solver=Ridge(groups=2), random_state=0)
        return model.fit(X, y).decision_function(X)

    held = said()
    monkeypatch.setattr(path_room, "HELD", 0)
    np.testing.assert_allclose(said(), held, rtol=1e-4, atol=1e-4)


def test_one_long_series_does_not_make_room_for_all_others() -> None:
    random = np.random.RandomState(0)
    X = [random.randn(1, n) for n in (60_000, *[20] * 600)]
    y = np.arange(601) % 2
    seen = read_cases(SliceClassifier(), X, reset=True)
    assert seen.observations.numel() == 60_000 + 600 * 20
    model = SliceClassifier(solver=Ridge(groups=1), random_state=0).fit(X, y)
    assert model.predict(X[:3]).shape == (3,)


def test_rare_peaks_are_as_high_as_they_are() -> None:
    random = np.random.RandomState(3)
    heights = random.uniform(20, 100, 150)
    values = random.randn(150, 1, 40)
    values[np.arange(150), 0, random.randint(40, size=150)] += heights
    model = SliceRegressor(random_state=0).fit(values[:100], heights[:100])
    assert model.score(values[100:], heights[100:]) > 0.9


@pytest.mark.parametrize("fill", [1e12, -9.97e36, 1e300])
def test_a_number_that_stands_for_none_drowns_nothing(fill: float) -> None:
    values = np.random.RandomState(0).randn(20, 30, 1)
    centre, spread, _ = statistics(torch.from_numpy(values[..., 0]))
    values[0, 5] = fill
    filled_centre, filled_spread, _ = statistics(torch.from_numpy(values[..., 0]))
    assert abs(filled_centre - centre) < 0.1 * spread and 0.9 < filled_spread / spread < 1.1
    path = Path.fit(cases(values))
    found, _ = path(cases(values))
    assert found.isfinite().all() and found[1:].std() > 0.9


def test_a_channel_with_few_values_but_one_keeps_its_mean_and_deviation() -> None:
    """Where most values are equal, those that are not are no outliers."""
    values = torch.zeros(1000, dtype=torch.float64)
    values[::200] = 7.0
    centre, spread, _ = statistics(values)
    assert centre > 0 and spread > 0.01
