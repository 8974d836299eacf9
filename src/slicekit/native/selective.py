"""Selective scans; see native/include/slicekit_selective.h, which this mirrors."""

from typing import ClassVar

from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import WORK, Kernel, addresses, sizes
from slicekit.native.library import unsuited
from slicekit.native.threads import threads

CHUNK = 64
"""Steps between two states that are stored."""

SIZES = ("real", "batch", "length", "channels", "dim", "threads")
OPERANDS = ("steps", "rates", "inputs", "left", "readout", "state")
RESULTS = ("outputs", "last", "starts")
GRADIENTS = tuple(f"in_{name}" for name in OPERANDS)


KERNEL = Kernel("selective", "slicekit_selective_{way}_work")


class Task(kernel.Task):
    """`slicekit_selective` of slicekit_selective.h."""

    _fields_: ClassVar = [
        *sizes(*SIZES),
        *addresses("lengths", *OPERANDS, *RESULTS, "in_outputs", "in_last", *GRADIENTS),
        *WORK,
    ]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of operands and results."""
        batch, length, channels, dim = self.batch, self.length, self.channels, self.dim
        return {
            **dict.fromkeys(("steps", "inputs", "outputs"), (batch, length, channels)),
            **dict.fromkeys(("left", "readout"), (batch, length, dim)),
            **dict.fromkeys(("state", "last"), (batch, channels, dim)),
            "rates": (channels, dim),
            "starts": _start_shape((batch, length, channels), self.real, dim),
        }

    def whole(self) -> dict[str, tuple[int, ...]]:
        """Lengths."""
        return {"lengths": (self.batch,)}


def obstacle(inputs: Tensor) -> str | None:
    """Why there is no kernel for tensors of this dtype on this device; None if there is."""
    return unsuited(inputs)


def start_shape(inputs: Tensor, dim: int) -> tuple[int, ...]:
    """The shape of the states that are stored for inputs (batch, length, channels)."""
    return _start_shape(inputs.shape, inputs.itemsize, dim)


def _start_shape(inputs: tuple[int, ...], real: int, dim: int) -> tuple[int, ...]:
    batch, length, channels = inputs
    width = 64 // real
    return batch, -(-length // CHUNK), dim * -(-channels // width) * width


def forward(operands: list[Tensor], lengths: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Run all steps.

    Args:
        operands: steps, rates, inputs, left, readout, state, of one dtype on the CPU.
        lengths: (batch,) int64 in 0..length, or None.

    Returns:
        Outputs (batch, length, channels), the last state (batch, channels, dim), and what
        `backward` needs to make the other states again.

    Raises:
        RuntimeError: if a length leaves its range.
    """
    outputs, last, starts = KERNEL.make("forward", *_problem(operands, lengths), RESULTS).values()
    return outputs, last, starts


def backward(
    operands: list[Tensor],
    lengths: Tensor | None,
    starts: Tensor,
    in_outputs: Tensor,
    in_last: Tensor,
) -> list[Tensor]:
    """The gradients of the operands, of those of outputs and last state."""
    task, given = _problem(operands, lengths)
    given |= {"starts": starts, "in_outputs": in_outputs, "in_last": in_last}
    return list(KERNEL.make("backward", task, given, GRADIENTS).values())


def _problem(
    operands: list[Tensor], lengths: Tensor | None
) -> tuple[Task, dict[str, Tensor | None]]:
    """The sizes, and what is given, under the task's names."""
    inputs, dim = operands[2], operands[5].shape[-1]
    task = Task(inputs.itemsize, *inputs.shape, dim, threads(16 * dim * inputs.numel()))
    return task, dict(zip(OPERANDS, operands, strict=True)) | {"lengths": lengths}
