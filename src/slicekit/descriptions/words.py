"""Words, Lyndon words, and the brackets of the free Lie algebra as sums of words.

A word is a tuple of letters, or the number that has them as digits: a place in its level of the
tensor algebra, where words stand in lexicographic order.
"""

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import numpy as np

Entry: TypeAlias = tuple[int, int, int]
"""A row, a column and a value of a matrix."""

Word: TypeAlias = tuple[int, ...]
Sum: TypeAlias = dict[int, int]
"""Coefficients of the words of one level, by their numbers."""


def expanded_size(channels: int, depth: int) -> int:
    """The size of the truncated tensor algebra without its scalar.

    >>> expanded_size(3, 2)
    12
    """
    return sum(channels**level for level in range(1, depth + 1))


def lie_size(channels: int, depth: int) -> int:
    """β(channels, depth), the size of the truncated free Lie algebra, without making a basis.

    By Witt: a word of n letters is a power of one Lyndon word, up to rotation, so those of a length
    that divides n, each with as many rotations as letters, are channels^n in all.

    >>> lie_size(3, 2), lie_size(2, 3)
    (6, 5)
    """
    sizes: list[int] = []
    for level in range(1, depth + 1):
        shorter = sum(n * size for n, size in enumerate(sizes, 1) if level % n == 0)
        sizes.append((channels**level - shorter) // level)
    return sum(sizes)


@lru_cache(maxsize=64)
def lyndon_words(channels: int, depth: int) -> tuple[Word, ...]:
    """The Lyndon words of at most `depth` letters, by length, then in lexicographic order.

    >>> lyndon_words(2, 3)
    ((0,), (1,), (0, 1), (0, 0, 1), (0, 1, 1))
    """
    return tuple(sorted(_duval(channels, depth), key=lambda word: (len(word), word)))


def _duval(channels: int, depth: int) -> Iterator[Word]:
    word = [-1]
    while word:
        word[-1] += 1
        yield tuple(word)
        period = len(word)
        word = [word[position % period] for position in range(depth)]
        while word and word[-1] == channels - 1:
            word.pop()


def bracket(left: Sum, right: Sum, left_shift: int, right_shift: int) -> Sum:
    """u ⊗ v − v ⊗ u; a shift is channels to the number of letters of that factor.

    >>> bracket({0: 1}, {1: 1}, 2, 2)
    {1: 1, 2: -1}
    """
    sum_: Sum = {}
    for (u, a), (v, b) in itertools.product(left.items(), right.items()):
        for word, value in ((u * right_shift + v, a * b), (v * left_shift + u, -a * b)):
            sum_[word] = sum_.get(word, 0) + value
    return {word: value for word, value in sum_.items() if value}


def number(word: Word, channels: int) -> int:
    """A word as a number.

    >>> number((1, 0, 1), channels=2)
    5
    """
    result = 0
    for letter in word:
        result = result * channels + letter
    return result


def _letters(word: int, level: int, channels: int) -> Word:
    """The sorted letters of a word given as a number: its multidegree."""
    return tuple(sorted(word // channels**place % channels for place in range(level)))


def change_from_words(
    channels: int, depth: int, levels: list[int], expansions: list[Sum]
) -> list[Entry]:
    """From coefficients on the Lyndon words to those in a basis of elements.

    It inverts the matrix of the coefficients of the elements on the words, block by block: the
    words and elements of a block have the same letters.

    Args:
        channels: the number of letters.
        depth: the largest number of letters.
        levels: of the elements.
        expansions: the elements as sums of words.

    Returns:
        Entries (element, Lyndon word, coefficient).
    """
    blocks: dict[Word, tuple[list[int], list[int]]] = {}
    words = lyndon_words(channels, depth)
    for position, word in enumerate(words):
        blocks.setdefault(tuple(sorted(word)), ([], []))[0].append(position)
    for position, (level, expansion) in enumerate(zip(levels, expansions, strict=True)):
        blocks[_letters(next(iter(expansion)), level, channels)][1].append(position)
    entries = []
    for columns, rows in blocks.values():
        numbers = [number(words[column], channels) for column in columns]
        inverse = _integer_inverse([[expansions[row].get(n, 0) for row in rows] for n in numbers])
        for row, values in zip(rows, inverse, strict=True):
            entries += [(row, c, value) for c, value in zip(columns, values, strict=True) if value]
    return entries


def _integer_inverse(block: list[list[int]]) -> list[list[int]]:
    """The inverse of a unimodular integer matrix."""
    if len(block) == 1:
        return block
    matrix = np.array(block, dtype=np.float64)
    inverse = np.rint(np.linalg.inv(matrix))
    if not np.array_equal(matrix @ inverse, np.eye(len(block))):
        raise ArithmeticError(
            f"a block of {len(block)} elements is too large to invert exactly; choose a lower depth"
        )
    return inverse.astype(np.int64).tolist()
