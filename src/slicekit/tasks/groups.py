"""Finite groups as multiplication tables: any from permutations or a table, some by name.

Elements are numbered from 0, and element 0 is the identity. A group of permutations is numbered in
the lexicographic order of the permutations in one-line notation, p = (p(0), p(1), ...), where the
identity comes first. Products are read from left to right: a·b is first a, then b, that is
(a·b)(i) = b(a(i)).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import torch
from torch import Tensor

from slicekit.checks import check_whole
from slicekit.suggestions import unknown
from slicekit.tasks.axioms import (
    check_associativity,
    check_closure,
    check_identity,
    check_inverses,
    find_generators,
    reached,
)

Permutation: TypeAlias = tuple[int, ...]

LARGEST_ORDER = 5040
"""A table has order² entries: this one fills 200 MB."""


@dataclass(frozen=True, eq=False)
class Group:
    """A finite group.

    Args:
        table: (order, order) integers: table[a, b] is the number of a·b. Element 0 is the identity.
        name: what to call it.
        permutations: the elements as permutations, in the order of the table, if they are known.
        generators: elements that generate the group; () finds some.

    Raises:
        ValueError: if the table is not that of a group: the message says which axiom fails, and
        where.

    Example:
        >>> clock = Group(torch.tensor([[0, 1, 2], [1, 2, 0], [2, 0, 1]]), name="clock")
        >>> clock.order, clock.generators
        (3, (1,))
        >>> Group(torch.tensor([[0, 1], [1, 1]]))
        Traceback (most recent call last):
        ValueError: table: element 1 has no inverse, so this is no group
    """

    table: Tensor
    name: str = "group"
    permutations: tuple[Permutation, ...] | None = None
    generators: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_closure(self.table)
        object.__setattr__(self, "table", self.table.to(torch.int64))
        check_identity(self.table)
        check_inverses(self.table)
        generators = tuple(self.generators) or find_generators(self.table)
        if not reached(self.table, generators).all():
            raise ValueError(f"generators={generators} do not generate the group {self.name}")
        object.__setattr__(self, "generators", generators)
        check_associativity(self.table, generators)

    @property
    def order(self) -> int:
        """The number of elements."""
        return self.table.shape[0]

    def index(self, permutation: Sequence[int]) -> int:
        """The number of the element that is this permutation.

        Raises:
            ValueError: if the group is not one of permutations, or has no such element.

        >>> alternating(3).index((1, 2, 0))
        1
        """
        if self.permutations is None:
            raise ValueError(f"the elements of the group {self.name} are not known as permutations")
        if tuple(permutation) not in self.permutations:
            raise ValueError(f"permutation={permutation} is no element of the group {self.name}")
        return self.permutations.index(tuple(permutation))

    @classmethod
    def from_permutations(cls, generators: Sequence[Sequence[int]], name: str = "group") -> "Group":
        """The group of all products of some permutations.

        Args:
            generators: permutations of 0..points-1 in one-line notation, at least one.
            name: what to call it.

        Raises:
            ValueError: if one of them is no permutation, their sizes differ, or they generate more
                than 5040 elements.

        >>> Group.from_permutations([(1, 0, 2), (0, 2, 1)]).permutations
        ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
        """
        given = _check_permutations(generators)
        identity = tuple(range(len(given[0])))
        made: dict[Permutation, tuple[Permutation, int]] = {}
        members, seen = [identity], {identity}
        for earlier in members:
            for which, generator in enumerate(given):
                product = compose(earlier, generator)
                if product not in seen:
                    seen.add(product)
                    members.append(product)
                    made[product] = (earlier, which)
            if len(members) > LARGEST_ORDER:
                raise ValueError(f"generators of {name} give more than {LARGEST_ORDER} elements")
        elements = sorted(members)
        number = {element: index for index, element in enumerate(elements)}
        right = [torch.tensor([number[compose(p, g)] for p in elements]) for g in given]
        # Column b of the table is right multiplication by b = earlier·generator.
        columns = torch.empty(len(elements), len(elements), dtype=torch.int64)
        columns[0] = torch.arange(len(elements))
        for product, (earlier, which) in made.items():
            columns[number[product]] = right[which][columns[number[earlier]]]
        return cls(
            columns.T.contiguous(),
            name,
            tuple(elements),
            tuple(dict.fromkeys(number[generator] for generator in given)),
        )


def compose(first: Permutation, then: Permutation) -> Permutation:
    """The permutation first·then: i goes to then(first(i)).

    >>> compose((1, 0, 2), (0, 2, 1))
    (2, 0, 1)
    """
    return tuple([then[image] for image in first])


def cyclic(order: int) -> Group:
    """The group Z_n: element k is the rotation by k of n points.

    >>> cyclic(60).table[59, 2]
    tensor(1)
    """
    check_whole("order", order)
    numbers = torch.arange(order)
    rotations = tuple(tuple((i + k) % order for i in range(order)) for k in range(order))
    table = (numbers[:, None] + numbers) % order
    return Group(table, f"z{order}", rotations, (1 % order,))


def symmetric(points: int) -> Group:
    """The group S_n of all permutations.

    >>> symmetric(5).order
    120
    """
    check_whole("points", points, least=2)
    swap = (1, 0, *range(2, points))
    rotation = (*range(1, points), 0)
    return Group.from_permutations([swap, rotation], f"s{points}")


def alternating(points: int) -> Group:
    """The group A_n of all even permutations.

    >>> alternating(5).order
    60
    """
    check_whole("points", points, least=3)
    cycles = []
    for third in range(2, points):
        cycle = list(range(points))
        cycle[0], cycle[1], cycle[third] = 1, third, 0
        cycles.append(cycle)
    return Group.from_permutations(cycles, f"a{points}")


def product(left: Group, right: Group) -> Group:
    """The direct product: element (a, b) has the number a·|right| + b.

    >>> product(cyclic(2), cyclic(2)).table
    tensor([[0, 1, 2, 3],
            [1, 0, 3, 2],
            [2, 3, 0, 1],
            [3, 2, 1, 0]])
    """
    order = left.order * right.order
    table = left.table[:, None, :, None] * right.order + right.table[None, :, None, :]
    permutations = None
    if left.permutations is not None and right.permutations is not None:
        shift = len(left.permutations[0])
        moved = [tuple(image + shift for image in p) for p in right.permutations]
        permutations = tuple(p + q for p in left.permutations for q in moved)
    generators = (*(a * right.order for a in left.generators), *right.generators)
    name = f"{left.name}x{right.name}"
    return Group(table.reshape(order, order), name, permutations, generators)


GROUPS: dict[str, Callable[[], Group]] = {
    "a5": lambda: alternating(5),
    "s5": lambda: symmetric(5),
    "a4xz5": lambda: product(alternating(4), cyclic(5)),
    "z60": lambda: cyclic(60),
}


@cache
def named_group(name: str) -> Group:
    """A group by name: a5, s5, a4xz5 or z60.

    Raises:
        ValueError: if there is no such name.

    >>> named_group("a4xz5").order
    60
    """
    if name not in GROUPS:
        raise unknown("group", name, GROUPS, ", or give a Group")
    return GROUPS[name]()


def _check_permutations(generators: Sequence[Sequence[int]]) -> list[Permutation]:
    given = [tuple(generator) for generator in generators]
    if not given or not given[0]:
        raise ValueError(f"generators={generators}; expected at least one permutation")
    points = len(given[0])
    for generator in given:
        if sorted(generator) != list(range(points)):
            raise ValueError(f"generator {generator} is no permutation of 0..{points - 1}")
    return given
