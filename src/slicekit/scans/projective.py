"""Projective states: direction and log-norm, carried apart.

A linear recurrence only scales, so dividing the state by any positive number along the way changes
neither its direction nor, once the logarithms are added up, its log-norm. Nor does it change their
gradients: both are functions of the state that forget such a factor. So scans divide by what suits
them, and the result is exact at any length.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.checks import check_tensor


@dataclass(frozen=True, eq=False)
class Projective:
    """A state (or states) h = exp(log_norm) * direction with unit columns.

    Args:
        direction: (..., dim), or (..., dim, columns) for matrix states.
        log_norm: (...), or (..., columns).

    Example:
        >>> Projective.of(torch.tensor([[3.0, 4.0]])).direction
        tensor([[0.6000, 0.8000]])
    """

    direction: Tensor
    log_norm: Tensor

    @classmethod
    def of(cls, state: Tensor, *, matrix: bool = False) -> "Projective":
        """Split a plain state (batch, dim), or with matrix=True (batch, dim, columns)."""
        check_tensor("state", state)
        columns = state if matrix else state.unsqueeze(-1)
        direction, log_norm = normalise(columns)
        if matrix:
            return cls(direction, log_norm)
        return cls(direction.squeeze(-1), log_norm.squeeze(-1))


def normalise(state: Tensor) -> tuple[Tensor, Tensor]:
    """Unit columns and the logarithms of their norms, of state (..., dim, columns).

    A column of zeros stays zero, with the logarithm of the smallest positive number.
    """
    largest = size(state)
    scaled = state / largest
    norm = torch.linalg.vector_norm(scaled, dim=-2, keepdim=True)
    zero = norm == 0
    norm = norm.masked_fill(zero, 1)
    log_norm = norm.log() + largest.log()
    log_norm = log_norm.masked_fill(zero, math.log(torch.finfo(norm.dtype).tiny))
    return scaled / norm, log_norm.squeeze(-2)


def size(state: Tensor) -> Tensor:
    """Largest modulus of each column, one for a column of zeros: what a state may be divided by.

    Unlike the norm, it neither overflows nor underflows. It counts as a constant.
    """
    largest = state.detach().abs().amax(-2, keepdim=True)
    return largest.masked_fill(largest == 0, 1)
