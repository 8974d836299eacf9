"""The features alone, for pipelines."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from slicekit.checks import check_whole
from slicekit.estimators.atomic import all_or_nothing
from slicekit.estimators.blocks import Blocks
from slicekit.estimators.containers import case_ids
from slicekit.estimators.inputs import Cases, read_cases
from slicekit.estimators.path import Path, training_paths
from slicekit.estimators.solvers import threads
from slicekit.estimators.stacked import in_order, looks


class SliceTransformer(TransformerMixin, BaseEstimator):
    """What random linear CDEs see of time series: a table of features.

    Args:
        groups: of eight filters each, for every dilation; None is 16, and for more than 4000 cases
            64 over the number of dilations, within 8 and 64.
        n_jobs: threads, as joblib counts them.
        random_state: an integer for the same numbers at every fit, a RandomState, or None.

    Attributes:
        blocks_: how many features each block has, by name, in their order.
        n_channels_in_: channels of the series.
        channel_names_in_: their names, if X was frames whose columns are channels.

    Example:
        >>> X = np.random.RandomState(0).randn(10, 2, 30)
        >>> features = SliceTransformer(groups=2, random_state=0).fit_transform(X)
        >>> (
        ...     len(features),
        ...     features.shape[1]
        ...     == sum(SliceTransformer(groups=2, random_state=0).fit(X).blocks_.values()),
        ... )
        (10, True)
    """

    def __init__(
        self,
        *,
        groups: int | None = None,
        n_jobs: int | None = 1,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        """Store them."""
        self.groups = groups
        self.n_jobs = n_jobs
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, times: Any = None) -> Self:
        """Draw the linear CDEs, and fit them to the scale of the series.

        Args:
            X: as for `SliceClassifier.fit`.
            y: is not looked at.
            times: as for `SliceClassifier.fit`.

        Returns:
            This transformer.
        """
        if self.groups is not None:
            check_whole("groups", self.groups, otherwise=", or None")
        cases = read_cases(self, X, times, reset=True)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.n_channels_in_, self.dated_ = cases.channels, cases.dated
        self._path = Path.fit(cases)
        groups = None if self.groups is None else int(self.groups)
        random = np.random.default_rng(seed)
        self._drawn = Blocks.draw(training_paths(self._path, cases), groups, random)
        _, first = next(self._look(cases.select(torch.arange(1))))
        self.blocks_ = {name: x.shape[1] for name, x in first.items()}
        return self

    def fit_transform(self, X: Any, y: Any = None, times: Any = None) -> Any:  # type: ignore[override]
        """The features of the series that it is fitted to; arguments as for `fit`."""
        return self.fit(X, y, times=times).transform(X, times=times)

    def transform(self, X: Any, times: Any = None) -> Any:
        """The features (cases, features) float32 of series of any lengths; not standardised.

        As a frame (`set_output`) they have a row for each case, by the ids of a frame in long form.
        """
        check_is_fitted(self)
        cases, name = read_cases(self, X, times, reset=False), type(self).__name__
        if cases.channels != self.n_channels_in_:
            raise ValueError(
                f"X has {cases.channels} channels, but {name} was fitted to {self.n_channels_in_}"
            )
        if self._path.timed and cases.times is None:
            raise ValueError(f"times is missing; this {name} was fitted with times")
        if cases.times is not None and cases.dated != self.dated_:
            raise ValueError("times holds dates or numbers, but not as in fit; expected the same")
        parts = [(some, torch.cat(list(x.values()), 1)) for some, x in self._look(cases)]
        features = in_order(parts).numpy()
        ids = case_ids(X)
        if ids is not None and _get_output_config("transform", self)["dense"] == "pandas":
            return type(X)(features, index=ids)
        return features

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Block and number of each feature."""
        check_is_fitted(self)
        names = [f"{name}{i}" for name, size in self.blocks_.items() for i in range(size)]
        return np.asarray(names, dtype=object)

    def _look(self, cases: Cases) -> Any:
        with torch.inference_mode():
            yield from looks(self._path, self._drawn, cases, threads(self.n_jobs))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None
        tags.transformer_tags.preserves_dtype = []
        return tags
