"""How does a practitioner call it? `fit` and `predict`, by the conventions of scikit-learn.

aeon's base classes are in `slicekit.estimators.aeon`, which needs the extra `slicekit[aeon]`.
"""

try:
    import sklearn as _  # noqa: F401
except ImportError as error:
    raise ImportError(
        "slicekit.estimators needs scikit-learn: pip install slicekit[sklearn]"
    ) from error

from slicekit.estimators.classifier import SliceClassifier
from slicekit.estimators.network import Recipe
from slicekit.estimators.regressor import SliceRegressor
from slicekit.estimators.reservoir import RandomRecipe
from slicekit.estimators.streaming import Stream, StreamState

__all__ = ["RandomRecipe", "Recipe", "SliceClassifier", "SliceRegressor", "Stream", "StreamState"]
