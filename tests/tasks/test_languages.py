"""Regular languages: the tokens, classes and answers of the paper's code."""

import pytest
import torch

from slicekit.tasks import CycleNavigation, EvenPairs, Language, ModularArithmetic, Parity
from tests.tasks.every import seeded

LANGUAGES = [CycleNavigation(), EvenPairs(), ModularArithmetic(), Parity()]
EVERY = pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)


@EVERY
def test_the_settings_of_the_paper(language: Language) -> None:
    sizes = {"cycle-navigation": 9, "even-pairs": 3, "modular-arithmetic": 10, "parity": 3}
    assert language.vocabulary == language.outputs == sizes[language.name]
    assert language.train_lengths == (3, 40)
    assert language.validation_lengths == language.test_lengths == (40, 256)


@EVERY
def test_only_the_last_token_is_supervised(language: Language) -> None:
    batch = language.sample(100, (3, 40), seeded(0))
    wanted = torch.zeros_like(batch.supervised)
    wanted[torch.arange(100), batch.lengths - 1] = True
    assert torch.equal(batch.supervised, wanted)


@EVERY
def test_answers_are_as_frequent_as_chance_has_it(language: Language) -> None:
    """Random guesses are right in 20, 50, 20 and 50 of 100 cases."""
    batch = language.sample(6000, (30, 40), seeded(0))
    classes, counts = batch.targets[batch.supervised].unique(return_counts=True)
    expected = {
        "cycle-navigation": [4, 5, 6, 7, 8],
        "even-pairs": [1, 2],
        "modular-arithmetic": [5, 6, 7, 8, 9],
        "parity": [1, 2],
    }
    assert classes.tolist() == expected[language.name]
    shares = counts / 6000 * len(classes)
    assert ((shares > 0.8) & (shares < 1.25)).all()


@pytest.mark.parametrize(
    ("language", "letters"),
    [(CycleNavigation(), [1, 2, 3]), (EvenPairs(), [1, 2]), (Parity(), [1, 2])],
    ids=lambda value: getattr(value, "name", ""),
)
def test_letters_are_uniform(language: Language, letters: list[int]) -> None:
    inputs = language.sample(500, (40, 40), seeded(0)).inputs
    found, counts = inputs.unique(return_counts=True)
    assert found.tolist() == letters
    shares = counts / inputs.numel() * len(letters)
    assert ((shares > 0.95) & (shares < 1.05)).all()


@pytest.mark.parametrize("word", ["a", "b", "ab", "aba", "abab", "bbbb", "abba", "baab", "aabb"])
def test_even_pairs_and_parity_of_words_written_out(word: str) -> None:
    tokens = [1 + "ab".index(letter) for letter in word]
    pairs = sum(word[i : i + 2] in ("ab", "ba") for i in range(len(word)))
    assert EvenPairs().oracle(tokens)[-1] == 1 + pairs % 2
    assert Parity().oracle(tokens)[-1] == 1 + word.count("b") % 2


def test_a_walk_around_a_cycle_of_any_size() -> None:
    language = CycleNavigation(states=7)
    assert language.vocabulary == 11
    assert language.oracle([2] * 7)[-1] == 4
    assert language.oracle([3, 1])[-1] == 10
    batch = language.sample(2000, (60, 60), seeded(0))
    assert batch.targets[:, -1].unique().tolist() == list(range(4, 11))


@EVERY
def test_an_empty_word_has_no_answer(language: Language) -> None:
    with pytest.raises(ValueError, match=r"^tokens=\[\]; expected at least"):
        language.oracle([])


def test_words_of_one_letter_have_answers() -> None:
    for language in (CycleNavigation(), EvenPairs(), Parity()):
        batch = language.sample(20, (1, 1), seeded(0))
        assert batch.supervised.all()
        assert batch.targets[:, 0].tolist() == [
            language.oracle([token])[0] for token in batch.inputs[:, 0].tolist()
        ]


def test_bad_values_are_named() -> None:
    with pytest.raises(ValueError, match=r"^states=0; expected at least 1$"):
        CycleNavigation(states=0)
    with pytest.raises(ValueError, match=r"^tokens holds 4; expected 1, 2 or 3$"):
        CycleNavigation().oracle([1, 4])
    with pytest.raises(ValueError, match=r"^train_lengths=\(5, 3\); expected \(low, high\) with 1"):
        Parity(train_lengths=(5, 3))
