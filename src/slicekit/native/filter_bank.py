"""Pooled banks of dilated filters: the mirror of native/include/slicekit_filter_bank.h."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from slicekit.native import kernel
from slicekit.native.kernel import WORK, Expected, Kernel, addresses, plain, sizes
from slicekit.native.library import available, reason

SIZES = (
    *("cases", "channels", "history", "length", "groups", "filters", "dilation"),
    *("stretched", "threads"),
)
OPERANDS = ("x", "lengths", "begun", "mixes", "weights", "thresholds")
SUMS = ("pools", "leaders", "stretches")

KERNEL = Kernel("filter_bank", "slicekit_filter_bank_work")


class Task(kernel.Task):
    """`slicekit_filter_bank` of slicekit_filter_bank.h."""

    _fields_: ClassVar = [*sizes(*SIZES), *addresses(*OPERANDS, *SUMS), *WORK]

    def expected(self) -> dict[str, Expected]:
        """The shape and dtype of each array, from the sizes."""
        cases, groups, filters = self.cases, self.groups, self.filters
        real, whole, wide = torch.float32, torch.int64, torch.float64
        return {
            "x": ((cases, self.channels, self.history + self.length), real),
            "lengths": ((cases,), whole),
            "begun": ((cases,), whole),
            "mixes": ((groups, self.channels), real),
            "weights": ((groups, filters, 9), real),
            "thresholds": ((groups, filters, 4), real),
            "pools": ((cases, groups, filters, 7), wide),
            "leaders": ((cases, groups, 2, filters), wide),
            "stretches": ((cases, groups, self.stretched, 5), wide),
        }


def obstacle() -> str | None:
    """Why there is no kernel; None if there is."""
    return None if available() else reason()


def pool(
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
    kept = {name: plain(operands[name]) for name in OPERANDS}
    x, weights = kept["x"], kept["weights"]
    if x.shape[2] == history:
        return
    cases, channels, steps = x.shape
    groups, filters = weights.shape[:2]
    task = Task(
        *(cases, channels, history, steps - history, groups, filters, dilation),
        *(sums["stretches"].shape[2], threads),
    )
    KERNEL.call("pool", task, {**kept, **sums})
