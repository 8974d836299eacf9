"""Selective scans; see native/include/slicekit_selective.h, which this mirrors."""

from typing import ClassVar

from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import WORK, Kernel, addresses, plain, sizes
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
    inputs, state = operands[2], operands[5]
    results = (
        inputs.new_empty(inputs.shape),
        state.new_empty(state.shape),
        inputs.new_empty(start_shape(inputs, state.shape[-1])),
    )
    _call("forward", operands, lengths, dict(zip(RESULTS, results, strict=True)))
    return results


def backward(
    operands: list[Tensor],
    lengths: Tensor | None,
    starts: Tensor,
    in_outputs: Tensor,
    in_last: Tensor,
) -> list[Tensor]:
    """The gradients of the operands, of those of outputs and last state."""
    gradients = [x.new_empty(x.shape) for x in operands]
    if not len(operands[2]):
        gradients[1].zero_()
    given = {"starts": starts, "in_outputs": in_outputs, "in_last": in_last}
    arrays = {name: plain(x) for name, x in given.items()}
    _call("backward", operands, lengths, arrays | dict(zip(GRADIENTS, gradients, strict=True)))
    return gradients


def _call(
    direction: str, operands: list[Tensor], lengths: Tensor | None, others: dict[str, Tensor]
) -> None:
    """Run a task; `others` are contiguous tensors under the task's names."""
    arrays = {name: plain(x) for name, x in zip(OPERANDS, operands, strict=True)} | others
    if lengths is not None:
        arrays["lengths"] = lengths.contiguous()
    inputs = arrays["inputs"]
    dim = arrays["state"].shape[-1]
    task = Task(inputs.itemsize, *inputs.shape, dim, threads(16 * dim * inputs.numel()))
    KERNEL.call(direction, task, arrays)
