"""Sums of sparse matrices, A_v = Σ_i Δω_v^i A^i, for the increments of a table.

See native/include/slicekit_sparse_table.h, which this mirrors.
"""

from typing import ClassVar

import torch
from torch import Tensor

from slicekit.native import kernel
from slicekit.native.arrays import REAL, Expected, plain
from slicekit.native.kernel import WORK, Kernel, addresses, sizes
from slicekit.native.threads import threads

SIZES = ("real", "vocabulary", "channels", "dim", "kept", "threads")
ARRAYS = ("values", "places", "increments", "matrices", "in_matrices", "in_values", "in_increments")


KERNEL = Kernel("sparse_table", "slicekit_sparse_table_workspace", told=True)


class _SparseTable(kernel.Task):
    """slicekit_sparse_table of slicekit_sparse_table.h."""

    _fields_: ClassVar = [*sizes(*SIZES), *addresses(*ARRAYS), *WORK]

    def expected(self) -> dict[str, Expected]:
        """The shape and dtype of each array, from the sizes."""
        dtype = REAL[self.real]
        found: dict[str, Expected] = {
            "values": ((self.kept,), dtype),
            "increments": ((self.vocabulary, self.channels), dtype),
            "matrices": ((self.vocabulary, self.dim, self.dim), dtype),
        }
        found |= {f"in_{name}": wanted for name, wanted in found.items()}
        return found | {"places": ((self.kept,), torch.int64)}


def forward(values: Tensor, places: Tensor, increments: Tensor, matrices: Tensor) -> None:
    """Write the matrices (vocabulary, dim, dim).

    Args:
        values: (kept,).
        places: (kept,) ascending, into (channels, dim, dim).
        increments: (vocabulary, channels).
        matrices: where to.

    Raises:
        RuntimeError: if the kernel refuses what it is given.
    """
    _call("forward", values, places, increments, matrices.shape[-1], {"matrices": matrices})


def backward(
    values: Tensor, places: Tensor, increments: Tensor, in_matrices: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the values and the increments from those of the matrices.

    Raises:
        RuntimeError: if the kernel refuses what it is given.
    """
    in_values, in_increments = torch.empty_like(values), torch.empty_like(plain(increments))
    arrays = {"in_values": in_values, "in_increments": in_increments}
    given = arrays | {"in_matrices": plain(in_matrices)}
    _call("backward", values, places, increments, in_matrices.shape[-1], given)
    return in_values, in_increments


def _call(
    way: str,
    values: Tensor,
    places: Tensor,
    increments: Tensor,
    dim: int,
    arrays: dict[str, Tensor],
) -> None:
    vocabulary, channels = increments.shape
    kept = values.numel()
    team = threads(kept * vocabulary)
    problem = _SparseTable(values.element_size(), vocabulary, channels, dim, kept, team)
    held = {"values": values, "places": places, "increments": increments}
    held = {name: plain(x) for name, x in held.items()}
    KERNEL.call(way, problem, held | arrays)
