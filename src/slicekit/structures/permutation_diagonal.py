"""One non-zero number a column: permutations and other maps of the rows, times a diagonal. PD-SSM.

M(Δω) = P diag(d), in blocks. Column c of P is one at the row whose logit is largest,
    L_rc(Δω) = stay δ_rc + Σ_i Δω^i L^i_rc,
and d = cos θ, where θ is linear in Δω. Products of such matrices are such matrices, and the sum of
a state's moduli never grows; P may permute the rows, or merge some and so forget. Where nothing
moves, every column keeps its row and d is one: the identity.

The choice of a row has no gradient of its own. As in PD-SSM it is given that of the softmax of the
column's logits: the chain rule sees S diag(d) instead of P diag(d), S = softmax(L), but all values
are those of P (a straight-through gradient).

Glossary: values (..., k, b) are d; rows (..., k, b) say where the columns of P are one; passing
(..., k, b, b) is zero, (S - S) diag(d), and carries the gradient of the choice; it is empty,
(..., k, b, 0), where no gradients are recorded.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from slicekit.descriptions import permutation_diagonal as descriptions
from slicekit.dispatch import surrounded
from slicekit.structures.base import (
    Drawn,
    Generator,
    Matrices,
    Parameters,
    Transition,
    weighted_sum,
)
from slicekit.structures.block_diagonal import BlockTransition
from slicekit.structures.exponential import matrix_exponential


@dataclass(frozen=True, eq=False)
class _Columns(Matrices):
    """What generators and transitions have in common: M, or its transpose.

    Attributes:
        values: (..., k, b), the number in each column.
        rows: (..., k, b) integers below b, where in its block it is.
        passing: (..., k, b, b), zero, with the gradient of the choice of the rows; or empty.
        transposed: whether the transpose is meant.
    """

    values: Tensor
    rows: Tensor
    passing: Tensor
    transposed: bool = False
    stepwise: ClassVar[tuple[str, ...]] = ("values", "rows", "passing")

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.values.shape[-2] * self.values.shape[-1]

    @property
    def traced(self) -> bool:
        """Whether the choice of the rows carries a gradient."""
        return self.passing.shape[-1] > 0

    def blocks(self) -> Tensor:
        """(..., k, b, b), each with one number a column (a row, if transposed)."""
        size = self.values.shape[-1]
        where = self.rows.unsqueeze(-2) == torch.arange(size, device=self.rows.device)[:, None]
        blocks = torch.where(where, self.values.unsqueeze(-2), 0)
        blocks = blocks + self.passing if self.traced else blocks
        return blocks.mT if self.transposed else blocks

    def moved(self, state: Tensor) -> Tensor:
        """M H for H (..., dim, columns)."""
        inside = state.unflatten(-2, self.values.shape[-2:])
        shape = torch.broadcast_shapes(inside.shape[:-1], self.values.shape)
        inside = inside.expand(*shape, inside.shape[-1])
        values = self.values.unsqueeze(-1)
        rows = self.rows.unsqueeze(-1).expand(inside.shape)
        if self.transposed:
            result = values * inside.gather(-2, rows)
        else:
            result = torch.zeros_like(inside).scatter_add(-2, rows, values * inside)
        if self.traced:
            result = result + (self.passing.mT if self.transposed else self.passing) @ inside
        return result.flatten(-3, -2)

    def adjoint(self) -> Self:
        """The transpose, by the same numbers."""
        return type(self)(self.values, self.rows, self.passing, not self.transposed)

    def pullback(self, before: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Of the values, nothing for the rows, and outer products where the choice is traced."""
        given, asked = (cotangent, before) if self.transposed else (before, cotangent)
        given, asked = (x.unflatten(-2, self.values.shape[-2:]) for x in (given, asked))
        rows = self.rows.unsqueeze(-1).expand(asked.shape)
        in_values = (given * asked.gather(-2, rows)).sum(-1)
        in_passing = asked @ given.mT if self.traced else torch.zeros_like(self.passing)
        return in_values, torch.zeros_like(self.rows), in_passing


@dataclass(frozen=True, eq=False)
class ColumnTransition(_Columns, Transition):
    """h is sent to P diag(values) h, with one number in each column of every block."""

    closed: ClassVar[bool] = True

    def act(self, state: Tensor) -> Tensor:
        """Every number of a state moves to one row: (..., dim, columns) -> (..., dim, columns)."""
        return self.moved(state)

    def compose(self, earlier: Any) -> Self:
        """One look-up a column: where the earlier step sends it, and where that goes then.

        Of first order in what is passing, which is zero: (M + E) (N + F) = M N + E N + M F.

        Raises:
            TypeError: for a matrix and a transpose, whose product may have more numbers a column.
        """
        if self.transposed != earlier.transposed:
            raise TypeError("a ColumnTransition and an adjoint have no product; use as_dense()")
        if self.transposed:
            return earlier.adjoint().compose(self.adjoint()).adjoint()
        rows = self.rows.gather(-1, earlier.rows)
        values = self.values.gather(-1, earlier.rows) * earlier.values
        passing = self.passing
        if self.traced:
            columns = earlier.rows.unsqueeze(-2).expand(passing.shape)
            passing = passing.gather(-1, columns) * earlier.values.unsqueeze(-2)
        if earlier.traced:
            pushed = self.values.unsqueeze(-1) * earlier.passing
            places = self.rows.unsqueeze(-1).expand(pushed.shape)
            whole = passing if self.traced else torch.zeros_like(pushed)
            passing = whole.scatter_add(-2, places, pushed)
        return type(self)(values, rows, passing)

    def where(self, valid: Tensor) -> Self:
        """Columns that stay where they are wherever valid is false."""
        kept = valid[..., None, None]
        own = torch.arange(self.rows.shape[-1], device=self.rows.device)
        return type(self)(
            torch.where(kept, self.values, 1),
            torch.where(kept, self.rows, own),
            torch.where(kept.unsqueeze(-1), self.passing, 0),
            self.transposed,
        )

    def in_blocks(self) -> BlockTransition:
        """The same matrices as blocks, which kernels take."""
        return BlockTransition(self.blocks())

    def sizes(self, state: Tensor) -> Tensor:
        """Block by block."""
        moduli = state.abs().unflatten(-2, self.values.shape[-2:])
        return moduli.amax(-2, keepdim=True).expand(moduli.shape).flatten(-3, -2)

    def isometry_defect(self) -> Tensor:
        """Exact, block by block: how far values are from ±1, and which columns share a row."""
        return self.in_blocks().isometry_defect()


@dataclass(frozen=True, eq=False)
class ColumnGenerator(_Columns, Generator):
    """A = P diag(values) - I, so that an Euler step is P diag(values)."""

    def act(self, state: Tensor) -> Tensor:
        """M H - H."""
        return self.moved(state) - state

    def euler(self) -> ColumnTransition:
        """P diag(values), exactly."""
        return ColumnTransition(self.values, self.rows, self.passing, self.transposed)

    def exponential(self, substeps: int | None = None) -> BlockTransition:
        """Exact exponential of each block, which mixes all powers of P diag(values)."""
        unit = torch.eye(self.values.shape[-1], dtype=self.values.dtype, device=self.values.device)
        return BlockTransition(matrix_exponential(self.blocks() - unit))


@dataclass(frozen=True)
class PermutationDiagonal(descriptions.PermutationDiagonal, Drawn):
    """Blocks with one non-zero number a column, in [-1, 1], at a row that the increments choose.

    Its A(Δω) is that less I, so that an Euler step is the matrix itself, at dim multiplications a
    product or action where no gradients are recorded, and dim x block where they are.

    Args:
        dim: size of the state.
        block: size of a block, inside which rows are permuted; it divides dim.
        scale: standard deviation of the logits that a step starts with; small, so that the softmax
            is soft and its gradient reaches every row.
        stay: what is added to the logit of a column's own row: how far from zero the logits of a
            step must be to move it.
        angle: standard deviation of the angles θ that a step starts with, in radians.

    Example:
        >>> swap = {"logits": torch.tensor([[[[0.0, 3.0], [3.0, 0.0]]]])}
        >>> swap["angles"] = torch.tensor([[[0.0, torch.pi]]])
        >>> step = PermutationDiagonal(2, 2).combine(swap, torch.tensor([[1.0], [0.0]])).euler()
        >>> step.mv(torch.tensor([3.0, 5.0]))
        tensor([[-5.,  3.],
                [ 3.,  5.]])
    """

    def combine(self, parameters: Parameters, increments: Tensor) -> ColumnGenerator:
        """M(Δω) - I for increments (..., channels)."""
        logits = weighted_sum(increments, parameters["logits"])
        own = torch.eye(self.block, dtype=logits.dtype, device=logits.device)
        logits = logits + self.stay * own
        values = weighted_sum(increments, parameters["angles"]).cos()
        if torch.is_grad_enabled() or surrounded():
            chances = logits.softmax(-2)
            passing = (chances - chances.detach()) * values.unsqueeze(-2)
        else:
            passing = logits[..., :0]
        return ColumnGenerator(values, logits.argmax(-2), passing)
