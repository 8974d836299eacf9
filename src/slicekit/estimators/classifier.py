"""The classifier."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d
from torch import Tensor

from slicekit.estimators.atomic import all_or_nothing
from slicekit.estimators.base import SliceEstimator, check_finite
from slicekit.estimators.constructor import ClassifierParameters
from slicekit.estimators.containers import unmasked
from slicekit.estimators.explaining import Explanation, explain
from slicekit.estimators.inputs import check_answers, read_cases

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)


class SliceClassifier(ClassifierMixin, ClassifierParameters, SliceEstimator):
    """Classify time series by structured linear CDEs.

    Series may have any number of channels, unequal lengths, gaps (NaN) and irregular times. By
    default many random linear CDEs are drawn and linear read-outs of what they see are solved for,
    which takes seconds; solver=Gradient(...) trains a network of them as a whole.

    Args:
        solver: `Ridge(...)` or `Gradient(...)`; None is `Ridge()`.
        class_weight: weights of the classes, as {label: weight}; "balanced" weighs them by one over
            their share of the cases; None is 1 for all.
        n_jobs: threads, as joblib counts them.
        device: of `Gradient`, "cpu", "cuda" or "mps"; None is the CPU.
        random_state: an integer for the same numbers at every fit, a RandomState, or None.
        verbose: whether to show progress.

    Attributes:
        classes_: (classes,) the labels of the cases whose weights are not zero.
        n_channels_in_: channels of the series.
        channel_names_in_: their names, if X was frames whose columns are channels.
        n_features_in_: their length, if X was a 2-D array.
        model_: what was fitted; history_: how the fit of each member went.

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

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> Self:
        """Fit the model.

        Args:
            X: a 3-D array (cases, channels, length), a list of 2-D arrays (channels, length_i), or
                a 2-D array (cases, length) of series with one channel. NaN is a gap. A list may
                also hold pairs of a 2-D array (channels, length_i) and its times (length_i,). Data
                frames: see `slicekit.estimators.containers`.
            y: (cases,) labels of any one kind.
            sample_weight: (cases,) not negative, or None; a case of weight zero is as if it were
                not there.
            times: (length,), (cases, length) or a list of 1-D arrays (length_i,), strictly
                increasing numbers or dates; None is 0, 1, ...

        Returns:
            This classifier.

        Raises:
            ValueError: if shapes do not fit, a label is missing or of another kind than the others,
                or a parameter is out of range.
            FloatingPointError: if the loss stays no number at a tenth of the learning rate.
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        cases = read_cases(self, X, times, reset=True)
        y = unmasked(y)
        check_no_missing(y)
        y = column_or_1d(_without_string_dtype(y), warn=True)
        _check_one_kind(y)
        check_answers(X, cases, y)
        check_classification_targets(y)
        weights = self._weights(sample_weight, cases)
        kept = np.flatnonzero(weights)
        weights = weights[kept] * self._class_weights(y, kept)
        kept, weights = kept[weights > 0], weights[weights > 0]
        self.classes_, indices = np.unique(y[kept], return_inverse=True)
        targets = torch.from_numpy(indices.astype(np.int64))
        cases = cases.select(torch.from_numpy(kept))
        self._solve(cases, targets, indices, len(self.classes_), weights, classes=True)
        return self

    def _class_weights(self, y: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Of the classes of the cases that are kept, one for each of them."""
        known: Any = self.class_weight
        classes, indices = np.unique(y[kept], return_inverse=True)
        if isinstance(known, dict):
            unknown = [label for label in known if label not in y]
            if unknown:
                raise ValueError(f"class_weight names {unknown[0]!r}, which is no label of y")
            known = {label: weight for label, weight in known.items() if label in classes}
        elif known is not None and known != "balanced":
            raise ValueError(
                f"class_weight={known!r}; expected 'balanced', a dictionary of labels, or None"
            )
        weights = compute_class_weight(known, classes=classes, y=y[kept])
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
            raise ValueError(
                f"class_weight={self.class_weight!r}; expected weights that are not negative"
            )
        return weights[indices]

    def predict_proba(self, X: Any, times: Any = None) -> np.ndarray:
        """The probabilities of the classes.

        Args:
            X: as for `fit`, of any lengths.
            times: as for `fit`; needed if the classifier was fitted with them.

        Returns:
            (cases, classes), in the order of `classes_`.
        """
        return self._combine(self._outputs(X, times))

    def decision_function(self, X: Any, times: Any = None) -> np.ndarray:
        """How much speaks for each class: the logarithms of the probabilities, but for a constant.

        Args:
            X: as for `fit`, of any lengths.
            times: as for `fit`; needed if the classifier was fitted with them.

        Returns:
            (cases, classes), in the order of `classes_`; for two classes (cases,), positive for the
            second.
        """
        logarithms = np.log(np.maximum(self.predict_proba(X, times), 1e-300))
        return logarithms[:, 1] - logarithms[:, 0] if logarithms.shape[1] == 2 else logarithms

    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """The most probable class of each series, (cases,); arguments as for `predict_proba`."""
        best = self.predict_proba(X, times).argmax(1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> float:
        """The share of series that are classified rightly; arguments as for `fit`."""
        y, said = _without_string_dtype(y), self.predict(X, times)
        return float(accuracy_score(y, said, sample_weight=sample_weight))

    def early_scores(
        self, X: Any, y: Any, shares: Sequence[float] = SHARES, times: Any = None
    ) -> dict[float, float]:
        """The accuracy when only a share of each series has been seen, as a stream sees it.

        Args:
            X, y, times: as for `fit`.
            shares: of the observations of each series, in (0, 1]; at least one is seen.

        Returns:
            The accuracy by share. What is predicted is what `stream()` says after that many
            observations.
        """
        cases, scores = self._read(X, times), {}
        y = column_or_1d(_without_string_dtype(y))
        check_consistent_length(cases.lengths, y)
        for share in shares:
            if not 0 < share <= 1:
                raise ValueError(f"shares holds {share}; expected numbers in (0, 1]")
            seen = cases.prefix(share)
            with torch.inference_mode():
                said = self._combine(self.model_.outputs(seen, self._threads))
            scores[float(share)] = float((self.classes_[said.argmax(1)] == y).mean())
        return scores

    def explain(self, x: Any, times: Any = None, parts: int = 16) -> Explanation:
        """Which channels and which times of a series speak for its class.

        Args:
            x: one series (channels, length), (length,) for one channel, a pair of a series and its
                times, or a frame with a row for each time.
            times: (length,) or None, as for `fit`.
            parts: of the series.

        Returns:
            What each part of each channel does to the decision, with a picture.
        """
        return explain(self, x, times, parts)

    def _combine(self, outputs: Tensor) -> np.ndarray:
        check_finite(outputs)
        probabilities = outputs.cpu().double().softmax(-1).mean(0)
        return (probabilities / probabilities.sum(-1, keepdim=True)).numpy()


def check_no_missing(y: Any) -> None:
    """Raise ValueError if a label is NaN, None or another way to say that there is none."""
    if isinstance(y, np.ndarray) and y.dtype.kind not in "fOmMT":
        return
    if not hasattr(y, "__iter__") or np.ndim(y) != 1:
        return
    for i, label in enumerate(y):
        missing = label is None or (not isinstance(label, str) and _is_no_number(label))
        if missing:
            raise ValueError(f"y[{i}] is {label}, so a label is missing; Input y contains NaN")


def _without_string_dtype(y: Any) -> Any:
    """Labels of NumPy's StringDType, which scikit-learn refuses, as strings of one width."""
    if isinstance(y, np.ndarray) and y.dtype.kind == "T":
        return np.array(y.tolist(), dtype=str)
    return y


def _check_one_kind(y: np.ndarray) -> None:
    """Raise ValueError if labels of several kinds have no order."""
    kinds = sorted({type(label).__name__ for label in y}) if y.dtype == object else []
    if len(kinds) < 2:
        return
    try:
        np.unique(y)
    except TypeError:
        raise ValueError(
            f"y mixes labels of the kinds {', '.join(kinds)}; expected one kind, such as strings"
        ) from None


def _is_no_number(label: Any) -> bool:
    """Whether a label differs from itself, as NaN and NaT do, or refuses to say, as pandas.NA."""
    try:
        return bool(label != label)
    except (TypeError, ValueError):
        return True
