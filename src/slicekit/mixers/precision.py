"""Linear maps that follow the precision of their input, whatever their weights are kept in."""

from torch import Tensor, nn
from torch.nn import functional


def linear_in(layer: nn.Linear, x: Tensor) -> Tensor:
    """A linear map in the dtype of its input: x (..., in_features) -> (..., out_features).

    >>> import torch
    >>> linear_in(nn.Linear(3, 2), torch.zeros(4, 3, dtype=torch.float64)).dtype
    torch.float64
    """
    bias = None if layer.bias is None else layer.bias.to(x.dtype)
    return functional.linear(x, layer.weight.to(x.dtype), bias)
