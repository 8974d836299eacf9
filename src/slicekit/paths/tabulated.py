"""Increments of discrete tokens, as a table and an index into it.

Where X takes few values, Δω takes few values: what is made from an increment alone (its generator,
its exponential) is made once for each row of the table instead of once for each position. That is
exact through maps that are pointwise and deterministic: no dropout, no mixing of positions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from slicekit.checks import (
    HALF,
    Lengths,
    check_floating,
    check_lengths,
    check_range,
    check_same_device,
    check_shape,
)
from slicekit.paths.lengths import valid_mask


@dataclass(frozen=True, eq=False)
class Tabulated:
    """The increments `table[index]`, (batch, length, channels), without writing them out.

    Index −1 is the identity: a zero increment, which no map of the table changes. Gradients flow to
    the table.

    Args:
        table: (vocabulary, channels), floating: the increment of each token.
        index: (batch, length) int64 in −1..vocabulary−1: the token at each position. Values are
            read only where that is free: not while compiling, and only on the CPU.

    Raises:
        TypeError: if the table is not floating or the index not int64.
        ValueError: if shapes or devices do not fit, or an index is out of range.

    >>> tokens = Tabulated(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1, -1, 0]]))
    >>> tokens.shape
    (1, 3, 2)
    >>> tokens.dense()
    tensor([[[3., 4.],
             [0., 0.],
             [1., 2.]]])
    """

    table: Tensor
    index: Tensor

    def __post_init__(self) -> None:
        check_shape("table", self.table, ("vocabulary", "channels"))
        check_floating("table", self.table)
        check_shape("index", self.index, ("batch", "length"))
        if self.index.dtype != torch.int64:
            raise TypeError(f"index has dtype {self.index.dtype}; expected torch.int64")
        check_same_device("index", self.index, "table", self.table)
        rows = self.vocabulary
        why = f"for a table of {rows} rows"
        check_range("index", self.index, -1, rows - 1, ("batch", "position"), why)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(batch, length, channels) of the array this stands for.

        >>> Tabulated(torch.zeros(60, 8), torch.zeros(2, 5, dtype=torch.int64)).shape
        (2, 5, 8)
        """
        batch, length = self.index.shape
        return batch, length, self.table.shape[1]

    @property
    def vocabulary(self) -> int:
        """The number of tokens, that is of rows of the table.

        >>> Tabulated(torch.zeros(60, 8), torch.zeros(2, 5, dtype=torch.int64)).vocabulary
        60
        """
        return self.table.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the increments.

        >>> Tabulated(torch.zeros(60, 8), torch.zeros(2, 5, dtype=torch.int64)).dtype
        torch.float32
        """
        return self.table.dtype

    @property
    def device(self) -> torch.device:
        """The device of table and index.

        >>> Tabulated(torch.zeros(60, 8), torch.zeros(2, 5, dtype=torch.int64)).device
        device(type='cpu')
        """
        return self.table.device

    def map(self, function: Callable[[Tensor], Tensor]) -> "Tabulated":
        """Apply a pointwise deterministic function to every increment, once for each token.

        The identity stays the identity, also where the function does not take zero to zero.

        Args:
            function: takes (vocabulary, channels) to (vocabulary, channels'), row by row.

        Raises:
            ValueError: if the function changes the number of rows.

        >>> tokens = Tabulated(torch.tensor([[1.0], [2.0]]), torch.tensor([[0, 1, -1]]))
        >>> tokens.map(lambda table: table + 1).dense().squeeze(-1)
        tensor([[2., 3., 0.]])
        """
        table = function(self.table)
        check_shape("function(table)", table, (self.vocabulary, "channels"))
        check_floating("function(table)", table)
        check_same_device("index", self.index, "function(table)", table)
        return self._derived(table, self.index)

    def dense(self) -> Tensor:
        """The array (batch, length, channels) this stands for; zeros where the index is −1.

        >>> Tabulated(torch.tensor([[5.0]]), torch.tensor([[0, -1]])).dense().squeeze(-1)
        tensor([[5., 0.]])
        """
        table, index = self.with_identity()
        return functional.embedding(index, table)

    def masked(self, lengths: Lengths) -> "Tabulated":
        """Make every position past the end of its series the identity.

        Args:
            lengths: (batch,) integers in 0..length, a tensor or a list.

        Raises:
            TypeError: if the lengths are no integers.
            ValueError: if they do not fit the batch, or one of them is out of range.

        >>> Tabulated(torch.zeros(3, 1), torch.tensor([[0, 1, 2]])).masked([2]).index
        tensor([[ 0,  1, -1]])
        """
        batch, length = self.index.shape
        lengths = check_lengths(lengths, batch, length, device=self.device)
        return self._derived(self.table, self.index.masked_fill(~valid_mask(lengths, length), -1))

    def part(self, start: int, stop: int | None = None) -> "Tabulated":
        """The positions start..stop−1, counted as in a Python slice.

        >>> Tabulated(torch.zeros(3, 1), torch.tensor([[0, 1, 2]])).part(1).index
        tensor([[1, 2]])
        """
        return self._derived(self.table, self.index[:, start:stop])

    @classmethod
    def _derived(cls, table: Tensor, index: Tensor) -> "Tabulated":
        """Of parts that were checked, or follow from such: reading an index takes its time."""
        if torch.compiler.is_compiling():
            return cls(table, index)
        made = object.__new__(cls)
        made.__dict__.update(table=table, index=index)
        return made

    def with_identity(self) -> tuple[Tensor, Tensor]:
        """Table and index with the identity as one more token.

        Returns:
            table: (vocabulary + 1, channels), the last row zero.
            index: (batch, length) int64, with `vocabulary` in place of −1.

        >>> table, index = Tabulated(torch.ones(2, 1), torch.tensor([[1, -1]])).with_identity()
        >>> table.squeeze(-1), index
        (tensor([1., 1., 0.]), tensor([[1, 2]]))
        """
        table = functional.pad(self.table, (0, 0, 0, 1))
        return table, torch.where(self.index < 0, self.vocabulary, self.index)


def densely(x: Tensor | Tabulated) -> Tensor:
    """Position by position."""
    return x.dense() if isinstance(x, Tabulated) else x


def full_precision(x: Any) -> Any:
    """Half precision as float32, of a tensor or of `Tabulated`."""
    if x.dtype not in HALF:
        return x
    return x.map(Tensor.float) if isinstance(x, Tabulated) else x.float()
