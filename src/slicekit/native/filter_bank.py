"""Pooled banks of dilated filters: the mirror of native/include/slicekit_filter_bank.h."""

import ctypes
from collections.abc import Mapping

import torch
from torch import Tensor

from slicekit.native.library import check, library

SIZES = (
    *("cases", "channels", "history", "length", "groups", "filters", "dilation"),
    *("stretched", "threads"),
)
OPERANDS = ("x", "lengths", "begun", "mixes", "weights", "thresholds")
SUMS = ("pools", "leaders", "stretches")


class Task(ctypes.Structure):
    """`slicekit_filter_bank` of slicekit_filter_bank.h."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in SIZES),
        *((name, ctypes.c_void_p) for name in (*OPERANDS, *SUMS, "work")),
        ("work_bytes", ctypes.c_int64),
    ]


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
    loaded = library()
    assert loaded is not None
    try:
        measure, run = loaded.c.slicekit_filter_bank_work, loaded.c.slicekit_filter_bank_pool
    except AttributeError as error:
        raise OSError(
            f"{loaded.path} is older than this slicekit: it has no filter banks; install it again"
        ) from error
    measure.restype = run.restype = ctypes.c_int64
    kept = {name: operands[name].resolve_neg().contiguous() for name in OPERANDS}
    x, weights, stretches = kept["x"], kept["weights"], sums["stretches"]
    if x.shape[2] == history:
        return
    for name, array in {**kept, **sums}.items():
        kind = (
            torch.int64
            if name in ("lengths", "begun")
            else torch.float64
            if name in SUMS
            else torch.float32
        )
        if array.dtype != kind or not array.is_contiguous() or array.device.type != "cpu":
            raise TypeError(
                f"{name} is {array.dtype} on {array.device}; expected {kind}, contiguous"
            )
    cases, channels, steps = x.shape
    groups, filters = weights.shape[:2]
    shapes = {
        "lengths": (cases,),
        "begun": (cases,),
        "mixes": (groups, channels),
        "weights": (groups, filters, 9),
        "thresholds": (groups, filters, 4),
        "pools": (cases, groups, filters, 7),
        "leaders": (cases, groups, 2, filters),
        "stretches": (cases, groups, stretches.shape[2], 5),
    }
    for name, shape in shapes.items():
        own = tuple((kept | dict(sums))[name].shape)
        if own != shape:
            raise ValueError(f"{name} has shape {own}; expected {shape}")
    task = Task(
        *(cases, channels, history, steps - history, groups, filters, dilation),
        *(stretches.shape[2], threads),
    )
    for name, array in {**kept, **sums}.items():
        setattr(task, name, array.data_ptr())
    work = torch.empty(max(measure(ctypes.byref(task)), 0), dtype=torch.uint8)
    task.work, task.work_bytes = work.data_ptr(), work.numel()
    check(run(ctypes.byref(task)), "slicekit_filter_bank_pool")
