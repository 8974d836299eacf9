"""Tokens: what is made once for each of them, and not position by position.

Parts with kernels of their own get dense matrices A_v = Σ_i Δω_v^i A^i for the rows of a table,
where that `pays`. For structures that no kernel knows, torch makes one transition M_v for each
token (`with_kernel`). Where these are blocks, or diagonal plus low rank, M_v - I are the matrices
of a block-diagonal or joint DPLR structure with a channel for each token, and a step's increment is
the unit vector of its token. A product with unit vectors is a copy, so nothing but the recurrence
is left to the kernel, and gradients go through the table once.

Glossary: table is Δω of every token, (vocabulary, channels); matrices are the A_v,
(vocabulary, dim, dim); a position is a token of a sequence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from slicekit.dispatch import autocast_off
from slicekit.flows import Euler
from slicekit.native import available
from slicekit.native.kernel import HALF, Differentiable, Kind, plain
from slicekit.native.panels import MOST_RANK
from slicekit.native.recurrences import SHARED_FACTORS, SPARSE, SPARSE_SUMS, TABLE, Steps
from slicekit.scans.native.assignment import Run, why_not
from slicekit.scans.sources import FromTable
from slicekit.structures import BlockTransition, ColumnTransition, JointDPLR, LowRankTransition
from slicekit.structures.block_diagonal import Blocks

LARGEST = 2**27
"""Numbers of all matrices up to which they are tabulated at all."""

MAKING, SUMMING = 8, 1.5
"""What a number of a matrix costs to write and read, and a multiplication of it to make from dense
products of factors, both in multiplications of a position."""

CACHED = 2**18
"""Numbers of the products of factors that are made at a time."""

MOST_TOKENS = 512
"""Rows of a table up to which the product with unit vectors is no matter."""


def pays(run: Run, held: dict[str, Tensor], vocabulary: int, channels: int, positions: int) -> bool:
    """Whether a table of dense matrices is cheaper than each position's own sum over channels.

    Args:
        run: a part that no panels take: sparse, or with shared factors.
        held: its parameters under the names that its structure gives them.
        vocabulary, channels: of the table.
        positions: batch x length x columns of the states.
    """
    square = run.dim**2
    if vocabulary * square > LARGEST:
        return False
    if run.kernel is Kind.SPARSE:
        making, alone = held["values"].numel(), held["values"].numel()
    else:
        making, alone = SUMMING * channels * square, 2 * held["left"].numel()
    return vocabulary * (making + MAKING * square) + positions * square < positions * alone


def make(run: Run, held: dict[str, Tensor], table: Tensor, kept: Tensor | None) -> Tensor:
    """The matrices (vocabulary, dim, dim), in the memory that is to keep them if there is one.

    Args:
        run, held: as in `pays`.
        table: (vocabulary, channels).
        kept: (vocabulary x dim²,) or None.
    """
    numbers = table.new_empty(table.shape[0] * run.dim**2) if kept is None else kept
    matrices = numbers.view(-1, run.dim, run.dim)
    if run.kernel is Kind.SPARSE:
        task, given = SPARSE_SUMS.problem(run.dim, _sparse(held, table))
        SPARSE_SUMS.call("forward", task, given | {"matrices": matrices})
        return matrices
    for rows, products in _products(held):
        matrices[:, rows] = (table @ products.flatten(1)).unflatten(1, products.shape[1:])
    matrices.diagonal(dim1=-2, dim2=-1).add_(table @ held["diagonal"])
    return matrices


def pull(
    run: Run, held: dict[str, Tensor], table: Tensor, gradient: Tensor
) -> tuple[dict[str, Tensor], Tensor]:
    """Gradients of the parameters by name, and of the table, from those of the matrices."""
    if run.kernel is Kind.SPARSE:
        plan = (run.dim, _sparse(held, table), [None], [gradient], [])
        values, _, moved = SPARSE_SUMS.backward(*plan)
        assert values is not None and moved is not None
        return {"values": values}, moved
    diagonal = gradient.diagonal(dim1=-2, dim2=-1)
    moved = diagonal @ held["diagonal"].t()
    left, right = held["left"].mT, held["right"].mT.contiguous()
    in_left, in_right = torch.empty_like(right), torch.zeros_like(right)
    for rows, products in _products(held):
        flat = gradient[:, rows].flatten(1)
        moved.addmm_(flat, products.flatten(1).t())
        in_products = (table.t() @ flat).view_as(products)
        in_right.baddbmm_(left[:, :, rows], in_products)
        for j in range(left.shape[1]):  # a product with so few columns takes many times longer
            torch.sum(in_products * right[:, j, None], -1, out=in_left[:, j, rows])
    gradients = {"left": in_left.mT.contiguous(), "right": in_right.mT.contiguous()}
    return gradients | {"diagonal": table.t() @ diagonal}, moved


@dataclass(eq=False)
class Alone:
    """The problem of a part that no panels take, as `Panels` has it: h_{l+1} = h_l + A_l h_l + u_l.

    By dense matrices of tokens where that `pays`, otherwise position by position.

    Attributes:
        run: its own.
        parameters: in the order of the run.
        path: increments (batch, length, channels), or the table (vocabulary, channels) of an index;
            with a pace, values with one channel less.
        index: (batch, length) rows of the table, or None; with a pace, -1 drives nothing.
        state: (batch, dim, columns), or (batch, dim): then no states have columns.
        inputs: (batch, length, dim, columns) or None.
        rescale, pace, still, lengths, half, directed: as `Panels` has them.
    """

    run: Run
    parameters: Sequence[Tensor]
    path: Tensor
    index: Tensor | None
    state: Tensor
    inputs: Tensor | None
    rescale: int
    pace: float = 0.0
    still: bool = False
    lengths: Tensor | None = None
    half: bool = False
    directed: bool = False

    @cached_property
    def held(self) -> dict[str, Tensor]:
        """The parameters under the names that their structure gives them."""
        return self.run.named(self.parameters)

    @cached_property
    def tokens(self) -> tuple[Tensor, Tensor]:
        """Increments of all tokens, and which of them drive the steps.

        With a pace, one more, the last, drives nothing.
        """
        assert self.index is not None
        if not self.pace:
            return self.path, self.index
        count, channels = self.path.shape
        table = self.path.new_zeros(count + 1, channels + 1)
        table[:-1, 0] = self.pace
        torch.mul(self.path, self.pace, out=table[:-1, 1:])
        index = self.index.remainder(count + 1)
        index[:, : self.still] = count
        return table, index

    @cached_property
    def tabulated(self) -> bool:
        """Whether matrices are made once per token, and not position by position."""
        if self.index is None:
            return False
        positions = self.index.numel() * self.state.shape[2:].numel()
        vocabulary, channels = self.tokens[0].shape
        return pays(self.run, self.held, vocabulary, channels, positions)

    @cached_property
    def by_halves(self) -> bool:
        """Whether the kernel has bfloat16 in memory: not of tokens that are taken by position, too
        few for their matrices.
        """
        return self.half and (self.index is None or self.tabulated)

    def worth_keeping(self, limit: int) -> int:
        """How many numbers of the matrices to keep within so many bytes: all or none."""
        numbers = self.tokens[0].shape[0] * self.run.dim**2 if self.tabulated else 0
        return numbers if numbers * self.state.element_size() <= limit else 0

    def forward(
        self,
        kept: Tensor | None,
        made: bool = False,
        last: Tensor | None = None,
        directions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """States and factors, as `Panels.forward` gives them; nothing is made."""
        assert not made
        kernel, operands = self._kernel(kept, False)
        asked = {"last": (last, 2), "directions": (directions, 3)}
        room = {name: self._columns(x, axes) for name, (x, axes) in asked.items() if x is not None}
        widened = self.half and not self.by_halves
        results = kernel.forward(self._steps, operands, room={} if widened else room)
        states, factors, *_ = results
        if widened:
            results = dict(zip(kernel.task.results, results, strict=True))
            for name, x in room.items():
                x.copy_(results[name])
            states = states.to(HALF)
        states = states.view(*states.shape[:3], *self.state.shape[2:])
        if not self.rescale:
            return states, None
        factors = factors.unsqueeze(2).repeat(1, 1, self.run.dim, 1)  # one for all rows
        return states, factors.view(*factors.shape[:3], *self.state.shape[2:])

    def backward(
        self,
        states: Tensor,
        factors: Tensor | None,
        kept: Tensor | None,
        in_states: Tensor,
        in_last: Tensor | None,
        wanted: bool = True,
        trained: bool = True,
    ) -> tuple[list[Any], Tensor, Tensor, Tensor | None]:
        """Gradients as `Panels.backward` gives them; all of them, whichever are wanted."""
        kernel, operands = self._kernel(kept, kept is not None)
        divided = self.state.new_empty(0)
        if self.rescale:
            assert factors is not None
            divided = self._columns(factors[:, :, 0], 2)
        if self.half and not self.by_halves:
            states, in_states = states.float(), in_states.float()
        results = [self._columns(states, 3), divided, None, None]
        in_last = torch.zeros_like(self.state) if in_last is None else in_last
        given = (self._columns(in_states, 3), self._columns(in_last, 2))
        pulled = kernel.backward(self._steps, operands, results, given, [])
        gradients: dict[str, Any] = dict(zip(kernel.task.operands, pulled, strict=True))
        first, driven = gradients["state"].view_as(self.state), gradients["inputs"]
        if self.index is None:
            return [*map(gradients.get, self.held)], gradients["increments"], first, driven
        table, index = self.tokens
        if kernel is TABLE:
            gradients, moved = pull(self.run, self.held, table, gradients["matrices"])
        else:
            moved = gradients["increments"].flatten(0, 1)
            moved = torch.zeros_like(table).index_add_(0, index.reshape(-1), moved)
        moved = moved[:-1, 1:] * self.pace if self.pace else moved
        return [*map(gradients.get, self.held)], moved, first, driven

    @property
    def _steps(self) -> Steps:
        """What the kernel is told."""
        steps = Steps(self.rescale, self.by_halves, self.directed)
        return steps if self.index is not None else steps._replace(pace=self.pace, still=self.still)

    def _columns(self, x: Tensor, axes: int) -> Tensor:
        """With columns behind so many axes."""
        return x if x.ndim > axes else x.unsqueeze(-1)

    def _kernel(self, kept: Tensor | None, made: bool) -> tuple[Differentiable, list[Any]]:
        """The kernel and its operands; the matrices of tokens are made unless they were kept."""
        path, driven = self.path, (self._columns(self.state, 2), self.inputs)
        if self.index is not None:
            table, index = self.tokens
            if self.tabulated:
                if kept is None or not made:
                    kept = make(self.run, self.held, table, kept)
                return TABLE, [kept.view(-1, self.run.dim, self.run.dim), index, *driven]
            path = table.index_select(0, index.reshape(-1)).unflatten(0, index.shape)
        kernel = SPARSE if self.run.kernel is Kind.SPARSE else SHARED_FACTORS
        return kernel, [path, *self.held.values(), *driven, self.lengths]


def _sparse(held: dict[str, Tensor], table: Tensor) -> list[Tensor]:
    """What sums of sparse matrices are made of."""
    return [plain(x) for x in (held["values"], held["places"], table)]


def _products(held: dict[str, Tensor]) -> Iterator[tuple[slice, Tensor]]:
    """Some rows of U^i (V^i)^T of every channel, (channels, rows, dim), and which ones.

    A few at a time, so that they need not leave the cache; and by outer products, as there are few.
    """
    left, right = (held[name].movedim(2, 0).contiguous() for name in ("left", "right"))
    rank, channels, dim = left.shape
    count = max(1, CACHED // (channels * dim))
    for first in range(0, dim, count):
        rows = slice(first, min(first + count, dim))
        factors = left[:, :, rows].unsqueeze(-1)
        products = factors[0] * right[0].unsqueeze(1)
        for j in range(1, rank):
            products.addcmul_(factors[j], right[j].unsqueeze(1))
        yield rows, products


def with_kernel(source: FromTable) -> FromTable:
    """A source of the same transitions that kernels take, or the same one where there is none."""
    rows = source.path.shape[0]
    if torch.compiler.is_compiling() or rows > min(MOST_TOKENS, source.index.numel()):
        return source
    if not available() or not source.path.is_cpu or not why_not(source, False):
        return source
    with autocast_off(source.path.device):
        made = source.rows()
        made = made.in_blocks() if isinstance(made, ColumnTransition) else made
        tokens = torch.eye(rows, dtype=source.path.dtype)
        if type(made) is BlockTransition:
            unit = torch.eye(made.blocks.shape[-1], dtype=made.blocks.dtype)
            blocks = Blocks(made.dim, made.blocks.shape[-1])
            return FromTable(blocks, Euler(), {"blocks": made.blocks - unit}, tokens, source.index)
        if type(made) is LowRankTransition and made.left.shape[-1] <= min(made.dim, MOST_RANK):
            factors = {"diagonal": made.diagonal - 1, "left": made.left, "right": made.right}
            joint = JointDPLR(made.dim, made.left.shape[-1])
            return FromTable(joint, Euler(), factors, tokens, source.index)
    return source
