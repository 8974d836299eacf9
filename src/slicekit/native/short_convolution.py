"""Short causal convolutions: the mirror of native/include/slicekit_short_convolution.h."""

from typing import ClassVar

from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import WORK, Kernel, addresses, sizes
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
    return KERNEL.make("forward", *_problem(operands, activation), ("outputs",))["outputs"]


def backward(
    operands: list[Tensor | None], activation: bool, in_outputs: Tensor
) -> list[Tensor | None]:
    """The gradients of the operands, of that of the outputs."""
    task, given = _problem(operands, activation)
    names = [f"in_{name}" for name in OPERANDS if given[name] is not None]
    made = KERNEL.make("backward", task, given | {"in_outputs": in_outputs}, names)
    return [made.get(name) for name in GRADIENTS]


def _problem(
    operands: list[Tensor | None], activation: bool
) -> tuple[Task, dict[str, Tensor | None]]:
    """The sizes, and what is given, under the task's names."""
    x, _, weight, _ = operands
    assert x is not None and weight is not None
    size = weight.shape[-1]
    task = Task(x.itemsize, *x.shape, size, int(activation), threads(x.numel() * (size + 8)))
    return task, dict(zip(OPERANDS, operands, strict=True))
