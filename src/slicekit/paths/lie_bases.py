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

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import torch
from torch import Tensor

from slicekit.checks import check_shape
from slicekit.paths.sparse_maps import SparseMap
from slicekit.paths.words import (
    Sum,
    bracket,
    change_from_words,
    expanded_size,
    lyndon_words,
    number,
)

Element: TypeAlias = "int | tuple[Element, Element]"
"""A letter 0..channels-1, or the bracket of two elements."""


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


def written(element: Element) -> str:
    """An element as the paper writes it, its letters counted from one.

    >>> written((0, (0, 1)))
    '[1,[1,2]]'
    """
    if isinstance(element, int):
        return str(element + 1)
    return f"[{written(element[0])},{written(element[1])}]"


@lru_cache(maxsize=64, typed=True)
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
    check_count("channels", channels)
    check_count("depth", depth)
    factors: list[tuple[int, int] | None] = [None] * channels
    starts = [0, channels]
    for level in range(2, depth + 1):
        for lower in range(1, level // 2 + 1):
            left_level = range(starts[lower - 1], starts[lower])
            right_level = range(starts[level - lower - 1], starts[level - lower])
            for left, right in itertools.product(left_level, right_level):
                parts = factors[right]
                if left < right and (parts is None or parts[0] <= left):
                    factors.append((left, right))
        starts.append(len(factors))
    return _build("hall", channels, depth, factors, starts)


@lru_cache(maxsize=64, typed=True)
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
    check_count("channels", channels)
    check_count("depth", depth)
    words = lyndon_words(channels, depth)
    index = {word: position for position, word in enumerate(words)}
    factors: list[tuple[int, int] | None] = []
    for word in words:
        if len(word) == 1:
            factors.append(None)
            continue
        cut = next(cut for cut in range(1, len(word)) if word[cut:] in index)
        factors.append((index[word[:cut]], index[word[cut:]]))
    lengths = [len(word) for word in words]
    starts = [sum(length <= level for length in lengths) for level in range(depth + 1)]
    return _build("lyndon", channels, depth, factors, starts)


def check_count(name: str, value: int) -> None:
    """Raise unless the value is an integer of at least one.

    >>> check_count("depth", 0)
    Traceback (most recent call last):
    ValueError: depth=0, expected at least 1
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}, expected an integer")
    if value < 1:
        raise ValueError(f"{name}={value}, expected at least 1")


def _build(
    name: str,
    channels: int,
    depth: int,
    factors: list[tuple[int, int] | None],
    starts: list[int],
) -> LieBasis:
    elements: list[Element] = []
    expansions: list[Sum] = []
    levels = [1] * channels
    for position, parts in enumerate(factors):
        if parts is None:
            elements.append(position)
            expansions.append({position: 1})
            continue
        left, right = parts
        levels.append(levels[left] + levels[right])
        elements.append((elements[left], elements[right]))
        shifts = channels ** levels[left], channels ** levels[right]
        expansions.append(bracket(expansions[left], expansions[right], *shifts))

    offsets = [expanded_size(channels, level) for level in range(depth)]
    entries = [
        (offsets[level - 1] + word, position, value)
        for position, (level, expansion) in enumerate(zip(levels, expansions, strict=True))
        for word, value in expansion.items()
    ]
    brackets = []
    for level in range(2, depth + 1):
        pairs = [parts for parts in factors[starts[level - 1] : starts[level]] if parts is not None]
        table = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
        brackets.append((table[:, 0].contiguous(), table[:, 1].contiguous()))
    words = [
        offsets[len(word) - 1] + number(word, channels) for word in lyndon_words(channels, depth)
    ]
    change = change_from_words(channels, depth, levels, expansions)
    return LieBasis(
        name=name,
        channels=channels,
        depth=depth,
        elements=tuple(elements),
        sizes=tuple(high - low for low, high in itertools.pairwise(starts)),
        brackets=tuple(brackets),
        words=torch.tensor(words),
        change=SparseMap.of(change, len(elements), len(elements)),
        expansion=SparseMap.of(entries, expanded_size(channels, depth), len(elements)),
    )
