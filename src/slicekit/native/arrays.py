"""Arrays for kernels: an address leaves Python once its tensor is what the kernel takes it for."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

REAL = {4: torch.float32, 8: torch.float64}
COMPLEX = {4: torch.complex64, 8: torch.complex128}

Expected: TypeAlias = tuple[tuple[int, ...] | int, torch.dtype]
"""A shape, or a count of numbers in any shape, and a dtype."""


def plain(x: Tensor) -> Tensor:
    """In memory as it reads: no transposition, conjugation or sign that is yet to be applied."""
    if x.is_contiguous() and not x.is_neg() and not x.is_conj():
        return x
    return x.resolve_conj().resolve_neg().contiguous()


def address(name: str, x: Tensor, expected: Expected) -> int:
    """Where the numbers of a tensor begin.

    Raises:
        ValueError: unless it is a plain tensor on the CPU of the expected size and dtype.
    """
    size, dtype = expected
    if fits(x, size, dtype):
        start = x.data_ptr()
        if start or x.numel() == 0:
            return start
        raise ValueError(f"{name} has no memory behind its shape {tuple(x.shape)}")
    wanted = f"{size} numbers" if isinstance(size, int) else f"shape {tuple(size)}"
    raise ValueError(
        f"{name} is {_said(x)}; a kernel takes {wanted} of {dtype} on the CPU, contiguous"
    )


def fits(x: Tensor, size: tuple[int, ...] | int, dtype: torch.dtype) -> bool:
    """Whether it is a plain tensor on the CPU of that shape, or count of numbers, and dtype."""
    return (
        x.dtype is dtype
        and (x.numel() if isinstance(size, int) else x.shape) == size
        and x.is_cpu
        and x.layout is torch.strided
        and x.is_contiguous()
        and not x.is_neg()
        and not (dtype.is_complex and x.is_conj())
    )


def fill(
    struct: Any, expected: Mapping[str, Expected], arrays: Mapping[str, Tensor | None]
) -> None:
    """Set the addresses of arrays by name, null for None; the tensors must outlive the call."""
    for name, x in arrays.items():
        setattr(struct, name, None if x is None else address(name, x, expected[name]))


def _said(x: Tensor) -> str:
    bits = [word for word, bit in (("negative", x.is_neg()), ("conjugate", x.is_conj())) if bit]
    strided = x.layout is torch.strided
    if not strided or not x.is_contiguous():
        bits.append("not contiguous" if strided else str(x.layout))
    told = f"{x.dtype} of shape {tuple(x.shape)} on {x.device}"
    return ", ".join([told, *bits])
