"""The regressor."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array
from torch import Tensor

from slicekit.estimators.atomic import all_or_nothing
from slicekit.estimators.base import SliceEstimator, check_finite
from slicekit.estimators.clocks import holds_times
from slicekit.estimators.containers import unmasked
from slicekit.estimators.explaining import Explanation, explain
from slicekit.estimators.inputs import check_answers, read_cases

STRATA = 5
"""Validation holds out as many of the smallest values as of the largest."""

LARGEST = np.finfo(np.float64).max


class SliceRegressor(RegressorMixin, SliceEstimator):
    """Predict numbers from time series by structured linear CDEs.

    Series may have any number of channels, unequal lengths, gaps (NaN) and irregular times. By
    default many random linear CDEs are drawn and linear read-outs of what they see are solved for,
    which takes seconds; solver=Gradient(...) trains a network of them as a whole.

    Args:
        solver: `Ridge(...)` or `Gradient(...)`; None is `Ridge()`.
        n_jobs: threads, as joblib counts them.
        device: of `Gradient`, "cpu", "cuda" or "mps"; None is the CPU.
        random_state: an integer for the same numbers at every fit, a RandomState, or None.
        verbose: whether to show progress.

    Attributes:
        n_channels_in_: channels of the series.
        channel_names_in_: their names, if X was frames whose columns are channels.
        n_features_in_: their length, if X was a 2-D array.
        model_: what was fitted; history_: how the fit of each member went.

    Example:
        >>> X = np.random.RandomState(0).randn(30, 1, 12)
        >>> SliceRegressor(random_state=0).fit(X, X.mean((1, 2))).predict(X).shape
        (30,)
    """

    centre_: np.ndarray
    spread_: np.ndarray

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> Self:
        """Fit the model.

        Args:
            X: a 3-D array (cases, channels, length), a list of 2-D arrays (channels, length_i), or
                a 2-D array (cases, length) of series with one channel. NaN is a gap. A list may
                also hold pairs of a 2-D array (channels, length_i) and its times (length_i,). Data
                frames: see `slicekit.estimators.containers`.
            y: (cases,) or (cases, targets) numbers.
            sample_weight: (cases,) not negative, or None; a case of weight zero is as if it were
                not there.
            times: (length,), (cases, length) or a list of 1-D arrays (length_i,), strictly
                increasing numbers or dates; None is 0, 1, ...

        Returns:
            This regressor.

        Raises:
            ValueError: if shapes do not fit, y is no numbers, or a parameter is out of its range.
            FloatingPointError: if the loss stays no number at a tenth of the learning rate.
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        cases = read_cases(self, X, times, reset=True)
        y = _numbers(unmasked(y))
        check_answers(X, cases, y)
        if y.ndim > 2:
            raise ValueError(f"y has shape {y.shape}; expected (cases,) or (cases, targets)")
        weights = self._weights(sample_weight, cases)
        kept = np.flatnonzero(weights)
        cases, y, weights = cases.select(torch.from_numpy(kept)), y[kept], weights[kept]
        scaled = self._standardised(y, weights).reshape(len(y), -1)
        rank = np.argsort(np.argsort(scaled[:, 0], kind="stable"))
        strata = rank * min(STRATA, len(y)) // len(y)
        targets = torch.from_numpy(scaled)
        self._solve(cases, targets, strata, targets.shape[1], weights, classes=False)
        return self

    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """The predicted numbers.

        Args:
            X: as for `fit`, of any lengths.
            times: as for `fit`; needed if the regressor was fitted with them.

        Returns:
            (cases,) or (cases, targets), as y in `fit`.
        """
        return self._combine(self._outputs(X, times))

    def score(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> float:
        """The coefficient of determination R²; arguments as for `fit`."""
        return float(r2_score(y, self.predict(X, times), sample_weight=sample_weight))

    def explain(self, x: Any, times: Any = None, parts: int = 16) -> Explanation:
        """Which channels and which times of a series make its prediction what it is.

        Args:
            x: one series (channels, length), (length,) for one channel, a pair of a series and its
                times, or a frame with a row for each time.
            times: (length,) or None, as for `fit`.
            parts: of the series.

        Returns:
            What each part of each channel does to the first target, with a picture.
        """
        return explain(self, x, times, parts)

    def _standardised(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Targets with mean 0 and deviation 1, as y in shape; keeps what leads back.

        Each target is divided by a power of two first, so that the squares of the largest and of
        the smallest numbers stay in range and others keep their bits.
        """
        _, power = np.frexp(np.abs(y).max(0))
        units = np.ldexp(y, -power)
        centre = np.asarray(np.average(units, 0, weights))
        spread = np.sqrt(np.average((units - centre) ** 2, 0, weights))
        spread = np.where(spread > 1e-12 * np.abs(units).max(0), spread, 1.0)
        self.centre_, self.spread_ = (np.asarray(np.ldexp(x, power)) for x in (centre, spread))
        return (units - centre) / spread

    def _combine(self, outputs: Tensor) -> np.ndarray:
        check_finite(outputs)
        means = outputs.cpu().double().mean(0).numpy()
        means = means.reshape(len(means), *self.centre_.shape)
        with np.errstate(over="ignore"):
            return np.clip(means * self.spread_ + self.centre_, -LARGEST, LARGEST)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _numbers(y: Any) -> np.ndarray:
    """The targets as float64, finite.

    Raises:
        ValueError: if one is no finite number, or a date or a duration, which NumPy would convert.
    """
    real: Any = np.float64
    try:
        dated = holds_times(y)
        np.asarray(y, dtype=real)
    except (TypeError, ValueError):
        raise ValueError(f"y={_some(y)}; expected numbers, (cases,) or (cases, targets)") from None
    if dated:
        raise ValueError(
            f"y={_some(y)} holds dates or durations; expected numbers, such as the seconds since a "
            "date of yours"
        )
    return check_array(y, ensure_2d=False, dtype=real, input_name="y")


def _some(y: Any) -> str:
    """The first of the targets, as one would write them."""
    try:
        first = ", ".join(repr(x) for x, _ in zip(y, range(3), strict=False))
    except TypeError:
        return repr(y)
    return f"[{first}{', ...' if len(y) > 3 else ''}]"
