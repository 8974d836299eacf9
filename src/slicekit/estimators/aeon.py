"""The estimators as aeon's own: `BaseClassifier` and `BaseRegressor` around them.

Needs the extra: pip install slicekit[aeon].
"""

from typing import Any

import numpy as np

try:
    from aeon.classification import BaseClassifier
    from aeon.regression import BaseRegressor
except ImportError as error:
    raise ImportError("slicekit.estimators.aeon needs aeon: pip install slicekit[aeon]") from error

from slicekit.estimators.classifier import SliceClassifier
from slicekit.estimators.constructor import ClassifierParameters, Parameters
from slicekit.estimators.regressor import SliceRegressor
from slicekit.estimators.solvers import Ridge

TAGS = {
    "X_inner_type": ["np-list", "numpy3D"],
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": True,
    "capability:multithreading": True,
    "algorithm_type": "convolution",
}


class AeonSliceClassifier(ClassifierParameters, BaseClassifier):
    """`SliceClassifier` with aeon's conventions and tags; the same parameters.

    Attributes:
        estimator_: the fitted `SliceClassifier`, for `stream` and `save`.
    """

    _tags = TAGS

    def _fit(self, X: Any, y: np.ndarray) -> Any:
        self.estimator_ = SliceClassifier(**self.get_params(deep=False)).fit(X, y)
        return self

    def _predict(self, X: Any) -> np.ndarray:
        return self.estimator_.predict(X)

    def _predict_proba(self, X: Any) -> np.ndarray:
        return self.estimator_.predict_proba(X)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"solver": Ridge(groups=1), "random_state": 0}


class AeonSliceRegressor(Parameters, BaseRegressor):
    """`SliceRegressor` with aeon's conventions and tags; the same parameters.

    Attributes:
        estimator_: the fitted `SliceRegressor`, for `stream` and `save`.
    """

    _tags = TAGS

    def _fit(self, X: Any, y: np.ndarray) -> Any:
        self.estimator_ = SliceRegressor(**self.get_params(deep=False)).fit(X, y)
        return self

    def _predict(self, X: Any) -> np.ndarray:
        return self.estimator_.predict(X)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"solver": Ridge(groups=1), "random_state": 0}
