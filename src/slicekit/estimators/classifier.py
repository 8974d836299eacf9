"""The classifier."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d
from torch import Tensor

from slicekit.estimators.base import SliceEstimator, check_finite
from slicekit.estimators.fitting import CrossEntropy
from slicekit.estimators.inputs import read_cases

SMOOTHING = 0.1


class SliceClassifier(ClassifierMixin, SliceEstimator):
    """Classify time series by structured linear CDEs.

    Series may have any number of channels, unequal lengths, gaps (NaN) and irregular times. By
    default a random linear CDE is drawn and a linear read-out of its states is solved for, which
    takes seconds; solver="gradient" trains a network of them as a whole.

    Args:
        solver, structure, dim, window, members, width, layers, dropout, max_steps, max_epochs,
            batch_size, learning_rate, weight_decay, validation_fraction, patience, device,
            random_state, verbose: see `slicekit.estimators.parameters.Parameters`.

    Attributes:
        classes_: (classes,) the labels.
        n_channels_in_: channels of the series.
        n_features_in_: their length, if X was a 2-D array.
        networks_: the members, reservoirs or networks; recipe_: what they are made of.
        history_: how the fit of each member went.

    Example:
        >>> t = np.linspace(0, 6, 30)
        >>> X = np.stack([[np.sin((1 + i % 2) * t + i)] for i in range(24)])
        >>> y = np.array(["slow", "fast"] * 12)
        >>> clf = SliceClassifier(random_state=0).fit(X, y)
        >>> clf.score(X, y) > 0.8
        True
        >>> stream = clf.stream()
        >>> for observation in X[0].T:
        ...     probabilities = stream.update(observation)
        >>> np.allclose(probabilities, clf.predict_proba(X[:1])[0], atol=1e-5)
        True
    """

    classes_: np.ndarray

    def fit(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> Self:
        """Fit the networks.

        Args:
            X: a 3-D array (cases, channels, length), a list of 2-D arrays (channels, length_i), or
                a 2-D array (cases, length) of series with one channel. NaN is a gap. A list may
                also hold pairs of a 2-D array (channels, length_i) and its times (length_i,).
            y: (cases,) labels of any kind.
            sample_weight: (cases,) not negative, or None.
            times: (length,), (cases, length) or a list of 1-D arrays (length_i,), strictly
                increasing; None is 0, 1, ...

        Returns:
            This classifier.

        Raises:
            ValueError: if shapes do not fit, or a parameter is out of its range.
            FloatingPointError: if the loss stays no number at a tenth of the learning rate.
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        cases = read_cases(self, X, times, reset=True)
        y = column_or_1d(y, warn=True)
        check_consistent_length(cases.values, y)
        check_classification_targets(y)
        self.classes_, indices = np.unique(y, return_inverse=True)
        targets = torch.from_numpy(indices.astype(np.int64))
        loss = CrossEntropy(SMOOTHING)
        self._fit(cases, targets, indices, len(self.classes_), loss, sample_weight)
        return self

    def predict_proba(self, X: Any, times: Any = None) -> np.ndarray:
        """The probabilities of the classes.

        Args:
            X: as for `fit`, of any lengths.
            times: as for `fit`; needed if the classifier was fitted with them.

        Returns:
            (cases, classes), in the order of `classes_`.
        """
        return self._outputs(X, times)

    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """The most probable class of each series, (cases,); arguments as for `predict_proba`."""
        best = self.predict_proba(X, times).argmax(1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> float:
        """The share of series that are classified rightly; arguments as for `fit`."""
        return float(accuracy_score(y, self.predict(X, times), sample_weight=sample_weight))

    def _combine(self, outputs: Tensor) -> np.ndarray:
        check_finite(outputs)
        found = outputs.cpu().double().softmax(-1).mean(0)
        return (found / found.sum(-1, keepdim=True)).numpy()
