"""Running products are those of a plain loop, in any monoid and at any length."""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slicekit.tasks.monoids import prefix_products
from tests.tasks.every import quick, seeded

MAPS = list(product(range(3), repeat=3))
"""All 27 maps of three points to themselves: a monoid with few inverses, and not commutative."""


def table_of_maps() -> torch.Tensor:
    composed = [[MAPS.index(tuple(b[i] for i in a)) for b in MAPS] for a in MAPS]
    return torch.tensor(composed)


@quick
@given(batch=st.integers(1, 4), length=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_running_products_are_those_of_a_loop(batch: int, length: int, seed: int) -> None:
    table = table_of_maps()
    words = torch.randint(27, (batch, length), generator=seeded(seed))
    given_words = words.clone()
    found = prefix_products(table, words)
    assert torch.equal(words, given_words)
    for row in range(batch):
        image = (0, 1, 2)
        for position in range(length):
            image = tuple(MAPS[words[row, position]][i] for i in image)
            assert found[row, position] == MAPS.index(image)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_no_words_and_empty_words_have_no_products(shape: tuple[int, int]) -> None:
    assert prefix_products(table_of_maps(), torch.zeros(shape).long()).shape == shape
