"""Linear maps on the last axis with few entries, such as a change of basis."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.descriptions.words import Entry

DENSE = 1 << 15
"""Up to this many entries, zeros among them, a dense product is the faster way."""


@dataclass(frozen=True, eq=False)
class SparseMap:
    """A matrix given by its entries, sorted by row.

    Attributes:
        rows: (entries,) int64.
        columns: (entries,) int64.
        values: (entries,) float64.
        shape: the number of rows and of columns.
        identity: whether it changes nothing.
    """

    rows: Tensor
    columns: Tensor
    values: Tensor
    shape: tuple[int, int]
    identity: bool

    @staticmethod
    def of(entries: Sequence[Entry], rows: int, columns: int) -> "SparseMap":
        """From (row, column, value) in any order, no place given twice."""
        row, column, value = zip(*sorted(entries), strict=True)
        identity = rows == columns and row == column and set(value) == {1} and len(row) == rows
        row, column = torch.tensor(row), torch.tensor(column)
        values = torch.tensor(value, dtype=torch.float64)
        return SparseMap(row, column, values, (rows, columns), identity)

    def __call__(self, x: Tensor) -> Tensor:
        """The matrix times x on its last axis: (..., columns) to (..., rows)."""
        if self.identity:
            return x
        if self.shape[0] * self.shape[1] <= DENSE:
            return x @ self.dense().to(x).T
        rows, columns = self.rows.to(x.device), self.columns.to(x.device)
        entries = x[..., columns] * self.values.to(x)
        sums = x.new_zeros(*x.shape[:-1], self.shape[0])
        return sums.scatter_add(-1, rows.expand(entries.shape), entries)

    def dense(self) -> Tensor:
        """The whole matrix, (rows, columns) float64."""
        matrix = self.values.new_zeros(self.shape)
        matrix[self.rows, self.columns] = self.values
        return matrix
