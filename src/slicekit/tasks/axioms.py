"""The axioms of a group, checked on a multiplication table: table[a, b] is the number of a·b."""

from collections.abc import Sequence

import torch
from torch import Tensor

from slicekit.checks import check_range, check_shape


def check_closure(table: Tensor) -> None:
    """Raise unless the table is square and holds the numbers of its own elements.

    Raises:
        TypeError: if it holds no integers.
        ValueError: if its shape is not (order, order), or an entry is not in 0..order-1.
    """
    check_shape("table", table, ("order", "order"))
    order = table.shape[0]
    if order == 0 or table.shape[1] != order:
        raise ValueError(f"table has shape {tuple(table.shape)}; expected (order, order)")
    if table.is_floating_point() or table.is_complex() or table.dtype == torch.bool:
        raise TypeError(f"table has dtype {table.dtype}; expected integers")
    check_range("table", table, 0, order - 1, ("row", "column"), f"for {order} elements")


def check_identity(table: Tensor) -> None:
    """Raise ValueError unless element 0 is the identity."""
    numbers = torch.arange(table.shape[0])
    neutral = ((table == numbers).all(1) & (numbers == table.T).all(1)).nonzero().flatten().tolist()
    if neutral != [0]:
        there = f"it is element {neutral[0]}" if neutral else "there is none"
        raise ValueError(f"table: expected element 0 to be the identity, but {there}")


def check_inverses(table: Tensor) -> None:
    """Raise ValueError unless every element has an inverse."""
    inverse = ((table == 0) & (table.T == 0)).any(1)
    if not inverse.all():
        element = int((~inverse).nonzero()[0])
        raise ValueError(f"table: element {element} has no inverse, so this is no group")


def reached(table: Tensor, generators: Sequence[int]) -> Tensor:
    """The elements that are products of generators.

    Args:
        table: (order, order) int64.
        generators: numbers of elements.

    Returns:
        (order,) bool; the identity, the empty product, is always among them.
    """
    elements = torch.zeros(table.shape[0], dtype=torch.bool)
    newest = torch.tensor([0])
    while len(newest):
        elements[newest] = True
        products = table[newest][:, list(generators)].unique()
        newest = products[~elements[products]]
    return elements


def find_generators(table: Tensor) -> tuple[int, ...]:
    """Few elements that generate all: each is the first that those before it do not reach.

    >>> find_generators(torch.tensor([[0, 1, 2], [1, 2, 0], [2, 0, 1]]))
    (1,)
    """
    generators: tuple[int, ...] = ()
    while not (elements := reached(table, generators)).all():
        generators = (*generators, int((~elements).nonzero()[0]))
    return generators


def check_associativity(table: Tensor, generators: Sequence[int]) -> None:
    """Raise ValueError unless the table is associative.

    Light's test: the elements g with (a·g)·b = a·(g·b) for all a and b are closed under products,
    so if all generators are among them, then all elements are.
    """
    for g in generators:
        left, right = table[table[:, g]], table[:, table[g]]
        if not torch.equal(left, right):
            a, b = (left != right).nonzero()[0].tolist()
            raise ValueError(
                f"table is not associative: ({a}·{g})·{b} = {int(left[a, b])}, "
                f"but {a}·({g}·{b}) = {int(right[a, b])}"
            )
