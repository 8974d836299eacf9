"""Selective scans; see native/include/slicekit_selective.h, which this mirrors."""

from typing import Any, ClassVar

from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import Differentiable, fields
from slicekit.native.library import unsuited

CHUNK = 64
"""Steps between two states that are stored."""

SIZES = ("real", "batch", "length", "channels", "dim", "threads")
OPERANDS = ("steps", "rates", "inputs", "left", "readout", "state")


class Task(kernel.Task):
    """`slicekit_selective` of slicekit_selective.h."""

    operands = (*OPERANDS, "lengths")
    results = ("outputs", "last", "starts")
    cotangents = ("in_outputs", "in_last")
    whole = ("lengths",)
    _fields_: ClassVar = fields(SIZES, OPERANDS, results, cotangents, whole)

    @classmethod
    def sizes_of(cls, steps: Tensor, rates: Tensor, *_: Any) -> dict[str, Any]:
        """Of steps (batch, length, channels) and rates (channels, dim)."""
        named = zip(SIZES, (steps.itemsize, *steps.shape, rates.shape[-1]), strict=False)
        return dict(named)

    def cost(self) -> int:
        """Some for each number of a state."""
        return 16 * self.batch * self.length * self.channels * self.dim

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of operands and results; `starts` are states that the others are made from again.

        Lengths are in 0..length.
        """
        batch, length, channels, dim = self.batch, self.length, self.channels, self.dim
        width = 64 // self.real
        return {
            **dict.fromkeys(("steps", "inputs", "outputs"), (batch, length, channels)),
            **dict.fromkeys(("left", "readout"), (batch, length, dim)),
            **dict.fromkeys(("state", "last"), (batch, channels, dim)),
            "lengths": (batch,),
            "rates": (channels, dim),
            "starts": (batch, -(-length // CHUNK), dim * -(-channels // width) * width),
        }


KERNEL = Differentiable("selective", "slicekit_selective_{way}_work", Task)


def obstacle(inputs: Tensor) -> str | None:
    """Why there is no kernel for tensors of this dtype on this device; None if there is."""
    return unsuited(inputs)
