"""Bases of the free Lie algebra, in which log-signatures have their coefficients.

The tables are those of `slicekit.paths.lie_bases`, so the order and the meaning of coefficients are
the same; what is applied to arrays is here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jax import Array

from slicekit.descriptions.lie_tables import (
    Element,
    LieTables,
    hall_tables,
    lyndon_tables,
    written,
)
from slicekit.descriptions.words import Entry, expanded_size
from slicekit.jax.checks import check_shape

DENSE = 1 << 15
"""Up to this many entries, zeros among them, a dense product is the faster way."""


@dataclass(frozen=True, eq=False)
class SparseMap:
    """A matrix on the last axis, given by its entries.

    Attributes:
        rows, columns: (entries,) int64.
        values: (entries,) float64.
        shape: the number of rows and of columns.
    """

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    shape: tuple[int, int]

    @staticmethod
    def of(entries: list[Entry], rows: int, columns: int) -> "SparseMap":
        """From (row, column, value) in any order, no place given twice."""
        row, column, value = (np.array(x) for x in zip(*sorted(entries), strict=True))
        return SparseMap(row, column, value.astype(np.float64), (rows, columns))

    def __call__(self, x: Array) -> Array:
        """The matrix times x on its last axis: (..., columns) to (..., rows)."""
        if self.shape[0] * self.shape[1] <= DENSE:
            matrix = np.zeros(self.shape)
            matrix[self.rows, self.columns] = self.values
            return x @ jnp.asarray(matrix.T, x.dtype)
        entries = x[..., self.columns] * jnp.asarray(self.values, x.dtype)
        return jnp.zeros((*x.shape[:-1], self.shape[0]), x.dtype).at[..., self.rows].add(entries)


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
        brackets: for level 2, 3, ... indices into `elements`: left and right factors.
        words: where the Lyndon words stand in the expanded form, in the order of the words.
        change: from coefficients on the Lyndon words to coefficients in this basis.
        expansion: from coefficients in this basis to the expanded form.
    """

    name: str
    channels: int
    depth: int
    elements: tuple[Element, ...] = field(compare=False, repr=False)
    sizes: tuple[int, ...] = field(compare=False, repr=False)
    brackets: tuple[tuple[np.ndarray, np.ndarray], ...] = field(compare=False, repr=False)
    words: np.ndarray = field(compare=False, repr=False)
    change: SparseMap = field(compare=False, repr=False)
    expansion: SparseMap = field(compare=False, repr=False)

    @property
    def size(self) -> int:
        """β(channels, depth), the number of elements."""
        return sum(self.sizes)

    def __str__(self) -> str:
        """The name, and every element with letters counted from one, as the paper writes them."""
        return f"{self.name} basis: {', '.join(written(element) for element in self.elements)}"

    def __reduce__(self) -> tuple[Callable[[int, int], "LieBasis"], tuple[int, int]]:
        """Copies and pickles are made again from name, channels and depth."""
        return (hall if self.name == "hall" else lyndon), (self.channels, self.depth)

    def expand(self, coefficients: Array) -> Array:
        """The Lie element in the tensor algebra: (..., size) -> (..., channels + channels² + ...).

        >>> hall(2, 2).expand(jnp.array([1.0, 2.0, 3.0]))
        Array([ 1.,  2.,  0.,  3., -3.,  0.], dtype=float32)
        """
        check_shape("coefficients", coefficients, (..., self.size))
        return self.expansion(coefficients)

    def project(self, expanded: Array) -> Array:
        """The coefficients of a Lie element given in expanded form; exact for Lie elements."""
        check_shape("expanded", expanded, (..., expanded_size(self.channels, self.depth)))
        return self.change(expanded[..., self.words])


@lru_cache(maxsize=64, typed=True)
def hall(channels: int, depth: int) -> LieBasis:
    """The Hall basis in the order of the paper; as `slicekit.paths.hall`.

    >>> print(hall(2, 3))
    hall basis: 1, 2, [1,2], [1,[1,2]], [2,[1,2]]
    """
    return _basis(hall_tables(channels, depth))


@lru_cache(maxsize=64, typed=True)
def lyndon(channels: int, depth: int) -> LieBasis:
    """The Lyndon words, each with its standard bracketing; as `slicekit.paths.lyndon`."""
    return _basis(lyndon_tables(channels, depth))


def _basis(tables: LieTables) -> LieBasis:
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


def _indices(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)
