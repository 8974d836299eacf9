"""The sLSTM's recurrence: the mirror of native/include/slicekit_slstm.h."""

from typing import ClassVar

from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import WORK, Kernel, addresses, sizes
from slicekit.native.library import unsuited
from slicekit.native.threads import threads

KEPT = 5
"""Numbers for each unit and step that the backward pass needs."""

SIZES = ("real", "batch", "length", "heads", "dim", "threads")
STATE = ("hidden", "cell", "normaliser", "stabiliser")
OPERANDS = ("filtered", "x", "gates", "recurrent", "bias", *STATE)
LAST = tuple(f"last_{name}" for name in STATE)
COTANGENTS = ("in_outputs", *(f"in_{name}" for name in LAST))
GRADIENTS = tuple(f"in_{name}" for name in OPERANDS)

KERNEL = Kernel("slstm", "slicekit_slstm_{way}_work")


class Task(kernel.Task):
    """`slicekit_slstm` of slicekit_slstm.h."""

    _fields_: ClassVar = [
        *sizes(*SIZES),
        *addresses("lengths", *OPERANDS, "outputs", *LAST, "kept", *COTANGENTS, *GRADIENTS),
        *WORK,
    ]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of operands and results."""
        batch, length, heads, dim = self.batch, self.length, self.heads, self.dim
        return {
            **dict.fromkeys(("filtered", "x", "outputs"), (batch, length, heads, dim)),
            **dict.fromkeys((*STATE, *LAST), (batch, heads, dim)),
            "gates": (heads, 4, dim, dim),
            "recurrent": (heads, dim, 4, dim),
            "bias": (heads, 4, dim),
            "kept": _kept_shape((batch, length, heads, dim), self.real),
        }

    def whole(self) -> dict[str, tuple[int, ...]]:
        """Lengths."""
        return {"lengths": (self.batch,)}


def obstacle(x: Tensor) -> str | None:
    """Why there is no kernel for tensors of this dtype on this device; None if there is."""
    return unsuited(x)


def kept_shape(x: Tensor) -> tuple[int, ...]:
    """The shape of what the backward pass needs for inputs (batch, length, heads, dim)."""
    return _kept_shape(x.shape, x.itemsize)


def _kept_shape(x: tuple[int, ...], real: int) -> tuple[int, ...]:
    batch, length, heads, dim = x
    lanes = 64 // real
    return heads, batch, length, KEPT, -(-dim // lanes) * lanes


def forward(operands: list[Tensor], lengths: Tensor | None, keep: bool) -> tuple[Tensor, ...]:
    """Run all steps.

    Args:
        operands: filtered and x (batch, length, heads, dim), gates (heads, 4, dim, dim), recurrent
            (heads, dim, 4, dim), bias (heads, 4, dim), and hidden, cell, normaliser and stabiliser
            (batch, heads, dim), of one dtype on the CPU.
        lengths: (batch,) int64 in 0..length, or None.
        keep: whether a backward pass follows.

    Returns:
        The hidden states (batch, length, heads, dim), zero past the end; the four tensors of the
        last state; and what `backward` needs, which is empty if it is not to be kept.

    Raises:
        RuntimeError: if a length leaves its range.
    """
    names = ("outputs", *LAST, "kept")[: 6 if keep else 5]
    made = KERNEL.make("forward", *_problem(operands, lengths), names)
    return *made.values(), *(() if keep else (operands[1].new_empty(0),))


def backward(
    operands: list[Tensor],
    lengths: Tensor | None,
    results: dict[str, Tensor],
    cotangents: list[Tensor],
) -> list[Tensor]:
    """The gradients of the operands.

    Args:
        operands, lengths: as in `forward`.
        results: its outputs, last_cell, last_normaliser and kept, under these names.
        cotangents: the gradients of the hidden states and of the last state's four tensors.
    """
    task, given = _problem(operands, lengths)
    given |= results | dict(zip(COTANGENTS, cotangents, strict=True))
    return list(KERNEL.make("backward", task, given, GRADIENTS).values())


def _problem(
    operands: list[Tensor], lengths: Tensor | None
) -> tuple[Task, dict[str, Tensor | None]]:
    """The sizes, and what is given, under the task's names."""
    x = operands[1]
    task = Task(x.itemsize, *x.shape, threads(8 * x.numel() * x.shape[-1]))
    return task, dict(zip(OPERANDS, operands, strict=True)) | {"lengths": lengths}
