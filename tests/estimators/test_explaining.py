"""What mattered is found, and drawn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from slicekit.estimators import Ridge, SliceClassifier, SliceRegressor, SliceTransformer
from tests.estimators.waves import RIDGE, ragged, waves


def bumps() -> tuple[np.ndarray, np.ndarray]:
    """Noise in two channels, with a bump in the second half of channel 1 for class 1."""
    random = np.random.RandomState(0)
    X, y = 0.1 * random.randn(60, 2, 40), np.arange(60) % 2
    X[y == 1, 1, 24:32] += np.hanning(8)
    return X, y


def test_the_channel_and_the_time_that_mattered_are_found(tmp_path: Path) -> None:
    X, y = bumps()
    model = SliceClassifier(solver=Ridge(groups=4), random_state=0).fit(X, y)
    found = model.explain(X[1], parts=5)
    assert found.label == 1 and found.effects.shape == (2, 5)
    assert found.channels.argmax() == 1
    assert found.effects[1].argmax() == 3
    pytest.importorskip("matplotlib")
    found.draw(tmp_path / "why.png")
    assert (tmp_path / "why.png").stat().st_size > 1000


def test_a_number_is_explained_with_times_and_gaps() -> None:
    X, times, _ = ragged(gaps=0.3)
    model = SliceRegressor(**RIDGE).fit(X, np.arange(12.0), times=times)
    found = model.explain(X[-1], times[-1], parts=4)
    assert found.label is None and np.isfinite(found.effects).all()
    with pytest.raises(ValueError, match="one series"):
        model.explain(np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="parts=0"):
        model.explain(X[-1], times[-1], parts=0)


def test_features_have_names_and_make_a_pipeline() -> None:
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = waves(32)
    seen = SliceTransformer(groups=2, random_state=0)
    chain = make_pipeline(seen, StandardScaler(), RidgeClassifier()).fit(X[:20], y[:20])
    assert chain.score(X[20:], y[20:]) > 0.8
    assert len(seen.get_feature_names_out()) == seen.transform(X).shape[1]
    with pytest.raises(ValueError, match="3 channels"):
        seen.transform(np.zeros((2, 3, 9)))


def test_features_of_timed_series_are_made_in_one_call() -> None:
    import sklearn
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import make_pipeline

    X, times, y = ragged()
    seen = SliceTransformer(groups=1, random_state=0)
    found = seen.fit_transform(X, times=times)
    np.testing.assert_array_equal(found, seen.transform(X, times=times))
    with sklearn.config_context(enable_metadata_routing=True):
        routed: Any = seen
        routed.set_fit_request(times=True).set_transform_request(times=True)
        chain = make_pipeline(routed, RidgeClassifier()).fit(X, y, times=times)
        assert chain.predict(X, times=times).shape == y.shape
