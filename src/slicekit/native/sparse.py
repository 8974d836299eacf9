"""The door to the sparse kernel: h_{l+1} = h_l + Σ_i Δω_l^i A^i h_l + u_l by kept entries.

Its parameters are {"values": (kept,), "places": (kept,) ascending into (channels, dim, dim)}.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from slicekit.native.arrays import Expected
from slicekit.native.kernel import addresses, sizes
from slicekit.native.problem import IncrementKernel, Problem


class _Sparse(Problem):
    """slicekit_sparse of slicekit_sparse.h."""

    _fields_: ClassVar = [
        *sizes("kept"),
        *addresses("values", "places", "in_values"),
    ]

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """Values."""
        return {"values": (self.kept,)}

    def expected(self) -> dict[str, Expected]:
        """Places are whole numbers; the library looks at each of them."""
        return super().expected() | {"places": ((self.kept,), torch.int64)}


def _size(problem: Any, held: dict[str, Tensor]) -> None:
    problem.kept = held["values"].numel()


KERNEL = IncrementKernel("sparse", _Sparse, ("values", "places"), ("values",), _size)
forward, backward = KERNEL.forward, KERNEL.backward
