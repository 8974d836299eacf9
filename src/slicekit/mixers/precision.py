"""In which precision to compute: that of an input, or the most exact one of a device."""

import torch
from torch import Tensor, nn
from torch.nn import functional


def linear_in(layer: nn.Linear, x: Tensor) -> Tensor:
    """A linear map in the dtype of its input: x (..., in_features) -> (..., out_features).

    >>> linear_in(nn.Linear(3, 2), torch.zeros(4, 3, dtype=torch.float64)).dtype
    torch.float64
    """
    bias = None if layer.bias is None else layer.bias.to(x.dtype)
    return functional.linear(x, layer.weight.to(x.dtype), bias)


def most_exact(device: torch.device) -> torch.dtype:
    """Double precision, or single precision on a device that has no other.

    >>> most_exact(torch.device("cpu")), most_exact(torch.device("mps"))
    (torch.float64, torch.float32)
    """
    return torch.float32 if device.type == "mps" else torch.float64
