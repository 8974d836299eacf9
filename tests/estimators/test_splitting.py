"""Every class is trained on, and every case of an ensemble is held out once."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from slicekit.estimators.splitting import folds, split

GROUPS = [
    np.arange(40) % 2,
    np.r_[np.zeros(30, int), np.ones(3, int), [2]],
    np.arange(30) // 2,
    np.r_[np.zeros(20, int), np.full(2, 1), np.full(4, 2)],
    np.zeros(25, int),
]


@pytest.mark.parametrize("groups", GROUPS, ids=str)
@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5])
def test_all_groups_are_trained_on_and_nothing_is_lost(groups: np.ndarray, fraction: float) -> None:
    for member in range(7):
        train, held = split(groups, fraction, member, np.random.RandomState(0))
        assert sorted([*train.tolist(), *held.tolist()]) == list(range(len(groups)))
        assert set(groups[train]) == set(groups)


def test_members_hold_out_every_case_of_large_groups_once() -> None:
    groups = np.arange(40) % 2
    held = [split(groups, 0.25, m, np.random.RandomState(0))[1] for m in range(4)]
    assert sorted(np.concatenate(held).tolist()) == list(range(40))


def test_folds_share_every_group_evenly() -> None:
    groups = np.repeat([0, 1, 2], [31, 8, 2])
    found = folds(groups, 4, np.random.RandomState(0))
    for group in range(3):
        counts = np.bincount(found[groups == group], minlength=4)
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("groups", [np.zeros(1, int), np.arange(5), np.arange(6) % 3], ids=str)
def test_few_cases_are_all_trained_on(groups: np.ndarray) -> None:
    train, held = split(groups, 0.2, 0, np.random.RandomState(0))
    assert len(train) == len(groups) and len(held) == 0


def test_a_fraction_of_zero_holds_nothing_out() -> None:
    assert len(split(np.arange(40) % 2, 0, 0, np.random.RandomState(0))[1]) == 0
