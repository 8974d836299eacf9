"""scikit-learn's own checks, and its tools with our estimators inside."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from slicekit import BlockDiagonal, Orthogonal
from slicekit.estimators import Gradient, SliceClassifier, SliceRegressor, SliceTransformer
from tests.estimators.waves import RIDGE, SMALL, gradient, ragged, ridge, waves

RAISE: Any = "raise"
ROUNDING = "float32: a case differs by rounding with its place in a batch"
LEARNS = "three steps do not learn; more do: test_it_tells_slow_waves_from_fast_ones"
EXCLUDED = {
    "ridge": {
        "check_sample_weight_equivalence_on_dense_data": (
            "values are standardised and thresholds drawn by case, so a case of weight 2 is not "
            "two cases; only a case of weight 0 is as if it were not there"
        ),
    },
    "gradient": {
        "check_sample_weight_equivalence_on_dense_data": (
            "batches and the validation split are drawn by case, so a case of weight 2 is not "
            "drawn as two cases are"
        ),
        "check_methods_subset_invariance": ROUNDING,
        "check_methods_sample_order_invariance": ROUNDING,
        "check_classifiers_train": LEARNS,
        "check_class_weight_classifiers": LEARNS,
        "check_regressors_train": LEARNS,
    },
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@parametrize_with_checks(
    [
        SliceClassifier(**ridge(groups=2)),
        SliceRegressor(**ridge(groups=2)),
        SliceClassifier(**SMALL),
        SliceRegressor(**SMALL),
        SliceTransformer(groups=1, random_state=0),
    ],
    expected_failed_checks=lambda estimator: EXCLUDED[
        "gradient" if isinstance(getattr(estimator, "solver", None), Gradient) else "ridge"
    ],
    xfail_strict=False,
)
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("kind", [SliceClassifier, SliceRegressor])
def test_parameters_are_stored_as_given_and_cloned(kind: Any) -> None:
    structure = Orthogonal(8, block=4)
    model = kind(solver=Gradient(structure=structure, width=8), random_state=3)
    again: Any = clone(model)
    assert model.get_params()["solver__structure"] is structure
    assert again.get_params()["solver__width"] == 8 and again.solver is not model.solver
    assert again.set_params(solver__width=4).solver.width == 4
    assert not [name for name in vars(again) if name.endswith("_")]


@pytest.mark.parametrize("kind", [SliceClassifier, SliceRegressor])
@pytest.mark.parametrize("call", ["predict", "score", "save", "stream"])
def test_an_estimator_that_is_not_fitted_says_so(kind: Any, call: str) -> None:
    X, y = waves(4)
    arguments = {"predict": (X,), "score": (X, y), "save": ("nowhere",), "stream": ()}[call]
    with pytest.raises(NotFittedError):
        getattr(kind(), call)(*arguments)


def test_a_grid_is_searched_over_structures_and_lists() -> None:
    X, _, y = ragged(12)
    grid = {"solver__structure": [None, BlockDiagonal(8, 2)], "solver__width": [4, 8]}
    search = GridSearchCV(SliceClassifier(**gradient()), grid, cv=2).fit(X, y)
    assert search.best_params_["solver__width"] in (4, 8)
    assert search.predict(X).shape == (12,)


def test_a_pipeline_ends_in_a_classifier() -> None:
    X, y = waves()
    chain = make_pipeline(FunctionTransformer(np.tanh), SliceClassifier(**RIDGE)).fit(X, y)
    expected = SliceClassifier(**RIDGE).fit(np.tanh(X), y).predict_proba(X[:3])
    np.testing.assert_array_equal(chain[-1].predict_proba(X[:3]), expected)


def test_series_that_carry_their_times_are_searched_and_predicted() -> None:
    X, times, y = ragged(12)
    pairs = list(zip(X, times, strict=True))
    grid = {"solver__groups": [1, 2]}
    search = GridSearchCV(SliceClassifier(**RIDGE), grid, cv=2, error_score=RAISE)
    search.fit(pairs, y)
    best = SliceClassifier(**RIDGE).set_params(**search.best_params_)
    again: Any = clone(best)
    expected = again.fit(X, y, times=times)
    np.testing.assert_array_equal(
        search.predict_proba(pairs), expected.predict_proba(X, times=times)
    )


def test_times_are_routed_through_a_search() -> None:
    X, times, y = ragged(12)
    model: Any = SliceClassifier(**RIDGE)
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_fit_request(times=True).set_score_request(times=True)
        search = GridSearchCV(model, {"solver__groups": [1, 2]}, cv=2, error_score=RAISE)
        search.fit(X, y, times=times)
        assert search.score(X, y, times=times) == search.best_estimator_.score(X, y, times=times)


def test_times_are_routed_through_cross_validation() -> None:
    X, times, y = ragged(12)
    model: Any = SliceClassifier(**RIDGE)
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_fit_request(times=True)
        model.set_score_request(times=True)
        found = cross_val_score(model, X, y, cv=2, params={"times": times})
    assert len(found) == 2 and np.isfinite(found).all()


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("X_other", [np.zeros((24, 2, 20)), np.zeros((24, 9))], ids=["3-D", "2-D"])
@pytest.mark.parametrize(
    "model",
    [
        SliceClassifier(**RIDGE),
        SliceRegressor(**RIDGE),
        SliceClassifier(**SMALL),
        SliceTransformer(groups=1, random_state=0),
    ],
    ids=str,
)
def test_a_fit_that_does_not_end_changes_nothing(
    model: Any, X_other: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, _ = waves()
    model.fit(X[:, 0], np.arange(24.0) % 2)
    before = dict(vars(model))
    # the last that the fits of `Ridge` or features, and of `Gradient` do
    monkeypatch.setattr("slicekit.estimators.stacked.looks", interrupted)
    monkeypatch.setattr("slicekit.estimators.transformer.looks", interrupted)
    monkeypatch.setattr("slicekit.estimators.networks.fit_network", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X_other, 7 + np.arange(24.0) % 3)
    after = vars(model)
    assert after.keys() == before.keys()
    assert all(after[name] is x for name, x in before.items())
    monkeypatch.undo()
    model.fit(X, np.arange(24.0) % 2)
    assert not hasattr(model, "n_features_in_")
