"""Parts whose dense matrices are made once per token: A_v = Σ_i Δω_v^i A^i for the rows of a table.

Glossary: table is Δω of every token, (vocabulary, channels); matrices are the A_v,
(vocabulary, dim, dim); a position is a token of a sequence.
"""

import torch
from torch import Tensor

from slicekit.native import sparse_table
from slicekit.native.kinds import Kind
from slicekit.scans.native.runs import Run

LARGEST = 2**27
"""Numbers of all matrices up to which they are tabulated at all."""

MAKING, SUMMING = 8, 4
"""What a number of a matrix costs to write and read, and a multiplication of it to make from dense
products of factors, both in multiplications of a position."""


def pays(run: Run, held: dict[str, Tensor], table: Tensor, positions: int) -> bool:
    """Whether a table of dense matrices is cheaper than each position's own sum over channels.

    Args:
        run: a part that no panels take: sparse, or with shared factors.
        held: its parameters under the names that its structure gives them.
        table: (vocabulary, channels).
        positions: batch x length x columns of the states.
    """
    vocabulary, channels = table.shape
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
        run, held, table: as in `pays`.
        kept: (vocabulary x dim²,) or None.
    """
    numbers = table.new_empty(table.shape[0] * run.dim**2) if kept is None else kept
    matrices = numbers.view(-1, run.dim, run.dim)
    if run.kernel is Kind.SPARSE:
        sparse_table.forward(held["values"], held["places"], table, matrices)
        return matrices
    torch.mm(table, _products(held), out=matrices.flatten(1))
    matrices.diagonal(dim1=-2, dim2=-1).add_(table @ held["diagonal"])
    return matrices


def pull(
    run: Run, held: dict[str, Tensor], table: Tensor, gradient: Tensor
) -> tuple[dict[str, Tensor], Tensor]:
    """Gradients of the parameters by name, and of the table, from those of the matrices."""
    if run.kernel is Kind.SPARSE:
        values, moved = sparse_table.backward(held["values"], held["places"], table, gradient)
        return {"values": values}, moved
    flat = gradient.flatten(1)
    diagonal = gradient.diagonal(dim1=-2, dim2=-1)
    moved = flat @ _products(held).t() + diagonal @ held["diagonal"].t()
    in_products = (table.t() @ flat).unflatten(-1, (run.dim, run.dim))
    found = {
        "diagonal": table.t() @ diagonal,
        "left": in_products @ held["right"],
        "right": in_products.mT @ held["left"],
    }
    return found, moved


def _products(held: dict[str, Tensor]) -> Tensor:
    """U^i (V^i)^T of every channel, (channels, dim²)."""
    return torch.bmm(held["left"], held["right"].mT).flatten(1)
