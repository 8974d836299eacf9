"""What mixers and estimators do along whole sequences, by kernels of their own.

`SELECTIVE` is the selective scan of S6 and Mamba, `SLSTM` the sLSTM's recurrence with the products
before it, `SHORT_CONVOLUTION` a causal convolution, and `pool_filters` pools banks of dilated
filters. The structs mirror those of native/include/slicekit_selective.h, slicekit_slstm.h,
slicekit_short_convolution.h and slicekit_filter_bank.h.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from slicekit.native.kernel import (
    WORK,
    Differentiable,
    Expected,
    Kernel,
    Task,
    addresses,
    fields,
    plain,
    sizes,
)
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


SELECTIVE = Differentiable("selective", "{way}_work", Selective)
SLSTM = Differentiable("slstm", "{way}_work", ScalarLSTM)
SHORT_CONVOLUTION = Differentiable("short_convolution", "work", ShortConvolution)


def no_convolution(x: Tensor) -> str | None:
    """Why there is no kernel for such inputs (batch, length, channels); None if there is."""
    return unsuited(x) if x.shape[1] > 0 else "there are no elements"


class FilterBank(Task):
    """`slicekit_filter_bank` of slicekit_filter_bank.h, in float32 with sums in float64."""

    operands: ClassVar = {
        "x": "cases channels",
        "lengths": "cases",
        "begun": "cases",
        "mixes": "groups channels",
        "weights": "groups filters 9",
        "thresholds": "groups filters 4",
    }
    results: ClassVar = {
        "pools": "cases groups filters 7",
        "leaders": "cases groups 2 filters",
        "stretches": "cases groups stretched 5",
    }
    whole = ("lengths", "begun")
    _fields_: ClassVar = [
        *sizes("cases", "channels", "history", "length", "groups", "filters", "dilation"),
        *sizes("stretched", "threads"),
        *addresses(*operands, *results),
        *WORK,
    ]
    real = 4

    def expected(self) -> dict[str, Expected]:
        """The steps of x are those before and those that count."""
        shapes, expected = self.shapes(self), super().expected()
        sums: dict[str, Expected] = {name: (shapes[name], torch.float64) for name in self.results}
        return expected | sums | {"x": ((*shapes["x"], self.history + self.length), torch.float32)}


FILTER_BANK = Kernel("filter_bank", "work")


def pool_filters(
    operands: Mapping[str, Tensor],
    sums: Mapping[str, Tensor],
    *,
    dilation: int,
    history: int,
    threads: int,
) -> None:
    """Add the pools of some steps to those that came before.

    Args:
        operands: x (cases, channels, history + length), mixes (groups, channels), weights (groups,
            filters, 9) and thresholds (groups, filters, 4) in float32; in int64 lengths (cases,),
            the steps that count, and begun (cases,), those that came before.
        sums: pools (cases, groups, filters, 7), leaders (cases, groups, 2, filters) and stretches
            (cases, groups, stretched, 5) in float64; they are changed.
        dilation: steps from one tap to the next.
        history: how many steps of x are those before, 0 or at least 8 dilation.
        threads: how many to use.
    """
    arrays = {name: plain(operands[name]) for name in FilterBank.operands} | dict(sums)
    (cases, channels, steps), (groups, filters, _) = arrays["x"].shape, arrays["weights"].shape
    if steps == history:
        return
    stretched = arrays["stretches"].shape[2]
    bank = (cases, channels, history, steps - history, groups, filters, dilation, stretched)
    FILTER_BANK.call("pool", FilterBank(*bank, threads), arrays)
