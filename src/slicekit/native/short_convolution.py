"""Short causal convolutions: the mirror of native/include/slicekit_short_convolution.h."""

from typing import ClassVar

from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import WORK, Kernel, addresses, plain, sizes
from slicekit.native.library import unsuited
from slicekit.native.threads import threads

SIZES = ("real", "batch", "length", "channels", "size", "activation", "threads")
OPERANDS = ("x", "window", "weight", "bias")
GRADIENTS = tuple(f"in_{name}" for name in OPERANDS)


KERNEL = Kernel("short_convolution", "slicekit_short_convolution_work")


class Task(kernel.Task):
    """`slicekit_short_convolution` of slicekit_short_convolution.h."""

    _fields_: ClassVar = [
        *sizes(*SIZES),
        *addresses(*OPERANDS, "outputs", "in_outputs", *GRADIENTS),
        *WORK,
    ]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of operands and outputs."""
        return {
            **dict.fromkeys(("x", "outputs"), (self.batch, self.length, self.channels)),
            "window": (self.batch, self.size - 1, self.channels),
            "weight": (self.channels, 1, self.size),
            "bias": (self.channels,),
        }


def obstacle(x: Tensor) -> str | None:
    """Why there is no kernel for such inputs (batch, length, channels); None if there is."""
    return unsuited(x) if x.shape[1] > 0 else "there are no elements"


def forward(operands: list[Tensor | None], activation: bool) -> Tensor:
    """Filter along time.

    Args:
        operands: x (batch, length, channels), window (batch, size - 1, channels), weight
            (channels, 1, size) and bias (channels,) or None, of one dtype on the CPU.
        activation: whether SiLU follows.

    Returns:
        (batch, length, channels).
    """
    x = operands[0]
    assert x is not None
    outputs = x.new_empty(x.shape)
    _call("forward", operands, activation, {"outputs": outputs})
    return outputs


def backward(
    operands: list[Tensor | None], activation: bool, in_outputs: Tensor
) -> list[Tensor | None]:
    """The gradients of the operands, of that of the outputs."""
    gradients = [None if x is None else x.new_empty(x.shape) for x in operands]
    x = operands[0]
    assert x is not None
    if not len(x):
        gradients = [None if y is None else y.zero_() for y in gradients]
    named = zip(GRADIENTS, gradients, strict=True)
    arrays = {name: y for name, y in named if y is not None}
    arrays["in_outputs"] = plain(in_outputs)
    _call("backward", operands, activation, arrays)
    return gradients


def _call(
    direction: str, operands: list[Tensor | None], activation: bool, others: dict[str, Tensor]
) -> None:
    """Run a task; `others` are contiguous tensors under the task's names."""
    named = zip(OPERANDS, operands, strict=True)
    arrays = {name: plain(x) for name, x in named if x is not None} | others
    x, size = arrays["x"], arrays["weight"].shape[-1]
    task = Task(x.itemsize, *x.shape, size, int(activation), threads(x.numel() * (size + 8)))
    KERNEL.call(direction, task, arrays)
