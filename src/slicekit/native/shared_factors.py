"""The door to the kernel with shared factors: h_{l+1} = h_l + d h_l + U (w (V^T h_l)) + u_l.

Its parameters are {"diagonal": (channels, dim), "left" and "right": (channels, dim, rank)}.
"""

from typing import Any, ClassVar

from torch import Tensor

from slicekit.native.kernel import addresses, sizes
from slicekit.native.problem import IncrementKernel, Problem

NAMES = ("diagonal", "left", "right")


class _SharedFactors(Problem):
    """slicekit_shared_factors of slicekit_shared_factors.h."""

    _fields_: ClassVar = [
        *sizes("rank"),
        *addresses(*NAMES, *(f"in_{name}" for name in NAMES)),
    ]

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """Diagonals and factors."""
        factors = (self.channels, self.dim, self.rank)
        return {"diagonal": factors[:2], "left": factors, "right": factors}


def _size(problem: Any, held: dict[str, Tensor]) -> None:
    problem.rank = held["left"].shape[-1]


KERNEL = IncrementKernel("shared_factors", _SharedFactors, NAMES, NAMES, _size)
forward, backward = KERNEL.forward, KERNEL.backward
