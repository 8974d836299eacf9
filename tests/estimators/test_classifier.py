"""What a user of the classifier is promised."""

import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from slicekit import Diagonal, Orthogonal
from slicekit.estimators import Ridge, SliceClassifier
from tests.estimators.waves import BOTH, RIDGE, SMALL, gradient, ragged, ridge, waves

IDS = ["ridge", "gradient"]


@pytest.mark.parametrize("options", [ridge(groups=4), gradient(width=16, max_steps=120)], ids=IDS)
def test_it_tells_slow_waves_from_fast_ones(options: Any) -> None:
    X, y = waves(48)
    model = SliceClassifier(**options | {"random_state": 0}).fit(X[:32], y[:32])
    assert model.score(X[32:], y[32:]) >= 0.9
    assert model.classes_.tolist() == ["fast", "slow"]


@pytest.mark.parametrize("options", [make() for make in BOTH], ids=IDS)
def test_the_same_random_state_gives_the_same_numbers(options: Any) -> None:
    X, y = waves()
    found = [SliceClassifier(**options).fit(X, y).predict_proba(X) for _ in range(2)]
    np.testing.assert_array_equal(found[0], found[1])
    other = SliceClassifier(**options | {"random_state": 1}).fit(X, y).predict_proba(X)
    assert np.abs(other - found[0]).max() > 1e-8


@pytest.mark.parametrize("options", [make() for make in BOTH], ids=IDS)
def test_a_random_state_object_is_drawn_from(options: Any) -> None:
    X, y = waves()
    random = np.random.RandomState(0)
    one, two = (
        SliceClassifier(**options | {"random_state": random}).fit(X, y).predict_proba(X)
        for _ in range(2)
    )
    assert np.abs(one - two).max() > 1e-8


@pytest.mark.parametrize("options", [make() for make in BOTH], ids=IDS)
def test_nobody_elses_random_numbers_are_touched(options: Any) -> None:
    X, y = waves()
    torch.manual_seed(5)
    np.random.seed(5)
    expected = torch.rand(3), np.random.rand(3)
    torch.manual_seed(5)
    np.random.seed(5)
    SliceClassifier(**options).fit(X, y).predict(X)
    assert torch.equal(torch.rand(3), expected[0])
    np.testing.assert_array_equal(np.random.rand(3), expected[1])


@pytest.mark.parametrize("make", BOTH, ids=IDS)
def test_probabilities_of_members_are_averaged(make: Any) -> None:
    X, y = waves()
    model: Any = SliceClassifier(**make(members=3)).fit(X, y)
    together = model.predict_proba(X)
    name = "members" if hasattr(model.model_, "members") else "networks"
    members, apart = getattr(model.model_, name), []
    for member in members:
        setattr(model.model_, name, (member,))
        apart.append(model.predict_proba(X))
    assert np.abs(apart[0] - apart[1]).max() > 1e-8
    np.testing.assert_allclose(together, np.mean(apart, 0), rtol=1e-12)


@pytest.mark.parametrize("options", [make() for make in BOTH], ids=IDS)
def test_a_case_of_weight_zero_is_as_if_it_were_not_there(options: Any) -> None:
    X, y = waves()
    weight = np.r_[np.ones(20), np.zeros(4)]
    X_other = X.copy()
    X_other[20:] = 1e9
    found = SliceClassifier(**options).fit(X_other, y, sample_weight=weight).predict_proba(X)
    expected = SliceClassifier(**options).fit(X[:20], y[:20]).predict_proba(X)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("class_weight", [None, "balanced", {"fast": 3.0, "odd": 2.0}], ids=str)
def test_a_class_of_weight_zero_is_as_if_it_were_not_there(class_weight: Any) -> None:
    X, y = waves(14)
    y[3], y[5] = "odd", "odd"
    kept = (y != "odd") & (np.arange(14) > 0)
    found = SliceClassifier(**RIDGE, class_weight=class_weight).fit(X, y, sample_weight=1.0 * kept)
    if isinstance(class_weight, dict):
        class_weight = {"fast": 3.0}
    expected = SliceClassifier(**RIDGE, class_weight=class_weight).fit(X[kept], y[kept])
    assert found.classes_.tolist() == ["fast", "slow"]
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    unwanted = SliceClassifier(**RIDGE, class_weight={"odd": 0}).fit(X[1:], y[1:])
    plain = SliceClassifier(**RIDGE).fit(X[kept], y[kept])
    np.testing.assert_array_equal(unwanted.predict_proba(X), plain.predict_proba(X))


def test_weights_move_the_fit_and_the_score() -> None:
    X, y = waves()
    heavy = np.where(y == "slow", 100.0, 1.0)
    options = gradient(max_steps=30, learning_rate=1e-2)
    plain = SliceClassifier(**options).fit(X, y)
    moved = SliceClassifier(**options).fit(X, y, sample_weight=heavy)
    assert moved.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
    right = plain.predict(X) == y
    assert plain.score(X, y, sample_weight=heavy) == pytest.approx(np.average(right, weights=heavy))


@pytest.mark.parametrize(
    "y",
    [
        np.zeros(12, int),
        np.arange(12),
        np.r_[np.zeros(9, int), 1, 2, 2],
        np.array(["a", "b"] * 6, dtype=object),
        np.array([True, False] * 6),
        np.array([0.5, 2.0] * 6) * 2,
    ],
    ids=["one class", "one case each", "tiny classes", "objects", "booleans", "floats"],
)
@pytest.mark.parametrize("options", [make() for make in BOTH], ids=IDS)
def test_any_labels_will_do(y: np.ndarray, options: Any) -> None:
    X, _, _ = ragged(12)
    model = SliceClassifier(**options).fit(X, y)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (12, len(np.unique(y)))
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-12)
    assert set(model.predict(X)) <= set(y)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="needs NumPy 2")
def test_labels_of_the_string_dtype_are_strings() -> None:
    X, y = waves(12)
    kind = np.dtypes.StringDType(na_object=np.nan)
    strings = y.astype(kind)
    model = SliceClassifier(**RIDGE).fit(X, strings)
    np.testing.assert_array_equal(model.predict(X), SliceClassifier(**RIDGE).fit(X, y).predict(X))
    assert model.classes_.tolist() == ["fast", "slow"]
    assert model.score(X, strings) == model.score(X, y)
    assert model.early_scores(X, strings) == model.early_scores(X, y)
    strings[3] = np.nan
    with pytest.raises(ValueError, match=r"y\[3\] is nan, so a label is missing"):
        SliceClassifier(**RIDGE).fit(X, strings)


def test_labels_of_several_kinds_are_named() -> None:
    y = np.array(["a", 1] * 6, dtype=object)
    with pytest.raises(ValueError, match=r"y mixes labels of the kinds int, str; expected one"):
        SliceClassifier(**RIDGE).fit(waves(12)[0], y)


def strange_sets() -> dict[str, np.ndarray]:
    X, _ = waves(12, length=6)
    holed, offset, spiked = X.copy(), X.copy(), X.copy()
    holed[:, 1], holed[3] = np.nan, np.nan
    offset[:, 0] = 1e6 + 1e6 * offset[:, 0]
    spiked[5, 0, 2] = 1e12
    return {
        "length one": X[:, :, :1],
        "constant": np.ones_like(X),
        "never observed": holed,
        "large": offset,
        "spike": spiked,
        "integers": (10 * X).astype(int),
        "one case": X[:1],
    }


@pytest.mark.parametrize("options", [make() for make in BOTH], ids=IDS)
@pytest.mark.parametrize("name", strange_sets())
def test_strange_series_are_no_trouble(name: str, options: Any) -> None:
    X = strange_sets()[name]
    y = np.arange(len(X)) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = SliceClassifier(**options).fit(X, y).predict_proba(X)
    assert np.isfinite(found).all()


def test_memory_is_bounded_by_batches_which_change_nothing(monkeypatch: Any) -> None:
    X, _, y = ragged(12)
    model = SliceClassifier(**SMALL).fit(X, y)
    expected = model.predict_proba(X)
    seen = []
    network = model.model_.networks[0]  # type: ignore[attr-defined]
    network.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    monkeypatch.setattr(
        "slicekit.estimators.networks.chunks", lambda n: torch.arange(len(n)).split(5)
    )
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-6)
    assert seen == [5, 5, 2]


def test_blocks_are_looked_at_in_parts_which_change_nothing(monkeypatch: Any) -> None:
    X, _, y = ragged(12)
    model = SliceClassifier(**RIDGE).fit(X, y)
    expected = model.predict_proba(X)
    monkeypatch.setattr("slicekit.estimators.blocks.AT_ONCE", 5000)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-6)
    again = SliceClassifier(**RIDGE).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(again, expected, atol=1e-5)


def test_threads_change_nothing() -> None:
    X, y = waves()
    one = SliceClassifier(**RIDGE).fit(X, y).predict_proba(X)
    two = SliceClassifier(**RIDGE, n_jobs=2).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("n_jobs", [0, 1.5, "all", True])
def test_a_number_of_threads_that_is_none_is_named(n_jobs: Any) -> None:
    X, y = waves(6)
    with pytest.raises(ValueError, match=f"n_jobs={n_jobs!r}; expected a whole number"):
        SliceClassifier(**RIDGE, n_jobs=n_jobs).fit(X, y)


@pytest.mark.parametrize("structure", [Diagonal(6), Orthogonal(8, block=4)], ids=str)
def test_another_structure_is_used(structure: Any) -> None:
    X, y = waves()
    model: Any = SliceClassifier(**gradient(structure=structure)).fit(X, y).model_
    assert model.recipe.structure == structure
    held = [x.structure for x in model.networks[0].modules() if hasattr(x, "structure")]
    assert held == [structure]


def test_long_series_are_summed_up_in_windows() -> None:
    X, y = waves(8, length=700)
    model: Any = SliceClassifier(**SMALL).fit(X, y)
    assert model.model_.features.windows.size == 3
    assert model.predict_proba(X[:, :, :1]).shape == (8, 2)


def test_classes_are_balanced() -> None:
    X, y = waves(24)
    y[y == "fast"], y[:6] = "slow", "fast"
    plain = SliceClassifier(**RIDGE).fit(X, y)
    balanced = SliceClassifier(**RIDGE, class_weight="balanced").fit(X, y)
    by_hand = SliceClassifier(**RIDGE, class_weight={"fast": 2.0, "slow": 2 / 3}).fit(X, y)
    weights = np.where(y == "fast", 2.0, 2 / 3)
    weighted = SliceClassifier(**RIDGE).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(balanced.predict_proba(X), by_hand.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(balanced.predict_proba(X), weighted.predict_proba(X), atol=1e-9)
    assert balanced.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean()
    for wrong in ("even", {"neither": 1.0}, {"fast": -1.0}):
        with pytest.raises(ValueError, match="class_weight"):
            SliceClassifier(**RIDGE, class_weight=wrong).fit(X, y)


def test_decisions_agree_with_probabilities() -> None:
    X, y = waves()
    model = SliceClassifier(**RIDGE).fit(X, y)
    odds = model.predict_proba(X)
    decisions = model.decision_function(X)
    np.testing.assert_allclose(decisions, np.log(odds[:, 1] / odds[:, 0]), atol=1e-9)
    series, _, labels = ragged()
    three = SliceClassifier(**RIDGE).fit(series, labels)
    found = three.decision_function(series)
    assert found.shape == (12, 3)
    np.testing.assert_array_equal(three.classes_[found.argmax(1)], three.predict(series))


def test_early_answers_are_those_of_the_stream() -> None:
    X, y = waves(16)
    model = SliceClassifier(**RIDGE).fit(X, y)
    found = model.early_scores(X, y, shares=(0.5, 1.0))
    said = []
    for x in X:
        stream = model.stream()
        for observation in x[:, :10].T:
            stream.update(observation)
        said.append(model.classes_[stream.probabilities.argmax()])
    assert found == {0.5: np.mean(np.array(said) == y), 1.0: model.score(X, y)}
    with pytest.raises(ValueError, match="shares holds 0"):
        model.early_scores(X, y, shares=(0,))


@pytest.mark.parametrize(
    "y",
    [
        [np.nan] * 10 + ["a"] * 10,
        np.array([np.nan] * 10 + ["a"] * 10, dtype=object),
        [None] + ["a"] * 19,
        np.array([np.nan] + [1.0] * 19),
        np.array(["NaT"] + ["2020"] * 10 + ["2021"] * 9, dtype="datetime64[D]"),
    ],
    ids=["list", "objects", "None", "floats", "dates"],
)
def test_a_missing_label_is_refused(y: Any) -> None:
    with pytest.raises(ValueError, match=r"y\[0\] is (nan|None|NaT)|NaN"):
        SliceClassifier(**RIDGE).fit(waves(20)[0], y)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((4, 1, 5), np.nan), "NaN alone"),
        (np.full((4, 1, 5), np.inf), "infinity"),
        (np.zeros((0, 1, 5)), "0 sample|empty"),
        (np.zeros((4, 1, 0)), "empty"),
    ],
    ids=["nothing observed", "infinity", "no cases", "no length"],
)
def test_series_that_hold_nothing_are_refused(X: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SliceClassifier(**RIDGE).fit(X, np.arange(len(X)) % 2)


def test_huge_values_are_no_trouble() -> None:
    X, y = waves(20)
    model = SliceClassifier(**RIDGE).fit(1e30 * X, y)
    plain = SliceClassifier(**RIDGE).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(1e30 * X), plain.predict_proba(X), atol=1e-4)


def test_a_solver_that_is_none_is_named() -> None:
    X, y = waves(8)
    wrong: Any = "ridge"
    with pytest.raises(TypeError, match=r"solver='ridge'; expected Ridge\(...\) or Gradient"):
        SliceClassifier(solver=wrong).fit(X, y)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"width": 0}, ValueError),
        ({"layers": 1.5}, TypeError),
        ({"members": -1}, ValueError),
        ({"window": 0}, ValueError),
        ({"max_steps": 0}, ValueError),
        ({"max_epochs": "ten"}, TypeError),
        ({"patience": 0}, ValueError),
        ({"learning_rate": 0}, ValueError),
        ({"weight_decay": -1}, ValueError),
        ({"dropout": 1.0}, ValueError),
        ({"validation_fraction": 0.9}, ValueError),
        ({"structure": "dense"}, TypeError),
    ],
    ids=str,
)
def test_a_parameter_out_of_range_is_named_by_fit(
    wrong: dict[str, Any], error: type[Exception]
) -> None:
    X, y = waves(8)
    with pytest.raises(error, match=f"{next(iter(wrong))}[= ]"):
        SliceClassifier(**gradient(**wrong)).fit(X, y)


@pytest.mark.parametrize("wrong", [{"groups": 0}, {"members": 0}], ids=str)
def test_a_parameter_of_the_closed_form_is_named_by_fit(wrong: Any) -> None:
    X, y = waves(8)
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}=0"):
        SliceClassifier(solver=Ridge(**wrong)).fit(X, y)


def test_a_device_that_is_not_there_is_named() -> None:
    X, y = waves(8)
    with pytest.raises(ValueError, match="device="):
        SliceClassifier(**SMALL, device="abacus").fit(X, y)


def test_epochs_and_steps_both_bound_a_fit() -> None:
    X, y = waves(24)
    options = {"batch_size": 5, "validation_fraction": 0}
    for bounds, steps in [
        ({"max_steps": 7, "max_epochs": None}, 7),
        ({"max_steps": None, "max_epochs": 2}, 8),
        ({"max_steps": 7, "max_epochs": 2}, 7),
    ]:
        assert SliceClassifier(**gradient(**options | bounds)).fit(X, y).history_[0].steps == steps


def test_verbose_shows_progress(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = waves()
    SliceClassifier(**gradient(members=2), verbose=True).fit(X, y)
    assert "network 2 of 2" in capsys.readouterr().out


def test_verbose_does_without_rich(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    X, y = waves()
    SliceClassifier(**SMALL, verbose=True).fit(X, y)
    assert "step 3/3" in capsys.readouterr().out
