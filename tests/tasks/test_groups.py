"""Groups satisfy their axioms, and the named ones are the groups of that name."""

from itertools import permutations, product
from typing import Any

import pytest
import torch

from slicekit import tasks
from slicekit.tasks import Group
from slicekit.tasks.groups import compose
from tests.tasks.every import quaternions

SMALL = {
    "trivial": tasks.cyclic(1),
    "z7": tasks.cyclic(7),
    "s3": tasks.symmetric(3),
    "a4": tasks.alternating(4),
    "quaternions": quaternions(),
    "s3xz4": tasks.product(tasks.symmetric(3), tasks.cyclic(4)),
    "quaternions x z3": tasks.product(quaternions(), tasks.cyclic(3)),
}
NAMED = {name: tasks.named_group(name) for name in ("a5", "a4xz5", "z60")}
GROUPS = SMALL | NAMED


def inversions(permutation: tuple[int, ...]) -> int:
    pairs = [(a, b) for a in range(len(permutation)) for b in range(a)]
    return sum(permutation[a] < permutation[b] for a, b in pairs)


def conjugacy_classes(group: Group) -> list[set[int]]:
    table = group.table.tolist()
    inverse = [row.index(0) for row in table]
    remaining, classes = set(range(group.order)), []
    while remaining:
        element = min(remaining)
        classes.append({table[table[inverse[g]][element]][g] for g in range(group.order)})
        remaining -= classes[-1]
    return classes


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS.keys())
def test_the_axioms_hold_by_brute_force(group: Group) -> None:
    table, elements = group.table.tolist(), range(group.order)
    assert all(0 <= entry < group.order for row in table for entry in row)
    assert all(table[0][a] == a == table[a][0] for a in elements)
    assert all(any(table[a][b] == 0 == table[b][a] for b in elements) for a in elements)
    assert all(
        table[table[a][b]][c] == table[a][table[b][c]] for a, b, c in product(elements, repeat=3)
    )


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS.keys())
def test_products_of_permutations_are_in_the_table(group: Group) -> None:
    if group.permutations is None:
        return
    assert len(set(group.permutations)) == group.order
    assert list(group.permutations) == sorted(group.permutations)
    for a, b in product(range(group.order), repeat=2):
        composed = compose(group.permutations[a], group.permutations[b])
        assert composed == group.permutations[group.table[a, b]]


def test_a_product_is_read_from_left_to_right() -> None:
    first, then = (1, 2, 0), (0, 2, 1)
    assert compose(first, then) == tuple(then[first[point]] for point in range(3)) == (2, 1, 0)


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS.keys())
def test_generators_reach_every_element(group: Group) -> None:
    reached = {0}
    while True:
        more = {int(group.table[a, g]) for a in reached for g in group.generators} | reached
        if more == reached:
            break
        reached = more
    assert len(reached) == group.order


def test_a5_is_all_even_permutations_of_five_points() -> None:
    even = [p for p in permutations(range(5)) if inversions(p) % 2 == 0]
    assert tasks.named_group("a5").permutations == tuple(even)
    assert len(even) == 60


def test_s5_is_all_permutations_of_five_points() -> None:
    group = tasks.named_group("s5")
    assert group.permutations == tuple(permutations(range(5)))
    assert group.order == 120
    assert not torch.equal(group.table, group.table.T)


def test_a5_is_simple() -> None:
    """A normal subgroup is a union of classes with the identity, and its order divides 60."""
    group = tasks.named_group("a5")
    sizes = sorted(len(one) for one in conjugacy_classes(group))
    assert sizes == [1, 12, 12, 15, 20]
    orders = {1 + sum(chosen) for chosen in product(*[(0, size) for size in sizes[1:]])}
    assert {order for order in orders if 60 % order == 0} == {1, 60}


def test_a5_is_perfect_and_a4xz5_is_not() -> None:
    """Commutators: sixty of them in A5; in A4 x Z5 only the four of Klein's group."""
    for name, count in (("a5", 60), ("a4xz5", 4)):
        table = tasks.named_group(name).table.tolist()
        inverse = [row.index(0) for row in table]
        commutators = {
            table[table[inverse[a]][inverse[b]]][table[a][b]] for a in range(60) for b in range(60)
        }
        assert len(commutators) == count


def test_z60_adds_modulo_60() -> None:
    table = tasks.named_group("z60").table
    assert all(table[a, b] == (a + b) % 60 for a, b in product(range(60), repeat=2))


def test_a4xz5_multiplies_its_parts_apart() -> None:
    left, right, both = tasks.alternating(4), tasks.cyclic(5), tasks.named_group("a4xz5")
    assert both.order == 60
    for (a, b), (c, d) in product(product(range(12), range(5)), repeat=2):
        expected = int(left.table[a, c]) * 5 + int(right.table[b, d])
        assert both.table[a * 5 + b, c * 5 + d] == expected


def test_permutations_are_found_by_number_and_number_by_permutation() -> None:
    group = tasks.named_group("s5")
    assert group.index((0, 1, 2, 3, 4)) == 0
    assert group.permutations is not None
    assert all(group.index(p) == number for number, p in enumerate(group.permutations))
    with pytest.raises(ValueError, match=r"^permutation=\(0, 0\) is no element of the group s5$"):
        group.index((0, 0))
    with pytest.raises(
        ValueError, match=r"^the elements of the group quaternions are not known as"
    ):
        quaternions().index((0, 1))


def test_a_group_is_the_same_whatever_generates_it() -> None:
    pairs = [(1, 0, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2), (1, 0, 2, 3)]
    group = Group.from_permutations(pairs, "from neighbours")
    assert torch.equal(group.table, tasks.symmetric(4).table)
    assert len(group.generators) == 3


MONOID = [[0, 1, 2], [1, 1, 1], [2, 2, 2]]
LOOP = [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0, 1], [1, 2]], "table holds 2 at row 1, column 1; expected 0..1 for 2 elements"),
        ([[0, 1]], r"table has shape \(1, 2\); expected \(order, order\)"),
        ([0, 1], r"table has shape \(2,\); expected \(order, order\)"),
        ([[1, 0], [0, 1]], "table: expected element 0 to be the identity, but it is element 1"),
        ([[0, 0], [0, 0]], "table: expected element 0 to be the identity, but there is none"),
        (MONOID, "table: element 1 has no inverse, so this is no group"),
        (LOOP, r"table is not associative: \(1·1\)·2 = 2, but 1·\(1·2\) = 4"),
    ],
)
def test_a_table_that_is_no_group_says_which_axiom_fails(table: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        Group(torch.tensor(table))


def test_a_table_of_fractions_is_named() -> None:
    with pytest.raises(TypeError, match=r"^table has dtype torch.float32; expected integers$"):
        Group(torch.zeros(1, 1))


def test_every_corrupted_entry_is_found() -> None:
    group = quaternions()
    for row, column in product(range(8), repeat=2):
        table = group.table.clone()
        table[row, column] = (table[row, column] + 1) % 8
        with pytest.raises(ValueError, match=r"^table"):
            Group(table)


def test_generators_that_do_not_generate_are_named() -> None:
    with pytest.raises(ValueError, match=r"^generators=\(2,\) do not generate the group clock$"):
        Group(tasks.cyclic(4).table, "clock", generators=(2,))


@pytest.mark.parametrize(
    ("generators", "message"),
    [
        ([], "generators=.*; expected at least one permutation"),
        ([()], "generators=.*; expected at least one permutation"),
        ([(0, 0, 1)], r"generator \(0, 0, 1\) is no permutation of 0..2"),
        ([(1, 0), (0, 1, 2)], r"generator \(0, 1, 2\) is no permutation of 0..1"),
        ([(1, 0, *range(2, 8)), (*range(1, 8), 0)], "generators of group give more than 5040 elem"),
    ],
)
def test_permutations_that_make_no_group_are_named(
    generators: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        Group.from_permutations(generators)


def test_sizes_that_make_no_group_are_named() -> None:
    for make, argument, least in (
        (tasks.cyclic, "order", 1),
        (tasks.symmetric, "points", 2),
        (tasks.alternating, "points", 3),
    ):
        with pytest.raises(
            ValueError, match=rf"^{argument}={least - 1}; expected at least {least}$"
        ):
            make(least - 1)


def test_an_unknown_name_lists_the_groups() -> None:
    with pytest.raises(
        ValueError, match=r"^unknown group 'a6', did you mean 'a5'\? Choose from a5"
    ):
        tasks.named_group("a6")
