"""Every form of X and times means the same series, and what can't be read is named."""

import numpy as np
import pytest
import torch

from tests.estimators.waves import RIDGE, ragged, waves

pytest.importorskip("sklearn")

from slicekit.estimators import SliceClassifier, SliceRegressor
from slicekit.estimators.inputs import Cases, read_cases


def read(X, times=None) -> Cases:
    return read_cases(SliceClassifier(), X, times, reset=True)


def same(found: Cases, expected: Cases) -> None:
    own, others = found.observations, expected.observations
    torch.testing.assert_close(own, others, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(found.lengths, expected.lengths)


def test_an_array_and_a_list_of_its_series_are_the_same() -> None:
    X, _ = waves(4)
    same(read(list(X)), read(X))
    same(read([x.tolist() for x in X]), read(X))
    assert read(X).padded()[0].shape == (4, 20, 2)


def test_two_dimensions_are_series_of_one_channel() -> None:
    X, _ = waves(4, channels=1)
    same(read(X[:, 0]), read(X))
    same(
        read([x[0, : 5 + i] for i, x in enumerate(X)]),
        read([x[:, : 5 + i] for i, x in enumerate(X)]),
    )


def test_an_object_array_is_a_list() -> None:
    X, _, _ = ragged(5)
    held = np.empty(5, dtype=object)
    held[:] = X
    same(read(held), read(X))


def test_gaps_stay_and_padding_is_zero() -> None:
    X, _, _ = ragged(6, gaps=0.4)
    cases = read(X)
    for x, values, length in zip(X, cases.padded()[0], cases.lengths, strict=True):
        np.testing.assert_array_equal(values[:length].T, x)
        assert (values[length:] == 0).all()


def masked(X: np.ndarray) -> np.ma.MaskedArray:
    """An array whose small cells are masked."""
    return np.ma.masked_less(X, -0.5)


def test_masked_cells_are_gaps() -> None:
    X, _ = waves(4)
    holed = np.where(X < -0.5, np.nan, X)
    held = np.empty(4, dtype=object)
    held[:] = [masked(x) for x in X]
    pairs = [(masked(x), np.arange(20)) for x in X]
    for form in (masked(X), [masked(x) for x in X], [list(masked(x)) for x in X], held, pairs):
        same(read(form), read(holed))
    flat = [masked(x[0, : 5 + i]) for i, x in enumerate(X)]
    same(read(flat), read([x[0, : 5 + i] for i, x in enumerate(holed)]))
    same(read(masked(X[:, 0])), read(holed[:, 0]))
    counts = np.arange(40).reshape(2, 1, 20)
    same(read(np.ma.masked_less(counts, 3)), read(np.where(counts < 3, np.nan, counts)))
    same(read(np.ma.array(X)), read(X))


def test_masked_times_and_answers_are_refused() -> None:
    X, y = waves(4)
    places = np.ma.masked_equal(np.arange(20), 3)
    for times in (places, places.astype("datetime64[s]"), [places] * 4):
        with pytest.raises(ValueError, match=r"not finite|NaT"):
            read(X, times)
    hidden = np.ma.masked_array(np.arange(4), [False, False, True, False])
    for labels in (hidden, hidden.astype(str)):
        with pytest.raises(ValueError, match=r"y\[2\] is nan, so a label is missing"):
            SliceClassifier(**RIDGE).fit(X, labels)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        SliceRegressor(**RIDGE).fit(X, hidden)
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        SliceClassifier(**RIDGE).fit(X, y, sample_weight=hidden)


def test_arrays_that_torch_can_not_share_are_copied() -> None:
    X, _ = waves(4)
    locked = X.copy()
    locked.setflags(write=False)
    same(read(locked), read(X))
    same(read(X[:, :, ::-1]), read(X[:, :, ::-1].copy()))
    same(read(X.astype(np.float16)), read(X.astype(np.float16).astype(float)))


def test_times_have_three_forms() -> None:
    X, _ = waves(4)
    t = np.linspace(0, 3, 20)
    expected = read(X, np.tile(t, (4, 1))).times
    for times in (t, t.tolist(), [t] * 4):
        found = read(X, times).times
        assert found is not None and expected is not None
        assert torch.equal(found, expected)


def test_series_may_carry_their_times() -> None:
    X, times, _ = ragged(5)
    found, expected = read(list(zip(X, times, strict=True))), read(X, times)
    same(found, expected)
    assert found.times is not None and expected.times is not None
    assert torch.equal(found.times, expected.times)


@pytest.mark.parametrize(
    ("X", "times", "message"),
    [
        (
            [(np.zeros((2, 3)), np.arange(3)), np.zeros((2, 3))],
            None,
            r"X\[1\] is a ndarray, others",
        ),
        ([(np.zeros((2, 3)), np.arange(3))], np.arange(3), "holds pairs"),
        ([(np.zeros((2, 3)), np.arange(2))], None, r"times\[0\] has length 2; expected 3"),
        (
            [np.zeros((1, 3)), (np.zeros(3), np.arange(3))],
            None,
            r"X\[1\] is a tuple of two 1-D .* Expected a pair \(series\[None\], times\)",
        ),
        ([[np.zeros((2, 3)), np.arange(3)]], None, r"X\[0\] is a list .* expected a tuple"),
    ],
)
def test_pairs_that_do_not_fit_are_named(X, times, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(X, times)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "X is an empty list; expected at least one series"),
        ([np.zeros((2, 3)), np.zeros((3, 3))], r"X\[1\] has 3 channels, X\[0\] has 2"),
        ([np.zeros((2, 3)), np.zeros((2, 0))], r"X\[1\] has shape \(2, 0\)"),
        ([np.zeros((2, 3)), np.zeros(3)], r"X\[1\] has 1 dimensions"),
        ([np.full((2, 3), np.inf)], r"X\[0\] contains infinity"),
        (np.full((2, 2, 2), np.inf), "Input X contains infinity"),
        (np.zeros((2, 0, 3)), r"shape \(2, 0, 3\)"),
        (np.zeros((2, 2, 3, 4)), r"\(cases, channels, length\)"),
        (np.zeros(3), "2D array"),
    ],
)
def test_series_that_can_not_be_read_are_named(X, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(X)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (np.zeros(20), "increase strictly"),
        (np.arange(19), r"times has shape \(19,\)"),
        ([np.arange(20)] * 3, "times has 3 series, X has 4"),
        ([np.arange(20)] * 3 + [np.arange(5)], r"times\[3\] has length 5; expected 20"),
        (np.full(20, np.nan), "not finite"),
        (["a"] * 20, "times can't be read"),
    ],
)
def test_times_that_do_not_fit_are_named(times, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(waves(4)[0], times)


def test_channels_must_be_those_of_the_fit() -> None:
    X, y = waves()
    model = SliceClassifier(**RIDGE).fit(X, y)
    with pytest.raises(ValueError, match="X has 1 channels, but SliceClassifier was fitted to 2"):
        model.predict(X[:, :1])
    with pytest.raises(ValueError, match="X has 1 channels"):
        model.predict(X[:, 0])


def test_what_was_fitted_with_times_needs_them() -> None:
    X, y = waves()
    model = SliceClassifier(**RIDGE).fit(X, y, times=np.arange(20) / 10)
    with pytest.raises(ValueError, match="times is missing"):
        model.predict(X)


def test_without_times_a_step_takes_one() -> None:
    X, y = waves()
    model = SliceClassifier(**RIDGE).fit(X, y)
    expected = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X, times=np.arange(20)), expected)


def test_only_a_two_dimensional_fit_fixes_the_length() -> None:
    X, y = waves(channels=1)
    model = SliceClassifier(**RIDGE).fit(X[:, 0], y)
    assert vars(model)["n_features_in_"] == 20
    with pytest.raises(ValueError, match="20 features"):
        model.predict(X[:, 0, :15])
    assert model.predict(X[:, :, :15]).shape == y.shape
    series = [x[0] for x in X]
    held = np.empty(len(series), dtype=object)
    held[:] = series
    for given in (series, tuple(series), held):
        assert model.predict(given[:2]).shape == (2,)
        model.fit(given, y)
        assert not hasattr(model, "n_features_in_") and model.n_channels_in_ == 1
        assert model.predict([X[0, 0, :15]]).shape == (1,)
    model.fit(X, y)
    assert not hasattr(model, "n_features_in_") and model.n_channels_in_ == 1


def test_some_cases_are_those_that_were_asked_for() -> None:
    X, times, _ = ragged(6, gaps=0.2)
    whole = read(X, times)
    some = torch.tensor([4, 0, 5])
    same(whole.select(some), read([X[i] for i in some], [times[i] for i in some]))
    halves = whole.prefix(0.5)
    for x, half in zip(X, halves.lengths, strict=True):
        assert half == max(1, round(0.5 * x.shape[1]))
    same(halves, read([x[:, :n] for x, n in zip(X, halves.lengths, strict=True)]))


def test_times_that_do_not_increase_are_named_with_their_series() -> None:
    X, times, _ = ragged(3)
    times[1] = times[1].copy()
    times[1][2] = times[1][1]
    with pytest.raises(ValueError, match=r"at position 2 of series 1 comes after"):
        read(X, times)
