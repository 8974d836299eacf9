"""An exponential for the loops by hand, whose derivative holds for large gradients too."""

import torch
from torch import Tensor


def exponential(matrices: Tensor) -> Tensor:
    """Scaling and squaring of a Taylor polynomial, which torch differentiates step by step.

    The derivative of torch.matrix_exp scales its argument by the size of the gradient, and loses as
    many digits as that has.
    """
    small = matrices / 2**10
    term = found = torch.eye(matrices.shape[-1], dtype=matrices.dtype).expand_as(matrices)
    for power in range(1, 14):
        term = term @ small / power
        found = found + term
    for _ in range(10):
        found = found @ found
    return found
