"""Word problems: running products of elements, with all or some of them as letters."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slicekit import tasks
from slicekit.tasks import WordProblem
from tests.tasks.every import quaternions, quick, seeded


@pytest.mark.parametrize("name", ["a5", "s5", "a4xz5", "z60"])
def test_the_settings_of_the_named_groups(name: str) -> None:
    task = WordProblem(name)
    assert task.name == name
    assert task.vocabulary == task.outputs == task.group.order == (120 if name == "s5" else 60)
    assert task.train_lengths == (3, 40)
    assert task.validation_lengths == (40, 128)
    assert task.test_lengths == (20, 5120)


@quick
@given(seed=st.integers(0, 2**32 - 1))
def test_a_word_moves_points_one_permutation_after_the_other(seed: int) -> None:
    task = WordProblem("s5")
    permutations = task.group.permutations
    assert permutations is not None
    batch = task.sample(1, (1, 15), seeded(seed))
    points = list(range(5))
    for position in range(int(batch.lengths)):
        letter = permutations[batch.inputs[0, position]]
        points = [letter[point] for point in points]
        assert permutations[batch.targets[0, position]] == tuple(points)


def test_words_of_z60_are_sums() -> None:
    batch = WordProblem("z60").sample(32, (1000, 1000), seeded(0))
    assert torch.equal(batch.targets, batch.inputs.cumsum(1) % 60)


def test_the_first_target_is_the_first_letter_and_all_positions_count() -> None:
    batch = WordProblem("a5").sample(64, (3, 40), seeded(0))
    assert torch.equal(batch.targets[:, 0], batch.inputs[:, 0])
    assert torch.equal(batch.supervised.sum(1), batch.lengths)


def test_letters_and_products_are_uniform() -> None:
    batch = WordProblem("a5").sample(4000, (20, 20), seeded(0))
    for drawn in (batch.inputs, batch.targets[:, 5:], batch.targets[:, -1]):
        shares = drawn.flatten().bincount(minlength=60) / drawn.numel() * 60
        assert ((shares > 0.5) & (shares < 1.5)).all()


def test_only_the_letters_occur() -> None:
    group = tasks.named_group("a5")
    task = WordProblem(group, letters=[*group.generators, 0])
    batch = task.sample(50, (10, 10), seeded(0))
    assert set(batch.inputs.flatten().tolist()) == {0, *group.generators}
    assert task.vocabulary == 60
    assert len(batch.targets.unique()) > len(group.generators) + 1


def test_the_oracle_needs_no_permutations() -> None:
    """i·j = k, k·k = -1, -1·i = -i, in the numbering 1, -1, i, -i, j, -j, k, -k."""
    assert WordProblem(quaternions()).oracle([2, 4, 6, 2]) == [2, 6, 1, 3]


@pytest.mark.parametrize("token", [60, -1])
def test_a_token_that_is_no_element_is_named(token: int) -> None:
    with pytest.raises(ValueError, match=rf"^tokens holds {token}; expected 0..59$"):
        WordProblem("a5").oracle([0, token])


@pytest.mark.parametrize("letters", [[], [60], [-1, 3]])
def test_letters_that_are_no_elements_are_named(letters: Sequence[int]) -> None:
    with pytest.raises(
        ValueError, match=r"^letters=\[.*\]; expected at least one element of .* a5"
    ):
        WordProblem("a5", letters=letters)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": "A5"}, "unknown group 'A5', did you mean 'a5'?"),
        ({"train_lengths": (0, 3)}, "train_lengths=(0, 3); expected (low, high) with 1 <= low"),
        ({"test_lengths": (9, 8)}, "test_lengths=(9, 8); expected (low, high) with 1 <= low"),
    ],
)
def test_bad_settings_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        WordProblem(**options)
    assert str(caught.value).startswith(message)
