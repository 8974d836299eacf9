"""Bases of the free Lie algebra, in which log-signatures have their coefficients.

Packages use different bases, and coefficients in one mean nothing in another; here the basis is an
object that says which elements it has, and every coefficient tensor belongs to one.

| here | in the paper |
|---|---|
| `channels`, `depth` | d_ω, N |
| `size` | β(d_ω, N), the dimension of the free Lie algebra truncated at depth N |
| `hall(channels, depth)` | the Hall basis: 1, ..., d, [1,2], [1,3], ..., [2,3], ... |
| `lyndon(channels, depth)` | the Lyndon words, each with its standard bracketing |
| `basis.expand(coefficients)` | the Lie element in the tensor algebra, [u,v] = u ⊗ v − v ⊗ u |

A Lie element is known from its coefficients on the Lyndon words alone, and on these both bases have
unimodular integer matrices, in blocks of the elements with the same letters. So a projection reads
one entry of the tensor for each element and applies small blocks, never a dense matrix.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from slicekit.checks import check_shape
from slicekit.descriptions.lie_tables import Element, hall_tables, lyndon_tables, written
from slicekit.descriptions.words import expanded_size
from slicekit.dispatch import kept_torch
from slicekit.handles import constant
from slicekit.paths.sparse_maps import SparseMap


@dataclass(frozen=True)
class LieBasis:
    """A basis of the free Lie algebra over `channels` letters, truncated at `depth`.

    Made by `hall` and `lyndon`; two are equal if name, channels and depth are.

    Attributes:
        name: "hall" or "lyndon".
        channels: the number of letters, d_ω.
        depth: the largest number of letters in an element.
        elements: sorted by level, that is by number of letters, the letters first.
        sizes: the number of elements of each level.
        brackets: for level 2, 3, ... int64 indices into `elements`: the left and the right factor
            of each element of that level.
        words: int64, where the Lyndon words stand in the expanded form, in the order of the words.
        change: from coefficients on the Lyndon words to coefficients in this basis.
    """

    name: str
    channels: int
    depth: int
    elements: tuple[Element, ...] = field(compare=False, repr=False)
    sizes: tuple[int, ...] = field(compare=False, repr=False)
    brackets: tuple[tuple[Tensor, Tensor], ...] = field(compare=False, repr=False)
    words: Tensor = field(compare=False, repr=False)
    change: SparseMap = field(compare=False, repr=False)
    expansion: SparseMap = field(compare=False, repr=False)

    @property
    def size(self) -> int:
        """β(channels, depth), the number of elements."""
        return sum(self.sizes)

    @property
    def expanded_size(self) -> int:
        """channels + channels² + ... + channels^depth, the size of the expanded form."""
        return expanded_size(self.channels, self.depth)

    def __str__(self) -> str:
        """The name, and every element with letters counted from one, as the paper writes them.

        >>> print(hall(2, 3))
        hall basis: 1, 2, [1,2], [1,[1,2]], [2,[1,2]]
        """
        return f"{self.name} basis: {', '.join(written(element) for element in self.elements)}"

    def __reduce__(self) -> tuple[Callable[[int, int], "LieBasis"], tuple[int, int]]:
        """Copies and pickles are made again from name, channels and depth."""
        return (hall if self.name == "hall" else lyndon), (self.channels, self.depth)

    def expand(self, coefficients: Tensor) -> Tensor:
        """The Lie element in the tensor algebra.

        Args:
            coefficients: (..., size), floating.

        Returns:
            (..., channels + channels² + ... + channels^depth), level after level; in a level, words
            stand in lexicographic order.

        Raises:
            ValueError: if the last axis has another size.

        >>> hall(2, 2).expand(torch.tensor([1.0, 2.0, 3.0]))
        tensor([ 1.,  2.,  0.,  3., -3.,  0.])
        """
        check_shape("coefficients", coefficients, (..., self.size))
        return self.expansion(coefficients)

    def project(self, expanded: Tensor) -> Tensor:
        """The coefficients of a Lie element given in expanded form; exact for Lie elements.

        Args:
            expanded: (..., channels + channels² + ... + channels^depth), floating.

        Returns:
            (..., size).

        Raises:
            ValueError: if the last axis has another size.

        >>> hall(2, 2).project(torch.tensor([1.0, 2.0, 0.0, 3.0, -3.0, 0.0]))
        tensor([1., 2., 3.])
        """
        check_shape("expanded", expanded, (..., self.expanded_size))
        return self.change(expanded[..., self.words.to(expanded.device)])


@constant
def hall(channels: int, depth: int) -> LieBasis:
    """The Hall basis in the order of the paper and of RoughPy.

    A bracket [u, v] belongs to it if u < v and, where v = [x, y], x ≤ u; elements are ordered by
    level, then by the level of the left factor, then by left and right factor.

    Args:
        channels: the number of letters, at least one.
        depth: the largest number of letters in an element, at least one.

    Returns:
        The basis; the same object for the same arguments.

    Raises:
        TypeError: if an argument is no integer.
        ValueError: if it is less than one.

    >>> hall(3, 2).elements
    (0, 1, 2, (0, 1), (0, 2), (1, 2))
    >>> hall(3, 2) is hall(3, 2)
    True
    """
    return _basis("hall", channels, depth)


@constant
def lyndon(channels: int, depth: int) -> LieBasis:
    """The Lyndon basis: a Lyndon word w = uv, v its longest proper Lyndon suffix, becomes [u, v].

    Elements are ordered by level, then by their words.

    Args:
        channels: the number of letters, at least one.
        depth: the largest number of letters in an element, at least one.

    Returns:
        The basis; the same object for the same arguments.

    Raises:
        TypeError: if an argument is no integer.
        ValueError: if it is less than one.

    >>> print(lyndon(2, 3))
    lyndon basis: 1, 2, [1,2], [1,[1,2]], [[1,2],2]
    """
    return _basis("lyndon", channels, depth)


@lru_cache(maxsize=128, typed=True)
@kept_torch()
def _basis(name: str, channels: int, depth: int) -> LieBasis:
    tables = (hall_tables if name == "hall" else lyndon_tables)(channels, depth)
    size = len(tables.elements)
    return LieBasis(
        name=tables.name,
        channels=tables.channels,
        depth=tables.depth,
        elements=tables.elements,
        sizes=tables.sizes,
        brackets=tuple((_indices(left), _indices(right)) for left, right in tables.brackets),
        words=_indices(tables.words),
        change=SparseMap.of(tables.change, size, size),
        expansion=SparseMap.of(
            tables.expansion, expanded_size(tables.channels, tables.depth), size
        ),
    )


def _indices(numbers: list[int]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64)
