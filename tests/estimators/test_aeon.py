"""aeon's own checks of the estimators that derive from its base classes."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("aeon")

from aeon.testing.estimator_checking import parametrize_with_checks

from slicekit.estimators import SliceClassifier, SliceRegressor
from slicekit.estimators.aeon import AeonSliceClassifier, AeonSliceRegressor
from tests.estimators.waves import RIDGE, ragged


@parametrize_with_checks([AeonSliceClassifier, AeonSliceRegressor])
def test_checks_of_aeon(check: Any) -> None:
    check()


@pytest.mark.parametrize(
    ("wrapper", "kind"),
    [(AeonSliceClassifier, SliceClassifier), (AeonSliceRegressor, SliceRegressor)],
)
def test_the_predictions_are_those_of_the_estimator_inside(wrapper: Any, kind: Any) -> None:
    X, _, y = ragged(gaps=0.2)
    y = y.astype(float)
    found = wrapper(**RIDGE).fit(X, y)
    np.testing.assert_array_equal(found.predict(X), kind(**RIDGE).fit(X, y).predict(X))
    assert found.get_params() == kind(**RIDGE).get_params()
    assert found.estimator_.stream().update(X[0][:, 0]) is not None
