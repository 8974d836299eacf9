"""Several tensors in one message: a row of real numbers, and back."""

from collections.abc import Sequence

import torch
from torch import Tensor


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """One row of numbers, in the real dtype of the first tensor; whole numbers must fit into it."""
    real = tensors[0].dtype.to_real()
    return torch.cat([_real(x).reshape(-1).to(real) for x in tensors])


def unpack(row: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of a row, with shapes and dtypes of others."""
    sizes = [x.numel() * (2 if x.is_complex() else 1) for x in like]
    tensors = []
    for part, x in zip(row.split(sizes), like, strict=True):
        if x.is_complex():
            tensors.append(torch.view_as_complex(part.reshape(*x.shape, 2)).to(x.dtype))
        else:
            tensors.append(part.view(x.shape).to(x.dtype))
    return tensors


def _real(x: Tensor) -> Tensor:
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
