"""What a user of the classifier is promised."""

import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from tests.estimators.waves import BOTH, RIDGE, SMALL, ragged, waves

pytest.importorskip("sklearn")

from slicekit import Diagonal, Orthogonal
from slicekit.estimators import SliceClassifier

IDS = ["ridge", "gradient"]


@pytest.mark.parametrize("options", [{"dim": 64}, SMALL | {"width": 16, "max_steps": 120}], ids=str)
def test_it_tells_slow_waves_from_fast_ones(options: Any) -> None:
    X, y = waves(48)
    model = SliceClassifier(**options | {"random_state": 0}).fit(X[:32], y[:32])
    assert model.score(X[32:], y[32:]) >= 0.9
    assert model.classes_.tolist() == ["fast", "slow"]


@pytest.mark.parametrize("options", BOTH, ids=IDS)
def test_the_same_random_state_gives_the_same_numbers(options: Any) -> None:
    X, y = waves()
    found = [SliceClassifier(**options).fit(X, y).predict_proba(X) for _ in range(2)]
    np.testing.assert_array_equal(found[0], found[1])
    other = SliceClassifier(**options | {"random_state": 1}).fit(X, y).predict_proba(X)
    assert np.abs(other - found[0]).max() > 1e-8


@pytest.mark.parametrize("options", BOTH, ids=IDS)
def test_a_random_state_object_is_drawn_from(options: Any) -> None:
    X, y = waves()
    random = np.random.RandomState(0)
    one, two = (
        SliceClassifier(**options | {"random_state": random}).fit(X, y).predict_proba(X)
        for _ in range(2)
    )
    assert np.abs(one - two).max() > 1e-8


@pytest.mark.parametrize("options", BOTH, ids=IDS)
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


@pytest.mark.parametrize("options", BOTH, ids=IDS)
def test_probabilities_of_members_are_averaged(options: Any) -> None:
    X, y = waves()
    model = SliceClassifier(**options, members=3).fit(X, y)
    together = model.predict_proba(X)
    networks, apart = model.networks_, []
    for network in networks:
        model.networks_ = [network]
        apart.append(model.predict_proba(X))
    assert np.abs(apart[0] - apart[1]).max() > 1e-8
    np.testing.assert_allclose(together, np.mean(apart, 0), rtol=1e-12)


@pytest.mark.parametrize("options", BOTH, ids=IDS)
def test_a_case_of_weight_zero_is_as_if_it_were_not_there(options: Any) -> None:
    X, y = waves()
    weight = np.r_[np.ones(20), np.zeros(4)]
    X_other = X.copy()
    X_other[20:] = 1e9
    found = SliceClassifier(**options).fit(X_other, y, sample_weight=weight).predict_proba(X)
    expected = SliceClassifier(**options).fit(X[:20], y[:20]).predict_proba(X)
    np.testing.assert_array_equal(found, expected)


def test_weights_move_the_fit_and_the_score() -> None:
    X, y = waves()
    heavy = np.where(y == "slow", 100.0, 1.0)
    options = SMALL | {"max_steps": 30, "learning_rate": 1e-2}
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
@pytest.mark.parametrize("options", BOTH, ids=IDS)
def test_any_labels_will_do(y: np.ndarray, options: Any) -> None:
    X, _, _ = ragged(12)
    model = SliceClassifier(**options).fit(X, y)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (12, len(np.unique(y)))
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-12)
    assert set(model.predict(X)) <= set(y)


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


@pytest.mark.parametrize("options", BOTH, ids=IDS)
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
    network = model.networks_[0]
    network.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    monkeypatch.setattr("slicekit.estimators.base.chunks", lambda n: torch.arange(len(n)).split(5))
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-6)
    assert seen == [5, 5, 2]


@pytest.mark.parametrize("options", BOTH, ids=IDS)
@pytest.mark.parametrize("structure", [Diagonal(6), Orthogonal(8, block=4)], ids=str)
def test_another_structure_is_used(structure: Any, options: Any) -> None:
    X, y = waves()
    model = SliceClassifier(**options, structure=structure).fit(X, y)
    assert model.recipe_.structure == structure
    held = [x.structure for x in model.networks_[0].modules() if hasattr(x, "structure")]
    assert held == [structure]


def test_long_series_are_summed_up_in_windows() -> None:
    X, y = waves(8, length=700)
    model = SliceClassifier(**SMALL).fit(X, y)
    assert model.features_.windows.size == 3
    assert model.predict_proba(X[:, :, :1]).shape == (8, 2)
    assert SliceClassifier(**RIDGE).fit(X, y).features_.windows.size == 1


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"solver": "rigde"}, ValueError),
        ({"dim": 0}, ValueError),
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
        ({"device": "abacus"}, ValueError),
        ({"structure": "dense"}, TypeError),
    ],
    ids=str,
)
def test_a_parameter_out_of_range_is_named_by_fit(
    wrong: dict[str, Any], error: type[Exception]
) -> None:
    X, y = waves(8)
    with pytest.raises(error, match=f"{next(iter(wrong))}[= ]"):
        SliceClassifier(**SMALL | wrong).fit(X, y)


def test_epochs_and_steps_both_bound_a_fit() -> None:
    X, y = waves(24)
    options = SMALL | {"batch_size": 5, "validation_fraction": 0}
    for bounds, steps in [
        ({"max_steps": 7, "max_epochs": None}, 7),
        ({"max_steps": None, "max_epochs": 2}, 8),
        ({"max_steps": 7, "max_epochs": 2}, 7),
    ]:
        assert SliceClassifier(**options | bounds).fit(X, y).history_[0].steps == steps


def test_verbose_shows_progress(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = waves()
    SliceClassifier(**SMALL, verbose=True, members=2).fit(X, y)
    assert "network 2 of 2" in capsys.readouterr().out


def test_verbose_does_without_rich(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    X, y = waves()
    SliceClassifier(**SMALL, verbose=True).fit(X, y)
    assert "step 3/3" in capsys.readouterr().out
