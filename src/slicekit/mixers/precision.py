"""In which precision to compute: that of an input, or the most exact one of a device."""

import torch
from torch import Tensor, nn
from torch.func import functional_call


def called_in(layer: nn.Module, x: Tensor) -> Tensor:
    """A module in the dtype of its input, with its hooks and whatever else a call of it does.

    >>> called_in(nn.Linear(3, 2), torch.zeros(4, 3, dtype=torch.float64)).dtype
    torch.float64
    """
    cast = {
        name: p.to(x.dtype)
        for name, p in layer.named_parameters()
        if p.is_floating_point() and p.dtype != x.dtype
    }
    return functional_call(layer, cast, (x,)) if cast else layer(x)


def most_exact(device: torch.device) -> torch.dtype:
    """Double precision, or single precision on a device that has no other.

    >>> most_exact(torch.device("cpu")), most_exact(torch.device("mps"))
    (torch.float64, torch.float32)
    """
    return torch.float32 if device.type == "mps" else torch.float64
