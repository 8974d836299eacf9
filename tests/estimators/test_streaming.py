"""A stream ends where the whole series does, remembers little, and can go back."""

from dataclasses import is_dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("sklearn")

from torch.utils._pytree import tree_leaves

from slicekit import Diagonal
from slicekit.estimators import SliceClassifier, SliceRegressor, Stream
from tests.estimators.waves import RIDGE, gradient, ragged, ridge, waves

CLOSE = 2e-5


def fitted(kind: Any, options: Any, timed: bool) -> Any:
    X, times, y = ragged(gaps=0.3)
    return kind(**options).fit(X, y, times=times if timed else None)


DEEP: Any = {"layers": 2, "max_steps": 10}
MODELS = {
    "ridge": fitted(SliceClassifier, ridge(), False),
    "ridge timed": fitted(SliceClassifier, ridge(members=2), True),
    "ridge regression timed": fitted(SliceRegressor, ridge(groups=2), True),
    "gradient": fitted(SliceClassifier, gradient(**DEEP), False),
    "gradient timed": fitted(SliceRegressor, gradient(**DEEP), True),
    "gradient windows": fitted(SliceClassifier, gradient(**DEEP, window=3, members=2), False),
    "gradient timed windows": fitted(
        SliceClassifier, gradient(**DEEP, window=4, structure=Diagonal(6)), True
    ),
}


def whole(model: Any, X: Any, times: Any) -> np.ndarray:
    predict = getattr(model, "predict_proba", model.predict)
    return predict(X, times=times)


def follow(stream: Stream, x: np.ndarray, times: np.ndarray | None) -> np.ndarray:
    for i in range(x.shape[-1]):
        stream.update(x[..., i], None if times is None else times[..., i])
    return stream.prediction


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_the_stream_ends_where_the_whole_series_does(name: str, data: st.DataObject) -> None:
    model = MODELS[name]
    length = data.draw(st.integers(1, 23), "length")
    random = np.random.RandomState(data.draw(st.integers(0, 10**6), "seed"))
    x = 3 * random.randn(2, length) + 1
    x[random.rand(2, length) < data.draw(st.sampled_from([0.0, 0.4, 1.0]), "gaps")] = np.nan
    given_times = "timed" in name or data.draw(st.booleans(), "times")
    times = np.cumsum(random.uniform(0.01, 3, length)) if given_times else None
    found = follow(model.stream(), x, times)
    expected = whole(model, [x], None if times is None else [times])[0]
    np.testing.assert_allclose(found, expected, atol=CLOSE)


@pytest.mark.parametrize("name", MODELS)
def test_every_prefix_is_predicted_on_the_way(name: str) -> None:
    model, random = MODELS[name], np.random.RandomState(0)
    x, times = random.randn(2, 9), np.cumsum(random.rand(9) + 0.1)
    stream = model.stream()
    for i in range(9):
        found = stream.update(x[:, i], times[i])
        expected = whole(model, [x[:, : i + 1]], [times[: i + 1]])[0]
        np.testing.assert_allclose(found, expected, atol=CLOSE)
    assert stream.count == 9


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_of_streams_is_as_many_streams(name: str) -> None:
    model, random = MODELS[name], np.random.RandomState(0)
    x, times = random.randn(4, 2, 7), np.cumsum(random.rand(4, 7) + 0.1, axis=1)
    x[random.rand(4, 2, 7) < 0.3] = np.nan
    together = follow(model.stream(batch=4), x, times)
    apart = [follow(model.stream(), a, t) for a, t in zip(x, times, strict=True)]
    np.testing.assert_allclose(together, apart, atol=CLOSE)


def test_probabilities_are_those_of_the_last_update() -> None:
    stream = MODELS["ridge"].stream()
    found = stream.update([1.0, np.nan])
    assert found.shape == (3,) and found.sum() == pytest.approx(1)
    np.testing.assert_array_equal(stream.probabilities, found)


def test_masked_values_are_gaps() -> None:
    model, x = MODELS["ridge"], np.random.RandomState(0).randn(2, 9)
    found = follow(model.stream(), np.ma.masked_greater(x, 0.5), None)
    wanted = follow(model.stream(), np.where(x > 0.5, np.nan, x), None)
    np.testing.assert_array_equal(found, wanted)


def tensors_in(held: Any) -> list[torch.Tensor]:
    """All tensors in nested tuples, dictionaries and dataclasses."""
    if isinstance(held, torch.Tensor):
        return [held]
    if is_dataclass(held):
        held = vars(held)
    if isinstance(held, dict):
        held = list(held.values())
    if isinstance(held, list | tuple):
        return [x for part in held for x in tensors_in(part)]
    return [x for x in tree_leaves(held) if isinstance(x, torch.Tensor)]


def test_what_it_remembers_does_not_grow() -> None:
    for name in ("ridge", "ridge timed", "gradient"):
        stream = MODELS[name].stream()
        sizes = []
        for _ in range(40):
            stream.update([0.5, 1.0], float(stream.count))
            sizes.append(sum(x.numel() for x in tensors_in(stream.state.memory)))
        assert sizes[20] == sizes[39]


@pytest.mark.parametrize("name", ["ridge", "gradient"])
def test_a_stream_can_go_back_and_begin_anew(name: str) -> None:
    model, x = MODELS[name], np.random.RandomState(0).randn(2, 9)
    stream = model.stream()
    follow(stream, x[:, :4], None)
    there = stream.state
    expected = follow(stream, x[:, 4:], None)
    stream.state = there
    assert stream.count == 4
    np.testing.assert_array_equal(follow(stream, x[:, 4:], None), expected)
    stream.reset()
    np.testing.assert_array_equal(follow(stream, x, None), expected)


@pytest.mark.parametrize("dead", [5.0, np.nan], ids=["constant", "never observed"])
@pytest.mark.parametrize("options", [ridge(), gradient(), gradient(window=3)], ids=str)
def test_a_channel_that_is_dead_in_training_is_not_looked_at(options: Any, dead: float) -> None:
    X, y = waves(12)
    X = np.concatenate([X, np.full((12, 1, 20), dead)], 1)
    model = SliceClassifier(**options).fit(X, y)
    expected = model.predict_proba(X)
    alive = X.copy()
    alive[:, 2] = 5 + 100 * np.random.RandomState(0).randn(12, 20)
    np.testing.assert_array_equal(model.predict_proba(alive), expected)
    found = follow(model.stream(), alive[0], None)
    np.testing.assert_array_equal(found, follow(model.stream(), X[0], None))
    np.testing.assert_allclose(found, expected[0], atol=CLOSE)


def test_what_does_not_fit_is_named() -> None:
    plain, timed = MODELS["ridge"].stream(), MODELS["ridge timed"].stream()
    with pytest.raises(ValueError, match="no observation has come"):
        _ = plain.probabilities
    with pytest.raises(ValueError, match=r"observation has shape \(3,\); expected \(2,\)"):
        plain.update([1, 2, 3])
    with pytest.raises(ValueError, match="infinity"):
        plain.update([1, np.inf])
    with pytest.raises(ValueError, match="time is missing"):
        timed.update([1, 2])
    timed.update([1, 2], 5.0)
    with pytest.raises(ValueError, match=r"time=5.0 does not come after 5.0"):
        timed.update([1, 2], 5.0)
    with pytest.raises(ValueError, match="finite"):
        timed.update([1, 2], np.nan)
    with pytest.raises(ValueError, match=r"time has shape \(2,\)"):
        timed.update([1, 2], [6.0, 7.0])
    with pytest.raises(ValueError, match="batch=0"):
        MODELS["ridge"].stream(batch=0)
    with pytest.raises(ValueError, match="another estimator"):
        plain.state = MODELS["gradient windows"].stream().state
    with pytest.raises(TypeError, match="state is a int"):
        plain.state = 3  # type: ignore[assignment]


def test_an_update_that_is_refused_changes_nothing() -> None:
    stream = MODELS["ridge timed"].stream()
    stream.update([1, 2], 5.0)
    before = stream.state
    with pytest.raises(ValueError, match="time"):
        stream.update([1, 2], 4.0)
    assert stream.state is before


def test_a_gap_that_is_too_long_is_refused_as_in_whole_series() -> None:
    X, y = waves(6)
    model = SliceClassifier(**RIDGE).fit(X, y, times=np.arange(20.0))
    stream = model.stream(batch=2)
    stream.update(X[:2, :, 0], 0.0)
    before = stream.state
    for late in (1e6, 1e25, 1e308):
        with pytest.raises(ValueError, match="times as long as the longest in training; are"):
            model.predict(X[:1, :, :2], times=[0.0, late])
        with pytest.raises(ValueError, match="times as long as the longest in training; are"):
            stream.update(X[:2, :, 1], [1.0, late])
        assert stream.state is before
    stream.update(X[:2, :, 1], 1.0)


def test_a_stream_may_go_on_for_longer_than_a_series_may_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("slicekit.estimators.path.LONGER", 1)
    X, y = waves(6)
    stream = SliceClassifier(**RIDGE).fit(X, y).stream()
    follow(stream, np.tile(X[0], 2), None)
    assert stream.count == 40


def test_a_regressor_of_one_target_gives_a_number() -> None:
    X, _ = waves(12)
    model = SliceRegressor(**RIDGE).fit(X, np.arange(12.0))
    assert np.ndim(model.stream().update(X[0, :, 0])) == 0
    assert model.stream(batch=12).update(X[:, :, 0]).shape == (12,)
