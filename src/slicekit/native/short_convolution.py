"""Short causal convolutions: the mirror of native/include/slicekit_short_convolution.h."""

from typing import Any, ClassVar

from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import Differentiable, fields
from slicekit.native.library import unsuited

SIZES = ("real", "batch", "length", "channels", "size", "activation", "threads")


class Task(kernel.Task):
    """`slicekit_short_convolution` of slicekit_short_convolution.h."""

    operands = ("x", "window", "weight", "bias")
    results, cotangents = ("outputs",), ("in_outputs",)
    _fields_: ClassVar = fields(SIZES, operands, results, cotangents)

    @classmethod
    def sizes_of(
        cls, activation: bool, x: Tensor, window: Tensor, weight: Tensor, bias: Any
    ) -> dict[str, Any]:
        """Of x (batch, length, channels) and weight (channels, 1, size); SiLU may follow."""
        given = (x.itemsize, *x.shape, weight.shape[-1], int(activation))
        return dict(zip(SIZES, given, strict=False))

    def cost(self) -> int:
        """A tap each, and the activation."""
        return self.batch * self.length * self.channels * (self.size + 8)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of operands and outputs."""
        return {
            **dict.fromkeys(("x", "outputs"), (self.batch, self.length, self.channels)),
            "window": (self.batch, self.size - 1, self.channels),
            "weight": (self.channels, 1, self.size),
            "bias": (self.channels,),
        }


KERNEL = Differentiable("short_convolution", "slicekit_short_convolution_work", Task)


def obstacle(x: Tensor) -> str | None:
    """Why there is no kernel for such inputs (batch, length, channels); None if there is."""
    return unsuited(x) if x.shape[1] > 0 else "there are no elements"
