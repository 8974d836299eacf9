"""Splits cover every case once, in the paper's shares, and the same way for the same seed."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slicekit.tasks.archives import load_orders, split_by_order, split_by_seed, stratified


@given(st.integers(0, 300), st.integers(0, 5))
def test_every_case_is_in_one_part(cases: int, seed: int) -> None:
    train, validation, test = split_by_seed(cases, seed)
    assert sorted(torch.cat([train, validation, test]).tolist()) == list(range(cases))
    assert len(train) == 7 * cases // 10 and len(train) + len(validation) == 17 * cases // 20


@pytest.mark.parametrize(
    ("cases", "parts"),
    [(236, (165, 35, 36)), (524, (366, 79, 79)), (409, (286, 61, 62)), (561, (392, 84, 85))],
)
def test_parts_are_as_large_as_the_papers(cases: int, parts: tuple[int, ...]) -> None:
    assert tuple(len(part) for part in split_by_order(range(cases))) == parts


def test_a_seed_fixes_the_split() -> None:
    one, again, other = (split_by_seed(50, seed) for seed in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert not torch.equal(one[0], other[0])


def test_an_order_is_cut_as_it_stands() -> None:
    order = torch.randperm(20).tolist()
    assert torch.cat(split_by_order(order, cases=20)).tolist() == order


@pytest.mark.parametrize("order", [[0, 0], [1, 2], [[0, 1]], [0, -1]])
def test_what_is_no_permutation_is_refused(order: list) -> None:
    with pytest.raises(ValueError, match=r"expected a permutation of 0\.\."):
        split_by_order(order)


def test_an_order_of_another_number_of_cases_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a permutation of 0\.\.4"):
        split_by_order([0, 1, 2, 3], cases=5)


def test_orders_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "orders.json"
    file.write_text(json.dumps({"Walks": {"7": [1, 0, 2], "8": "no"}}))
    assert load_orders(file, "Walks", 7) == [1, 0, 2]
    with pytest.raises(ValueError, match=r"unknown problem of .*'Walk', did you mean 'Walks'"):
        load_orders(file, "Walk", 7)
    with pytest.raises(ValueError, match=r"unknown seed of Walks in .* '9'; choose from 7, 8"):
        load_orders(file, "Walks", 9)
    with pytest.raises(ValueError, match="no list of integers"):
        load_orders(file, "Walks", 8)
    for content in ("", "[1, 2]", "3", '{"Walks": 3}'):
        file.write_text(content)
        with pytest.raises(ValueError, match="no file of permutations"):
            load_orders(file, "Walks", 7)


@given(st.lists(st.integers(0, 4), max_size=40), st.floats(0.05, 0.95), st.integers(0, 9))
def test_no_class_is_lost(labels: list[int], fraction: float, seed: int) -> None:
    answers = torch.tensor(labels, dtype=torch.int64)
    rest, held = stratified(answers, fraction, torch.Generator().manual_seed(seed))
    assert sorted(torch.cat([rest, held]).tolist()) == list(range(len(labels)))
    for label in set(labels):
        count = labels.count(label)
        kept, out = (answers[part].tolist().count(label) for part in (rest, held))
        assert kept >= 1 and (out >= 1 or count == 1)
        assert abs(out - fraction * count) <= 1


def test_numbers_are_held_out_as_one_class() -> None:
    rest, held = stratified(torch.randn(20), 0.25, torch.Generator().manual_seed(0))
    assert len(held) == 5 and len(rest) == 15


@pytest.mark.parametrize("fraction", [0.0, 1.0, -1.0, float("nan")])
def test_a_share_that_is_none(fraction: float) -> None:
    with pytest.raises(ValueError, match="fraction="):
        stratified(torch.zeros(3).long(), fraction, torch.Generator())
