"""A network that is trained as a whole: blocks over features, poolings, and a linear head."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.checks import Lengths, check_positive
from slicekit.estimators.structures import BLOCK, check_structure, random_layer
from slicekit.layers import Block, Mean, Pooling, State, States, Wiring
from slicekit.paths import valid_mask
from slicekit.structures import Structure


@dataclass(frozen=True)
class Max(Pooling):
    """The largest value of each channel over all valid positions."""

    def __call__(
        self, x: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """The maximum so far."""
        if lengths is not None:
            past = ~valid_mask(lengths, x.shape[1]).unsqueeze(-1)
            x = x.masked_fill(past, -torch.inf)
        largest = x.amax(1)
        if state is not None:
            largest = torch.maximum(largest, state["max"])
        return largest, State({"max": largest})


@dataclass(frozen=True)
class Recipe:
    """What a network that is trained as a whole is made of.

    Args:
        structure: of the linear CDE in every block; None starts from damped rotations.
        width: size of the blocks.
        layers: how many.
        expansion: of their feed-forward parts.
        dropout: probability.
        mixing: how much the rotations depend on the input at first.
    """

    structure: Structure | None = None
    width: int = 64
    layers: int = 2
    expansion: int = 2
    dropout: float = 0.1
    mixing: float = 0.1

    def __post_init__(self) -> None:
        """Check what the parts would not."""
        for name in ("width", "layers", "expansion"):
            check_positive(name, getattr(self, name))
        check_structure(self.structure)
        if self.structure is None and self.width % BLOCK:
            raise ValueError(f"width={self.width}; expected a multiple of {BLOCK}")

    def build(self, channels: int, outputs: int, length: int) -> "SeriesNetwork":
        """A network with fresh parameters, for series of that length."""
        width, wiring = self.width, Wiring.pre_norm(self.expansion)
        blocks = []
        for _ in range(self.layers):
            mixer = random_layer(width, self.structure, width, length, self.mixing)
            blocks.append(Block(mixer, width, wiring, self.dropout))
        return SeriesNetwork(channels, outputs, width, blocks, (Mean(), Max()), self.dropout)


class SeriesNetwork(nn.Module):
    """A linear embedding, blocks, a norm, poolings side by side and a linear head.

    Args:
        channels: of the features.
        outputs: size of the output.
        width: of the blocks.
        blocks: modules with the contract of `Block`.
        pools: their pooled vectors are joined.
        dropout: on the pooled vector.

    Example:
        >>> network = Recipe(width=8, layers=1).build(channels=3, outputs=2, length=10)
        >>> network(torch.randn(4, 10, 3), lengths=[10, 3, 1, 5]).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        channels: int,
        outputs: int,
        width: int,
        blocks: list[Any],
        pools: tuple[Pooling, ...],
        dropout: float = 0.0,
    ) -> None:
        """Make the parameters."""
        super().__init__()
        self.channels, self.outputs, self.width, self.pools = channels, outputs, width, pools
        self.embedding = nn.Linear(channels, width)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(len(pools) * width, outputs)

    def forward(self, x: Tensor, lengths: Lengths | None = None) -> Tensor:
        """Features (batch, length, channels) -> (batch, outputs)."""
        h = self.embedding(x)
        for block in self.blocks:
            h = block(h, None, lengths)
        h = self.norm(h)
        lengths = None if lengths is None else torch.as_tensor(lengths, device=x.device)
        pooled = [pool(h, None, lengths)[0] for pool in self.pools]
        return self.head(self.dropout(torch.cat(pooled, -1)))

    def step(self, x: Tensor, state: States | None = None) -> tuple[Tensor, States]:
        """One element (batch, channels) -> the output for the series so far, and the state."""
        parts = len(self.blocks) + len(self.pools)
        before: list[Any] = [None] * parts if state is None else list(state)
        after: list[Any] = []
        h: Any = self.embedding(x)
        for block in self.blocks:
            h, layer_state = block.step(h, before[len(after)])  # type: ignore[operator]
            after.append(layer_state)
        h = self.norm(h).unsqueeze(1)
        pooled = []
        for pool in self.pools:
            vector, layer_state = pool(h, before[len(after)])
            pooled.append(vector)
            after.append(layer_state)
        return self.head(self.dropout(torch.cat(pooled, -1))), States(after)

    def is_decayed(self, name: str, parameter: Tensor) -> bool:
        """Whether weights decay: those of matrices; biases, norms and structures go free."""
        return parameter.ndim == 2

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this network again, but for its parameters."""
        return {
            "channels": self.channels,
            "outputs": self.outputs,
            "width": self.width,
            "blocks": list(self.blocks),
            "pools": self.pools,
            "dropout": self.dropout.p,
        }
