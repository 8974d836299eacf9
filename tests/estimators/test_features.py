"""What a network sees is clean, of unit size, and made from the past alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.estimators.waves import ragged, waves

pytest.importorskip("sklearn")

from slicekit.estimators import SliceClassifier
from slicekit.estimators.features import Features
from slicekit.estimators.inputs import read_cases


def cases_of(X, times=None):
    return read_cases(SliceClassifier(), X, times, reset=True)


def test_values_are_standardised_by_the_training_data() -> None:
    X, _ = waves(20)
    cases = cases_of(X * np.array([1e-8, 1e6])[:, None] + np.array([3.0, 1e9])[:, None])
    features, _ = Features.fit(cases, 1)(cases)
    values = features[..., :2].double()
    torch.testing.assert_close(values.mean((0, 1)), torch.zeros(2).double(), atol=1e-4, rtol=0)
    torch.testing.assert_close(values.std((0, 1)), torch.ones(2).double(), atol=1e-2, rtol=0)


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize(
    "strange",
    [
        np.zeros(20),
        np.full(20, 1e6),
        np.full(20, np.nan),
        np.r_[np.full(19, np.nan), 5.0],
        np.linspace(-1e300, 1e300, 20),
        np.r_[np.zeros(19), 1e30],
        np.linspace(1, 1 + 1e-12, 20),
    ],
)
def test_strange_channels_become_finite_features(strange: np.ndarray, window: int) -> None:
    X, _ = waves(6)
    X[:, 1] = strange
    cases = cases_of(X)
    features, _ = Features.fit(cases, window)(cases)
    assert features.isfinite().all() and features.abs().max() <= 5


def test_a_gap_keeps_the_last_value_and_starts_with_the_mean() -> None:
    nan = np.nan
    train = np.array([[[0.0, 2.0, 0.0, 2.0]], [[2.0, nan, 0.0, 1.0]]])
    fitted = Features.fit(cases_of(train), 1)
    found, _ = fitted(cases_of(np.array([[[nan, 2.0, nan, nan]]])))
    mean, _ = fitted(cases_of(np.array([[[1.0, 2.0, 2.0, 2.0]]])))
    torch.testing.assert_close(found[..., 0], mean[..., 0])
    assert (found[0, 0, 1] == found[0, 2, 1]) and (found[0, 1, 1] > found[0, 0, 1])


def test_time_counts_from_the_first_element() -> None:
    X, times, _ = ragged()
    fitted = Features.fit(cases_of(X, times), 1)
    found, _ = fitted(cases_of(X, times))
    later, _ = fitted(cases_of(X, [t + 1000 for t in times]))
    torch.testing.assert_close(found, later, atol=1e-4, rtol=0)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    window=st.integers(1, 6),
    gaps=st.sampled_from([0.0, 0.5]),
    timed=st.booleans(),
)
def test_a_prefix_is_seen_as_a_prefix(seed: int, window: int, gaps: float, timed: bool) -> None:
    X, times, _ = ragged(gaps=gaps)
    fitted = Features.fit(cases_of(X, times if timed else None), window)
    random = np.random.RandomState(seed)
    i = random.randint(len(X))
    cut = random.randint(1, X[i].shape[1] + 1)
    whole, _ = fitted(cases_of([X[i]], [times[i]] if timed else None))
    part, lengths = fitted(cases_of([X[i][:, :cut]], [times[i][:cut]] if timed else None))
    full = cut // window
    assert int(lengths[0]) == -(-cut // window)
    torch.testing.assert_close(part[:, :full], whole[:, :full])


@pytest.mark.parametrize("window", [1, 3, 100])
@pytest.mark.parametrize("timed", [False, True])
def test_element_by_element_is_as_in_one_go(window: int, timed: bool) -> None:
    X, times, _ = ragged(gaps=0.3)
    fitted = Features.fit(cases_of(X, times if timed else None), window)
    for x, t in zip(X, times, strict=True):
        whole, lengths = fitted(cases_of([x], [t] if timed else None))
        memory, seen, complete = None, [], True
        for i in range(x.shape[1]):
            clock = torch.tensor([t[i] if timed else float(i)], dtype=torch.float64)
            now, memory, ended = fitted.advance(torch.tensor(x[None, :, i]), clock, memory)
            seen = [*seen, now] if complete else [*seen[:-1], now]
            complete = ended
        assert len(seen) == int(lengths[0])
        torch.testing.assert_close(torch.stack(seen, 1), whole, atol=1e-4, rtol=1e-4)
