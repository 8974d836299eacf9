"""Hyperbolic tangents of parameters: the mirror of native/include/slicekit_tanh.h."""

from typing import ClassVar

import torch
from torch import Tensor

from slicekit.native.kernel import WORK, Differentiable, Task, addresses, sizes

FEWEST = 2**14
"""Numbers from which on the kernel, over three times as fast as torch, makes up for its call."""


class Tanh(Task):
    """`slicekit_tanh` of slicekit_tanh.h; the batch are its numbers."""

    operands: ClassVar = {"x": "batch"}
    results: ClassVar = {"y": "batch"}
    multiplications = "32 batch"
    _fields_: ClassVar = [*sizes("real", "batch", "threads"), *addresses("x", "y"), *WORK]


KERNEL = Differentiable("tanh", "work", Tanh)


def forward(x: Tensor) -> Tensor:
    """tanh x, of float32 or float64 on the CPU, contiguous and of any shape."""
    if x.numel() < FEWEST:
        return torch.tanh(x)
    return KERNEL.forward([x.view(-1)])[0].view(x.shape)


def pullback(y: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of x from that of y = tanh x, all of one shape; torch's is as fast as any."""
    return torch.ops.aten.tanh_backward(gradient, y)
