"""The sLSTM's recurrence: the mirror of native/include/slicekit_slstm.h."""

from typing import Any, ClassVar

from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import Differentiable, fields
from slicekit.native.library import unsuited

KEPT = 5
"""Numbers for each unit and step that the backward pass needs."""

SIZES = ("real", "batch", "length", "heads", "dim", "threads")
STATE = ("hidden", "cell", "normaliser", "stabiliser")
OPERANDS = ("filtered", "x", "gates", "recurrent", "bias", *STATE)
LAST = tuple(f"last_{name}" for name in STATE)


class Task(kernel.Task):
    """`slicekit_slstm` of slicekit_slstm.h; `keep` says whether a backward pass follows."""

    operands = (*OPERANDS, "lengths")
    results = ("outputs", *LAST, "kept")
    cotangents = ("in_outputs", *(f"in_{name}" for name in LAST))
    whole = ("lengths",)
    _fields_: ClassVar = fields(SIZES, OPERANDS, results, cotangents, whole)
    keep = True

    @classmethod
    def sizes_of(cls, keep: bool, filtered: Tensor, *_: Any) -> dict[str, Any]:
        """Of inputs (batch, length, heads, dim)."""
        named = zip(SIZES, (filtered.itemsize, *filtered.shape), strict=False)
        return {"keep": keep, **dict(named)}

    def cost(self) -> int:
        """A product with two matrices for each gate, step and head."""
        return 8 * self.batch * self.length * self.heads * self.dim**2

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of operands and results; nothing is kept unless a backward pass follows.

        Lengths are in 0..length, and outputs zero past them.
        """
        batch, length, heads, dim = self.batch, self.length, self.heads, self.dim
        lanes = 64 // self.real
        kept = (heads, batch, length, KEPT, -(-dim // lanes) * lanes)
        return {
            **dict.fromkeys(("filtered", "x", "outputs"), (batch, length, heads, dim)),
            **dict.fromkeys((*STATE, *LAST), (batch, heads, dim)),
            "gates": (heads, 4, dim, dim),
            "recurrent": (heads, dim, 4, dim),
            "bias": (heads, 4, dim),
            "lengths": (batch,),
            "kept": kept if self.keep else (0,),
        }


KERNEL = Differentiable("slstm", "slicekit_slstm_{way}_work", Task)


def obstacle(x: Tensor) -> str | None:
    """Why there is no kernel for tensors of this dtype on this device; None if there is."""
    return unsuited(x)
