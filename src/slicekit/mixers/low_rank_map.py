"""A map of low rank with something between its two factors: LoRA, as RWKV-7 makes its gates."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from slicekit.mixers.arguments import check_sizes


class LowRankMap(nn.Module):
    """x -> W_2 f(W_1 x) + b, which starts as the constant b + W_2 f(0).

    Args:
        width: size of an input and of an output element.
        rank: size of what is between the factors.
        between: f, applied element by element; None for the identity.
        bias: b at the start, (width,); None for a map without it.

    W_1 starts at zero, W_2 with orthogonal rows or columns of length 0.1, and longer where the rank
    exceeds the width.

    Example:
        >>> LowRankMap(3, 2, torch.tanh, torch.ones(3))(torch.randn(4, 3))[0].tolist()
        [1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        width: int,
        rank: int,
        between: Callable[[Tensor], Tensor] | None = None,
        bias: Tensor | None = None,
    ) -> None:
        """Draw W_2."""
        super().__init__()
        check_sizes(width=width, rank=rank)
        self.between = between
        self.first = nn.Linear(width, rank, bias=False)
        self.second = nn.Linear(rank, width, bias=bias is not None)
        nn.init.zeros_(self.first.weight)
        nn.init.orthogonal_(self.second.weight, gain=0.1 * max(1.0, (rank / width) ** 0.5))
        if bias is not None:
            with torch.no_grad():
                self.second.bias.copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        inner = self.first(x)
        return self.second(inner if self.between is None else self.between(inner))
