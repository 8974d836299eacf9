"""The door to the kernel with shared factors: h_{l+1} = h_l + d h_l + U (w (V^T h_l)) + u_l.

Its parameters are {"diagonal": (channels, dim), "left" and "right": (channels, dim, rank)}.
"""

import ctypes
from typing import Any

from torch import Tensor

from slicekit.native.problem import COMMON, IncrementKernel

NAMES = ("diagonal", "left", "right")


class _SharedFactors(ctypes.Structure):
    """slicekit_shared_factors of slicekit_shared_factors.h."""

    _fields_ = [
        *COMMON,
        ("rank", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in NAMES),
        *((f"in_{name}", ctypes.c_void_p) for name in NAMES),
    ]


def _size(problem: Any, held: dict[str, Tensor]) -> None:
    problem.rank = held["left"].shape[-1]


KERNEL = IncrementKernel("shared_factors", _SharedFactors, NAMES, NAMES, _size)
forward, backward = KERNEL.forward, KERNEL.backward
