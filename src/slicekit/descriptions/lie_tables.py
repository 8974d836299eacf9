"""The elements of bases of the free Lie algebra, as plain tables of integers.

Glossary (code name: the paper's symbol): channels and depth are d_ω and N; an element is a letter
0..channels-1 or the bracket [u, v] = u ⊗ v − v ⊗ u of two elements; words are those of the tensor
algebra, level after level, in lexicographic order.
"""

import itertools
from dataclasses import dataclass
from typing import TypeAlias

from slicekit.descriptions.checks import check_whole
from slicekit.descriptions.words import (
    Entry,
    Sum,
    bracket,
    change_from_words,
    expanded_size,
    lyndon_words,
    number,
)

Element: TypeAlias = "int | tuple[Element, Element]"
"""A letter 0..channels-1, or the bracket of two elements."""

Factors: TypeAlias = list[tuple[int, int] | None]


@dataclass(frozen=True, eq=False)
class LieTables:
    """A basis of the free Lie algebra over `channels` letters, truncated at `depth`.

    Attributes:
        name: "hall" or "lyndon".
        channels, depth: the number of letters, and the largest number of them in an element.
        elements: sorted by level, that is by number of letters, the letters first.
        sizes: the number of elements of each level.
        brackets: for level 2, 3, ... the left and right factors of its elements, as indices.
        words: where the Lyndon words stand in the expanded form, in the order of the words.
        change: entries (element, Lyndon word, coefficient): from coefficients on the Lyndon words
            to coefficients in this basis.
        expansion: entries (word, element, coefficient): from coefficients in this basis to the
            expanded form.
    """

    name: str
    channels: int
    depth: int
    elements: tuple[Element, ...]
    sizes: tuple[int, ...]
    brackets: tuple[tuple[list[int], list[int]], ...]
    words: list[int]
    change: list[Entry]
    expansion: list[Entry]


LARGEST, MOST_LETTERS = 2**20, 2**16
"""Words and letters of the largest tensor algebra whose bases are made."""


def check_basis(channels: int, depth: int) -> None:
    """Raise unless there is a basis for these numbers, and of a size that can be made.

    >>> check_basis(10, 9)
    Traceback (most recent call last):
    ValueError: depth=9 with channels=10 makes 1111111110 words; expected at most 1048576
    """
    check_whole("channels", channels)
    check_whole("depth", depth)
    if channels > MOST_LETTERS:
        raise ValueError(f"channels={channels} for a basis; expected at most {MOST_LETTERS}")
    words = depth if channels == 1 else expanded_size(channels, min(depth, 64))
    if words > LARGEST:
        raise ValueError(
            f"depth={depth} with channels={channels} makes {words} words; expected at most "
            f"{LARGEST}"
        )


def hall_tables(channels: int, depth: int) -> LieTables:
    """The Hall basis in the order of the paper and of RoughPy; see `slicekit.paths.hall`."""
    check_basis(channels, depth)
    factors: Factors = [None] * channels
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
    return _tables("hall", channels, depth, factors, starts)


def lyndon_tables(channels: int, depth: int) -> LieTables:
    """The Lyndon words, each with its standard bracketing; see `slicekit.paths.lyndon`."""
    check_basis(channels, depth)
    words = lyndon_words(channels, depth)
    index = {word: position for position, word in enumerate(words)}
    factors: Factors = []
    for word in words:
        if len(word) == 1:
            factors.append(None)
            continue
        cut = next(cut for cut in range(1, len(word)) if word[cut:] in index)
        factors.append((index[word[:cut]], index[word[cut:]]))
    lengths = [len(word) for word in words]
    starts = [sum(length <= level for length in lengths) for level in range(depth + 1)]
    return _tables("lyndon", channels, depth, factors, starts)


def _tables(name: str, channels: int, depth: int, factors: Factors, starts: list[int]) -> LieTables:
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
    brackets = []
    for level in range(2, depth + 1):
        pairs = [parts for parts in factors[starts[level - 1] : starts[level]] if parts is not None]
        brackets.append(([left for left, _ in pairs], [right for _, right in pairs]))
    return LieTables(
        name=name,
        channels=channels,
        depth=depth,
        elements=tuple(elements),
        sizes=tuple(high - low for low, high in itertools.pairwise(starts)),
        brackets=tuple(brackets),
        words=[
            offsets[len(word) - 1] + number(word, channels)
            for word in lyndon_words(channels, depth)
        ],
        change=change_from_words(channels, depth, levels, expansions),
        expansion=[
            (offsets[level - 1] + word, position, value)
            for position, (level, expansion) in enumerate(zip(levels, expansions, strict=True))
            for word, value in expansion.items()
        ],
    )


def written(element: Element) -> str:
    """An element as the paper writes it, its letters counted from one.

    >>> written((0, (0, 1)))
    '[1,[1,2]]'
    """
    if isinstance(element, int):
        return str(element + 1)
    return f"[{written(element[0])},{written(element[1])}]"
