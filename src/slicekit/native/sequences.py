"""What mixers do along whole sequences, by kernels of their own.

`SELECTIVE` is the selective scan of S6 and Mamba, `SLSTM` the sLSTM's recurrence with the products
before it, `SHORT_CONVOLUTION` a causal convolution. The structs mirror those of
native/include/slicekit_selective.h, slicekit_slstm.h and slicekit_short_convolution.h.
"""

from typing import Any, ClassVar

from torch import Tensor

from slicekit.native.kernel import Differentiable, Task, fields
from slicekit.native.library import unsuited

CHUNK = 64
"""Steps of a selective scan between two states that are stored."""

KEPT = 5
"""Numbers for each unit and step of an sLSTM that its backward pass needs."""


class Selective(Task):
    """`slicekit_selective` of slicekit_selective.h; lengths are in 0..length."""

    operands: ClassVar = {
        "steps": "batch length channels",
        "rates": "channels dim",
        "inputs": "batch length channels",
        "left": "batch length dim",
        "readout": "batch length dim",
        "state": "batch channels dim",
        "lengths": "batch",
    }
    results: ClassVar = {
        "outputs": "batch length channels",
        "last": "batch channels dim",
        "starts": "",
    }
    cotangents, whole = ("in_outputs", "in_last"), ("lengths",)
    multiplications = "16 batch length channels dim"
    _fields_: ClassVar = fields(
        "real batch length channels dim threads", operands, results, cotangents, whole
    )

    @classmethod
    def shapes(cls, sizes: Any) -> dict[str, tuple[int, ...]]:
        """`starts` are states that the others are made from again."""
        width = 64 // sizes.real
        numbers = sizes.dim * -(-sizes.channels // width) * width
        starts = (sizes.batch, -(-sizes.length // CHUNK), numbers)
        return super().shapes(sizes) | {"starts": starts}


STATE = ("hidden", "cell", "normaliser", "stabiliser")
LAST = tuple(f"last_{name}" for name in STATE)


class ScalarLSTM(Task):
    """`slicekit_slstm` of slicekit_slstm.h; `keep` says whether a backward pass follows.

    Lengths are in 0..length, and outputs zero past them.
    """

    settings = ("keep",)
    operands: ClassVar = {
        "filtered": "batch length heads dim",
        "x": "batch length heads dim",
        "gates": "heads 4 dim dim",
        "recurrent": "heads dim 4 dim",
        "bias": "heads 4 dim",
        **dict.fromkeys(STATE, "batch heads dim"),
        "lengths": "batch",
    }
    results: ClassVar = {
        "outputs": "batch length heads dim",
        **dict.fromkeys(LAST, "batch heads dim"),
        "kept": "",
    }
    cotangents = ("in_outputs", *(f"in_{name}" for name in LAST))
    whole = ("lengths",)
    multiplications = "8 batch length heads dim dim"
    _fields_: ClassVar = fields(
        "real batch length heads dim threads", operands, results, cotangents, whole
    )
    keep = True

    @classmethod
    def shapes(cls, sizes: Any) -> dict[str, tuple[int, ...]]:
        """Nothing is kept unless a backward pass follows."""
        lanes = 64 // sizes.real
        kept = (sizes.heads, sizes.batch, sizes.length, KEPT, -(-sizes.dim // lanes) * lanes)
        return super().shapes(sizes) | {"kept": kept if sizes.keep else (0,)}


class ShortConvolution(Task):
    """`slicekit_short_convolution` of slicekit_short_convolution.h; SiLU may be the activation."""

    settings = ("activation",)
    operands: ClassVar = {
        "x": "batch length channels",
        "window": "",
        "weight": "channels 1 size",
        "bias": "channels",
    }
    results: ClassVar = {"outputs": "batch length channels"}
    cotangents = ("in_outputs",)
    _fields_: ClassVar = fields(
        "real batch length channels size activation threads", operands, results, cotangents
    )

    @classmethod
    def cost(cls, sizes: Any) -> int:
        """A tap each, and the activation."""
        return sizes.batch * sizes.length * sizes.channels * (sizes.size + 8)

    @classmethod
    def shapes(cls, sizes: Any) -> dict[str, tuple[int, ...]]:
        """The window are the elements before."""
        return super().shapes(sizes) | {"window": (sizes.batch, sizes.size - 1, sizes.channels)}


SELECTIVE = Differentiable("selective", "slicekit_selective_{way}_work", Selective)
SLSTM = Differentiable("slstm", "slicekit_slstm_{way}_work", ScalarLSTM)
SHORT_CONVOLUTION = Differentiable(
    "short_convolution", "slicekit_short_convolution_work", ShortConvolution
)


def no_convolution(x: Tensor) -> str | None:
    """Why there is no kernel for such inputs (batch, length, channels); None if there is."""
    return unsuited(x) if x.shape[1] > 0 else "there are no elements"
