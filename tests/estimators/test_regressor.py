"""What a user of the regressor is promised, beyond what all estimators are."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from slicekit.estimators import SliceRegressor
from tests.estimators.waves import BOTH, RIDGE, SMALL, gradient, ragged, ridge, waves


@pytest.mark.parametrize(
    "options", [ridge(groups=4), gradient(width=16, max_steps=200)], ids=["ridge", "gradient"]
)
def test_it_predicts_the_mean_of_a_series(options: Any) -> None:
    random = np.random.RandomState(0)
    X = random.randn(120, 1, 10) + random.randn(120, 1, 1)
    y = 1000 + 50 * X.mean((1, 2))
    model = SliceRegressor(**options)
    assert model.fit(X[:80], y[:80]).score(X[80:], y[80:]) > 0.8


@pytest.mark.parametrize("options", [make() for make in BOTH], ids=["ridge", "gradient"])
def test_targets_keep_their_shape(options: Any) -> None:
    X, _ = waves(12)
    for y in (np.arange(12.0), np.arange(12.0)[:, None], np.random.rand(12, 3)):
        assert SliceRegressor(**options).fit(X, y).predict(X).shape == y.shape


@pytest.mark.parametrize("options", [make() for make in BOTH], ids=["ridge", "gradient"])
def test_scale_and_offset_of_the_targets_do_not_matter(options: Any) -> None:
    X, _ = waves(12)
    y = np.random.RandomState(0).randn(12)
    plain = SliceRegressor(**options).fit(X, y).predict(X)
    moved = SliceRegressor(**options).fit(X, 1e6 + 1e6 * y).predict(X)
    np.testing.assert_allclose((moved - 1e6) / 1e6, plain, atol=1e-4)


def test_a_constant_target_is_predicted() -> None:
    X, _, _ = ragged(12)
    found = SliceRegressor(**RIDGE).fit(X, np.full(12, 1e6)).predict(X)
    np.testing.assert_allclose(found, 1e6, atol=1)


@pytest.mark.parametrize("options", [make() for make in BOTH], ids=["ridge", "gradient"])
def test_a_case_of_weight_zero_is_as_if_it_were_not_there(options: Any) -> None:
    X, _ = waves(12)
    y = np.random.RandomState(0).randn(12, 2)
    weight = np.r_[0, np.ones(9), 0, 1]
    kept = weight > 0
    others = np.where(kept[:, None], y, -999.0)
    found = SliceRegressor(**options).fit(X, others, sample_weight=weight)
    expected = SliceRegressor(**options).fit(X[kept], y[kept])
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_the_score_is_weighted() -> None:
    X, _ = waves(12)
    y, weight = np.arange(12.0), np.r_[np.ones(6), np.zeros(6)]
    model = SliceRegressor(**RIDGE).fit(X, y)
    assert model.score(X, y, sample_weight=weight) == pytest.approx(model.score(X[:6], y[:6]))


@pytest.mark.parametrize("wrong", ["a", None, object()])
def test_targets_that_are_no_numbers_are_named(wrong: object) -> None:
    y = np.array([1.0, 2.0, 3.0, wrong], dtype=object)
    expected = (
        "Input y contains NaN" if wrong is None else r"y=\[1.0, 2.0, 3.0, ...\]; expected num"
    )
    with pytest.raises(ValueError, match=expected):
        SliceRegressor().fit(np.zeros((4, 1, 5)), y)


DATES = np.array(["2020-01-01", "NaT", "2020-01-03"], dtype="datetime64[D]")
DURATIONS = DATES - DATES[0]


@pytest.mark.parametrize("y", [DATES, DURATIONS, DURATIONS[:, None]])
@pytest.mark.parametrize("form", [np.asarray, list, lambda y: y.astype(object)])
def test_dates_and_durations_are_no_numbers(y: np.ndarray, form: Any) -> None:
    with pytest.raises(ValueError, match=r"y=.*expected numbers"):
        SliceRegressor().fit(np.zeros((3, 1, 5)), form(y))


def test_dates_of_pandas_are_no_numbers() -> None:
    pandas = pytest.importorskip("pandas")
    for zone in (None, "UTC"):
        y = pandas.Series(DATES).dt.tz_localize(zone)
        with pytest.raises(ValueError, match=r"y=.* holds dates or durations; expected numbers"):
            SliceRegressor().fit(np.zeros((3, 1, 5)), y)


def test_targets_of_three_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"y has shape \(4, 1, 1\)|dim 3"):
        SliceRegressor(**SMALL).fit(waves(4)[0], np.zeros((4, 1, 1)))


def test_what_can_be_read_off_a_series_is_predicted_without_shrinking() -> None:
    levels = np.random.default_rng(0).normal(size=60)
    regressor = SliceRegressor(random_state=0).fit(np.repeat(levels[:, None, None], 20, 2), levels)
    wanted = np.array([-1.5, 0.0, 1.5])
    predicted = regressor.predict(np.repeat(wanted[:, None, None], 20, 2))
    np.testing.assert_allclose(predicted, wanted, atol=0.1)


def test_several_targets_are_predicted_as_well_as_each_alone() -> None:
    random = np.random.default_rng(0)
    sizes, levels = np.exp(random.normal(size=60)), random.normal(size=60)
    X = levels[:, None, None] + sizes[:, None, None] * random.normal(size=(60, 1, 40))
    y = np.stack([np.log(sizes), levels], 1)
    together = SliceRegressor(random_state=0).fit(X, y).predict(X)
    for n in range(2):
        alone = SliceRegressor(random_state=0).fit(X, y[:, n]).predict(X)
        np.testing.assert_allclose(together[:, n], alone, rtol=1e-3, atol=1e-3)


def test_a_small_target_is_predicted_as_well_beside_a_huge_one() -> None:
    X, _ = waves(12)
    levels = X.mean((1, 2))
    small, huge = 1e-2 * levels, 1e12 * levels[::-1]
    alone = SliceRegressor(**RIDGE).fit(X, small).predict(X)
    beside = SliceRegressor(**RIDGE).fit(X, np.stack([small, huge], 1)).predict(X)[:, 0]
    np.testing.assert_allclose(beside, alone, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("options", [make() for make in BOTH], ids=["ridge", "gradient"])
@pytest.mark.parametrize("power", [-1000, -560, 530, 1000, 1023])
def test_targets_of_any_size_are_predicted_alike(power: int, options: Any) -> None:
    X, _ = waves(12)
    levels = X.mean((1, 2))
    y = 1.9 * levels / np.abs(levels).max()
    plain = SliceRegressor(**options).fit(X, y).predict(X)
    found = SliceRegressor(**options).fit(X, np.ldexp(y, power)).predict(X)
    np.testing.assert_array_equal(found, np.ldexp(plain, power))


def test_predictions_beyond_all_numbers_are_the_largest() -> None:
    levels = np.linspace(-1, 1, 30)
    regressor = SliceRegressor(**RIDGE).fit(np.repeat(levels[:, None], 9, 1), 1.7e308 * levels)
    largest = np.finfo(float).max
    found = regressor.predict(np.repeat([[-2.0], [2.0]], 9, 1))
    np.testing.assert_array_equal(found, [-largest, largest])
