"""The paper's protocol: distinct words of one length, split once, and pairs at every step."""

import time
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slicekit import tasks
from slicekit.tasks import FixedLengthWords
from slicekit.tasks.fixed_length_words import distinct_words
from tests.tasks.every import quick, same, seeded


def as_set(words: torch.Tensor) -> set[tuple[int, ...]]:
    return {tuple(word) for word in words.tolist()}


@quick
@given(st.integers(1, 5), st.integers(1, 5), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_words_are_distinct_and_as_many_as_wanted(
    letters: int, length: int, share: float, seed: int
) -> None:
    count = max(1, int(share * letters**length))
    words = distinct_words(letters, length, count, seeded(seed))
    assert words.shape == (count, length)
    assert len(as_set(words)) == count
    assert as_set(words) <= set(product(range(letters), repeat=length))


@pytest.mark.parametrize(("letters", "length"), [(60, 4), (60, 10), (60, 11), (60, 40), (2, 100)])
def test_words_of_any_length_are_distinct_and_uniform(letters: int, length: int) -> None:
    words = distinct_words(letters, length, 20_000, seeded(0))
    assert words.dtype == torch.uint8
    assert len(as_set(words)) == 20_000
    shares = words.flatten().long().bincount(minlength=letters) / words.numel() * letters
    assert ((shares > 0.85) & (shares < 1.15)).all()


def test_many_letters_need_a_wider_type() -> None:
    words = distinct_words(300, 2, 90_000, seeded(0))
    assert words.dtype == torch.int16
    assert as_set(words) == set(product(range(300), repeat=2))


@pytest.mark.parametrize(("length", "words"), [(2, 3600), (3, 216_000)])
def test_short_words_are_all_there(length: int, words: int) -> None:
    task = FixedLengthWords("a5", length)
    train, held_out = task.words("train"), task.words("validation")
    assert len(train) == words * 4 // 5
    codes = torch.cat([train, held_out]) @ 60 ** torch.arange(length)
    assert torch.equal(codes.sort().values, torch.arange(words))


def test_the_papers_data_set_has_a_million_distinct_words_and_is_made_quickly() -> None:
    task = FixedLengthWords("a5", length=4)
    start = time.perf_counter()
    train, held_out = task.words("train"), task.words("validation")
    assert time.perf_counter() - start < 20
    assert (len(train), len(held_out)) == (800_000, 200_000)
    codes = torch.cat([train, held_out]) @ 60 ** torch.arange(4)
    assert len(codes.unique()) == 1_000_000


@pytest.mark.parametrize("length", [6, 7, 30])
def test_both_parts_are_drawn_from_all_words_alike(length: int) -> None:
    task = FixedLengthWords(tasks.cyclic(7), length, sequences=50_000)
    for split in ("train", "validation"):
        for letter in task.words(split).unbind(1):
            shares = letter.bincount(minlength=7) / len(letter) * 7
            assert ((shares > 0.6) & (shares < 1.4)).all()


def test_the_split_is_the_same_in_every_run() -> None:
    torch.manual_seed(1)
    one = FixedLengthWords("a5", 5, sequences=500)
    one.sample(7, (5, 5), seeded(11))
    torch.manual_seed(2)
    other = FixedLengthWords("a5", 5, sequences=500)
    other.sample(9, (5, 5), seeded(12), "validation")
    for split in ("train", "validation", "test"):
        assert torch.equal(one.words(split), other.words(split))


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_batch_holds_words_of_its_split_with_all_running_products(split: str) -> None:
    task = FixedLengthWords("a5", 6, sequences=1000)
    batch = task.sample(300, (6, 6), seeded(0), split)
    assert same(batch, task.sample(300, (6, 6), seeded(0), split))
    assert as_set(batch.inputs) <= as_set(task.words(split))
    assert batch.supervised.all() and (batch.lengths == 6).all()
    for row in range(20):
        assert batch.targets[row].tolist() == task.oracle(batch.inputs[row].tolist())


def test_the_parts_are_disjoint_and_training_sees_all_of_its_own() -> None:
    task = FixedLengthWords(tasks.cyclic(5), 3, sequences=100)
    train, held_out = as_set(task.words("train")), as_set(task.words("validation"))
    assert (len(train), len(held_out), len(train & held_out)) == (80, 20, 0)
    generator = seeded(0)
    seen = set().union(*(as_set(task.sample(64, (3, 3), generator).inputs) for _ in range(20)))
    assert seen == train


def test_validation_repeats_a_word_only_after_all_others() -> None:
    task = FixedLengthWords("a5", 4, sequences=500)
    held_out = as_set(task.words("validation"))
    assert len(as_set(task.sample(60, (4, 4), seeded(0), "validation").inputs)) == 60
    inputs = task.sample(250, (4, 4), seeded(0), "validation").inputs
    assert as_set(inputs[:100]) == as_set(inputs[100:200]) == held_out
    assert len(as_set(inputs[200:])) == 50


def test_pairs_come_at_every_step() -> None:
    task = FixedLengthWords("a5", 20, sequences=10)
    generator = seeded(0)
    pairs = task.helper(256, generator)
    assert pairs is not None
    assert pairs.inputs.shape == (25, 2)
    assert pairs.supervised.all() and (pairs.lengths == 2).all()
    first, then = pairs.inputs.unbind(1)
    assert torch.equal(pairs.targets, torch.stack([first, task.group.table[first, then]], 1))
    again = task.helper(256, seeded(0))
    assert again is not None and same(pairs, again)
    many = task.helper(1_000_000, generator)
    assert many is not None and len(as_set(many.inputs)) == 3600


def test_pairs_can_be_left_out_and_a_small_batch_has_none() -> None:
    assert FixedLengthWords("a5", 20, pairs=False).helper(256, seeded(0)) is None
    assert FixedLengthWords("a5", 20).helper(9, seeded(0)) is None


def test_words_of_few_letters() -> None:
    task = FixedLengthWords("s5", 3, letters=[7, 50])
    assert task.words("train").shape == (6, 3)
    assert as_set(torch.cat([task.words("train"), task.words("test")])) == set(
        product([7, 50], repeat=3)
    )


def test_a_test_may_have_any_length_but_training_has_one() -> None:
    task = FixedLengthWords("a5", 6, sequences=100)
    assert task.name == "a5-fixed"
    assert task.train_lengths == task.validation_lengths == task.test_lengths == (6, 6)
    batch = task.sample(3, (10, 50), seeded(0), "test")
    assert batch.inputs.shape == (3, 50)
    with pytest.raises(ValueError, match=r"^lengths=\(3, 6\); expected \(6, 6\) .* validation: "):
        task.sample(3, (3, 6), seeded(0), "validation")
    with pytest.raises(ValueError, match=r"^lengths=\(3, 7\); expected at most \(6, 6\) .*train: "):
        task.sample(3, (3, 7), seeded(0), "train")


def test_training_at_shorter_lengths_gives_prefixes_of_its_words() -> None:
    task = FixedLengthWords("a5", 6, sequences=50)
    prefixes = as_set(task.words("train")[:, :4])
    batch = task.sample(64, (2, 4), seeded(0), "train")
    assert batch.inputs.shape == (64, 4) and set(batch.lengths.tolist()) == {2, 3, 4}
    whole = [row for row, n in zip(batch.inputs, batch.lengths, strict=True) if n == 4]
    assert as_set(torch.stack(whole)) <= prefixes
    for row, targets, n in zip(batch.inputs, batch.targets, batch.lengths, strict=True):
        assert targets[:n].tolist() == task.oracle(row[:n].tolist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length=0; expected at least 1"),
        ({"sequences": 1}, "sequences=1; expected at least 2"),
        ({"letters": [3]}, r"letters=\[3\] make one word of length 20; expected two or more"),
    ],
)
def test_settings_without_a_split_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        FixedLengthWords("a5", **options)


def test_other_bad_values_are_named() -> None:
    task = FixedLengthWords("a5", 6, sequences=100)
    with pytest.raises(ValueError, match=r"^batch=0; expected at least 1$"):
        task.sample(0, (6, 6), seeded(0))
    for call in (lambda: task.words("dev"), lambda: task.sample(1, (6, 6), seeded(0), "dev")):
        with pytest.raises(ValueError, match=r"^split='dev'; expected one of train, validation"):
            call()
