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
from slicekit.estimators.containers import from_long
from slicekit.estimators.explaining import Explanation
from slicekit.estimators.regressor import SliceRegressor
from slicekit.estimators.solvers import Gradient, Ridge
from slicekit.estimators.streaming import Stream, StreamState
from slicekit.estimators.transformer import SliceTransformer

__all__ = [
    "Explanation",
    "Gradient",
    "Ridge",
    "SliceClassifier",
    "SliceRegressor",
    "SliceTransformer",
    "Stream",
    "StreamState",
    "from_long",
]
