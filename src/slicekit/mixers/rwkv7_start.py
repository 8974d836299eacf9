"""How the parameters of RWKV-7 start: along the channels, along a head, along the layers.

Glossary:
    linear  linear  from -1/2 to 1/2 along the channels
    zigzag  zigzag  from -1 to 1 along each head, as a signed square
    depth           how far up the stack a layer is, from 0 to 1

Constants are those of the authors' training code.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from slicekit.checks import check_whole

EXPONENTS = {"receptance": 0.2, "decay": 0.9, "keys": 0.7, "values": 0.7, "rate": 0.9, "gate": 0.2}
"""How the shift of each map starts along the channels: 1 - (i / width)^exponent."""


@dataclass(frozen=True)
class Places:
    """How the authors' parameters start, along the channels and the layers."""

    width: int
    head_dim: int
    layer: int
    depth: int

    def linear(self) -> Tensor:
        """From -1/2 to 1/2 along all channels."""
        return torch.arange(self.width) / max(self.width - 1, 1) - 0.5

    def zigzag(self) -> Tensor:
        """From -1 to 1 along each head, as a signed square."""
        half = max(self.head_dim - 1, 1) / 2
        place = (torch.arange(self.width) % self.head_dim - (self.head_dim - 1) / 2) / half
        return place * place.abs()

    def shifts(self) -> Tensor:
        """(6, width), in the order of EXPONENTS."""
        share = torch.arange(self.width) / self.width
        nearness = 1 - self.layer / self.depth
        return torch.stack([1 - share ** (nearness * power) for power in EXPONENTS.values()])

    def decay(self) -> Tensor:
        """Bias of the map to the decays, (width,)."""
        depth = self.layer / max(self.depth - 1, 1)
        rise = (self.linear() + 0.5) ** (1 + depth**0.3)
        return -5.5 + 6 * rise + 2.5 * self.zigzag()

    def rate(self) -> Tensor:
        """Bias of the map to the rates, (width,)."""
        return -0.19 + 0.3 * self.zigzag() + 0.4 * self.linear()

    def residual(self) -> Tensor:
        """Bias of the map to the residual's weights, (width,)."""
        return 0.73 - 0.4 * self.linear()

    def removal(self) -> Tensor:
        """Weights of the removed key, (width,)."""
        return 0.71 - 0.1 * self.linear()


def chosen_rank(name: str, rank: int | None, about: float) -> int:
    """The rank that was asked for, or the multiple of 32 nearest to another size, but not 0."""
    if rank is not None:
        check_whole(name, rank)
        return rank
    return max(32, round(about / 32) * 32)


def uniform_map(width: int, bound: float) -> nn.Linear:
    """A map without bias, its weights uniform within a bound."""
    linear = nn.Linear(width, width, bias=False)
    nn.init.uniform_(linear.weight, -bound, bound)
    return linear
