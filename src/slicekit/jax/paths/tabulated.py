"""Increments of discrete tokens, as a table and an index into it; as `slicekit.Tabulated`."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from slicekit.jax.checks import Lengths, check_floating, check_lengths, check_range, check_shape
from slicekit.jax.paths.lengths import valid_mask


class Tabulated(eqx.Module):
    """The increments `table[index]`, (batch, length, channels), without writing them out.

    Index −1 is the identity: a zero increment, which no map of the table changes. Gradients flow to
    the table.

    Args:
        table: (vocabulary, channels), floating: the increment of each token.
        index: (batch, length) integers in −1..vocabulary−1: the token at each position.

    Raises:
        TypeError: if the table is not floating or the index holds no integers.
        ValueError: if shapes do not fit, or an index is out of range (where it can be read).

    >>> tokens = Tabulated(jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([[1, -1, 0]]))
    >>> tokens.dense()
    Array([[[3., 4.],
            [0., 0.],
            [1., 2.]]], dtype=float32)
    """

    table: Array
    index: Array

    def __init__(self, table: Array, index: Array) -> None:
        """Check that both fit."""
        check_shape("table", table, ("vocabulary", "channels"))
        check_floating("table", table)
        check_shape("index", index, ("batch", "length"))
        if not jnp.issubdtype(index.dtype, jnp.integer):
            raise TypeError(f"index has dtype {index.dtype}; expected integers")
        rows = table.shape[0]
        why = f"for a table of {rows} rows"
        check_range("index", index, -1, rows - 1, ("batch", "position"), why)
        self.table, self.index = table, index

    @property
    def shape(self) -> tuple[int, int, int]:
        """(batch, length, channels) of the array this stands for."""
        batch, length = self.index.shape
        return batch, length, self.table.shape[1]

    @property
    def vocabulary(self) -> int:
        """The number of tokens, that is of rows of the table."""
        return self.table.shape[0]

    @property
    def dtype(self) -> Any:
        """The dtype of the increments."""
        return self.table.dtype

    def map(self, function: Callable[[Array], Array]) -> "Tabulated":
        """Apply a pointwise deterministic function to every increment, once for each token.

        The identity stays the identity, also where the function does not take zero to zero.
        """
        table = function(self.table)
        check_shape("function(table)", table, (self.vocabulary, "channels"))
        return Tabulated(table, self.index)

    def dense(self) -> Array:
        """The array (batch, length, channels) this stands for; zeros where the index is −1."""
        table, index = self.with_identity()
        return table[index]

    def masked(self, lengths: Lengths) -> "Tabulated":
        """Make every position past the end of its series the identity."""
        batch, length = self.index.shape
        valid = valid_mask(check_lengths(lengths, batch, length), length)
        return Tabulated(self.table, jnp.where(valid, self.index, -1))

    def part(self, start: int, stop: int | None = None) -> "Tabulated":
        """The positions start..stop−1, counted as in a Python slice."""
        return Tabulated(self.table, self.index[:, start:stop])

    def with_identity(self) -> tuple[Array, Array]:
        """Table with a zero row as its last, and the index with `vocabulary` in place of −1."""
        table = jnp.pad(self.table, ((0, 1), (0, 0)))
        return table, jnp.where(self.index < 0, self.vocabulary, self.index)
