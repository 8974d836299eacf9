"""Real representations of a finite group, by its table alone.

A state that reads a, then b, is multiplied by R(b) R(a) = R(a·b). The regular representation holds
every irreducible one; the eigenspaces of a random symmetric matrix that commutes with it are
irreducible, with probability one.
"""

from dataclasses import dataclass
from itertools import combinations, pairwise

import torch
from torch import Tensor

from slicekit.tasks.groups import Group

GAP = 1e-8
"""Eigenvalues and characters closer than this are the same."""

AT_MOST = 3
"""Irreducible representations that are joined to a faithful one."""


@dataclass(frozen=True, eq=False)
class Representation:
    """Orthogonal matrices (order, dim, dim), one for each element of a group."""

    matrices: Tensor

    @property
    def dim(self) -> int:
        """Rows of a matrix."""
        return self.matrices.shape[-1]

    @property
    def character(self) -> Tensor:
        """The traces, (order,)."""
        return self.matrices.diagonal(dim1=-2, dim2=-1).sum(-1)

    @property
    def kernel(self) -> Tensor:
        """Which elements are the identity, (order,)."""
        return (self.character - self.dim).abs() < GAP

    @property
    def turns(self) -> bool:
        """Whether all determinants are 1."""
        return bool((torch.linalg.det(self.matrices) > 0).all())

    def turned(self) -> "Representation":
        """The same beside its determinants, so that all of them are 1."""
        if self.turns:
            return self
        sign = torch.linalg.det(self.matrices).round()
        return Representation(beside([self.matrices, sign[:, None, None]]))


def beside(parts: list[Tensor]) -> Tensor:
    """Matrices (order, d, d) as the blocks of larger ones."""
    dims = [x.shape[-1] for x in parts]
    whole = parts[0].new_zeros(parts[0].shape[0], sum(dims), sum(dims))
    at = 0
    for part, dim in zip(parts, dims, strict=True):
        whole[:, at : at + dim, at : at + dim] = part
        at += dim
    return whole


def irreducible(group: Group) -> list[Representation]:
    """The real irreducible representations, each once, the smallest first.

    >>> from slicekit.tasks.groups import alternating
    >>> [found.dim for found in irreducible(alternating(5))]
    [1, 3, 3, 4, 5]
    """
    order, table = group.order, group.table
    source = torch.Generator().manual_seed(0)
    random = torch.randn(order, order, generator=source).double()
    commuting = torch.zeros_like(random)
    for element in range(order):
        moved = table[:, element]
        commuting[moved[:, None], moved] += (random + random.mT) / order
    values, vectors = torch.linalg.eigh(commuting)
    edges = [0, *(1 + (values.diff() > GAP * order).nonzero().flatten()).tolist(), order]
    parts: list[Representation] = []
    for low, high in pairwise(edges):
        basis = vectors[:, low:high]
        # R(a) sends the vector of g to that of g·a: row g·a of R(a) B is row g of B.
        part = Representation(torch.stack([basis[table[:, a]].mT @ basis for a in range(order)]))
        if all((part.character - x.character).abs().max() > 1e-6 for x in parts):
            parts.append(part)
    return sorted(parts, key=lambda x: x.dim)


def faithful(group: Group) -> list[tuple[Representation, ...]]:
    """Sets of irreducible representations that together tell all elements apart."""
    known = irreducible(group)
    return [
        chosen
        for count in range(1, AT_MOST + 1)
        for chosen in combinations(known, count)
        if int(torch.stack([x.kernel for x in chosen]).all(0).sum()) == 1
    ]


def acts_faithfully(group: Group, matrices: Tensor, tolerance: float = 1e-6) -> bool:
    """Whether matrices (order, n, n) multiply as the elements do, and only one is the identity."""
    products = torch.einsum("bij,ajk->abik", matrices, matrices)
    right = (products - matrices[group.table]).abs().amax()
    moved = (matrices - torch.eye(matrices.shape[-1], dtype=matrices.dtype)).abs().amax((-1, -2))
    return bool(right < tolerance) and int((moved < tolerance).sum()) == 1
