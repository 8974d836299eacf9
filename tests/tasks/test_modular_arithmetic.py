"""Modular arithmetic agrees with Python's own arithmetic, and its words are well formed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slicekit.tasks import ModularArithmetic
from tests.tasks.every import quick, seeded

SYMBOLS = "?+-*="


def written(tokens: list[int]) -> str:
    """The expression as a string, without its sign =."""
    assert tokens[-1] == 4
    return "".join(SYMBOLS[t] if t < 5 else str(t - 5) for t in tokens[:-1])


@quick
@given(seed=st.integers(0, 2**32 - 1), modulus=st.integers(2, 10), low=st.integers(2, 60))
def test_answers_are_those_of_python(seed: int, modulus: int, low: int) -> None:
    task = ModularArithmetic(modulus)
    batch = task.sample(8, (low, low + 40), seeded(seed))
    for row, length in enumerate(batch.lengths.tolist()):
        tokens = batch.inputs[row, :length].tolist()
        answer = 5 + eval(written(tokens)) % modulus
        assert batch.targets[row, length - 1] == answer
        assert task.oracle(tokens)[-1] == answer


def test_long_expressions_are_right_too() -> None:
    batch = ModularArithmetic().sample(2, (4096, 4096), seeded(0))
    for row in range(2):
        value = sum(
            eval(term.replace("~", "-")) % 5
            for term in written(batch.inputs[row].tolist()).replace("-", "+~").split("+")
        )
        assert batch.targets[row, -1] == 5 + value % 5


def test_digits_and_operators_take_turns_uniformly() -> None:
    batch = ModularArithmetic().sample(2000, (3, 40), seeded(0))
    positions = torch.arange(40)
    inside = positions < batch.lengths[:, None] - 1
    digits = batch.inputs[inside & (positions % 2 == 0)]
    operators = batch.inputs[inside & (positions % 2 == 1)]
    for drawn, symbols in ((digits, [5, 6, 7, 8, 9]), (operators, [1, 2, 3])):
        found, counts = drawn.unique(return_counts=True)
        assert found.tolist() == symbols
        shares = counts / len(drawn) * len(symbols)
        assert ((shares > 0.95) & (shares < 1.05)).all()
    assert (batch.inputs[torch.arange(2000), batch.lengths - 1] == 4).all()


@pytest.mark.parametrize(
    ("lengths", "found", "width"),
    [
        ((3, 8), [4, 6, 8], 8),
        ((3, 7), [4, 6, 8], 8),
        ((4, 7), [4, 6, 8], 8),
        ((5, 5), [6], 6),
        ((6, 6), [6], 6),
        ((2, 3), [2, 4], 4),
    ],
)
def test_odd_lengths_are_raised_to_even_ones(
    lengths: tuple[int, int], found: list[int], width: int
) -> None:
    batch = ModularArithmetic().sample(500, lengths, seeded(0))
    assert batch.lengths.unique().tolist() == found
    assert batch.inputs.shape[1] == width


def test_the_shortest_word_is_a_digit_and_the_sign() -> None:
    assert ModularArithmetic().oracle([8, 4]) == [None, 8]
    with pytest.raises(ValueError, match=r"^lengths=\(1, 4\); expected .* with 2 <= low <= high$"):
        ModularArithmetic().sample(2, (1, 4), seeded(0))


@pytest.mark.parametrize(
    "tokens", [[5, 1, 4], [5, 1, 6], [1, 4], [5, 5, 6, 4], [5, 1, 1, 4], [5, 4, 6, 4], [10, 4]]
)
def test_words_that_are_no_expressions_are_named(tokens: list[int]) -> None:
    with pytest.raises(ValueError, match=r"^tokens.*expected"):
        ModularArithmetic().oracle(tokens)


def test_a_modulus_of_one_is_named() -> None:
    with pytest.raises(ValueError, match=r"^modulus=1; expected at least 2$"):
        ModularArithmetic(modulus=1)
