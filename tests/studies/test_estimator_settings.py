"""Settings are chosen inside training data, and by leaving out one set at a time."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from slicekit.studies import Choice, conduct, make
from slicekit.studies.estimator_settings import chosen_without
from slicekit.studies.settings_race import DEFAULT, SETTINGS, held_out, measure
from slicekit.studies.training_parts import FAMILIES, training_part
from tests.tasks.archives_on_disk import write_archive


def test_a_split_has_a_share_of_every_class_or_five_of_each() -> None:
    y = np.repeat([0, 1, 2], [9, 12, 30])
    most, few = (held_out(y, small, np.random.default_rng(0)) for small in (False, True))
    assert most is not None and few is not None
    assert np.bincount(y[most]).tolist() == [3, 4, 10]
    assert np.bincount(y[~few]).tolist() == [5, 5, 5]
    assert held_out(np.arange(6) // 2, True, np.random.default_rng(0)) is None


def test_families_are_the_same_each_time_and_have_their_classes() -> None:
    for name in FAMILIES:
        (X, y), (again, _) = training_part(name), training_part(name)
        assert all(np.array_equal(a, b) for a, b in zip(X, again, strict=True))
        assert len(X) == len(y) and set(y) in ({0, 1}, {0, 1, 2})


def test_a_set_does_not_choose_its_own_setting() -> None:
    plain = dict.fromkeys(SETTINGS, 0.5)
    other = next(x for x in SETTINGS if x != DEFAULT)
    scores = {"a": plain | {other: 0.9}, "b": plain | {DEFAULT: 0.6}, "c": plain | {DEFAULT: 0.6}}
    assert chosen_without(scores, "a") == DEFAULT
    assert chosen_without(scores, "b") == other


def test_no_test_case_is_read(tmp_path: Path) -> None:
    write_archive(tmp_path)
    archive = training_part("SelfRegulationSCP1", str(tmp_path))
    plan = make("estimator-settings").wanted(
        Choice(models=("SelfRegulationSCP1",), data=str(tmp_path), quick=True), {}
    )[0]
    _, found = measure(plan)
    assert 0 < found["cases"] < len(archive[1])
    assert all(0 <= found[name] <= found["cases"] for name in SETTINGS)


def test_it_is_done_and_shown(tmp_path: Path) -> None:
    standing = conduct(
        make("estimator-settings"), Choice(models=("motifs",), quick=True), tmp_path / "study"
    )
    assert not standing.failures
    text = (tmp_path / "study" / "results.md").read_text()
    assert "Leaving out one set at a time" in text and DEFAULT in text
