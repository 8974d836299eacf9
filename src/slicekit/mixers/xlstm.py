"""The residual blocks of xLSTM, and the stack xLSTM[1:1] that alternates them.

Names here and in the paper (Beck et al. 2024, section 2.4 and appendix A.4):
    MLSTMBlock      "pre up-projection": x + mLSTM(LN(x)), the maps up and down are in the mixer
    SLSTMBlock      "post up-projection": the same with an sLSTM, then x + FF(LN(x))
    GatedFeedForward    W_down (GELU(W_gate x) * W_up x), of inner size 4/3 of the width
    xlstm_blocks    xLSTM[1:1]
"""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from slicekit.checks import Lengths, check_positive
from slicekit.layers.state import State
from slicekit.mixers.arguments import check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.headwise import depth_init, rounded_up, small_init
from slicekit.mixers.mlstm import MLSTM
from slicekit.mixers.precision import called_in
from slicekit.mixers.slstm import SLSTM, PowerLaw, Spaced
from slicekit.paths import mask_past_end


class GatedFeedForward(nn.Module):
    """Two maps up, one through GELU as the gate of the other, and one down.

    Args:
        width: size of inputs and outputs.
        expansion: inner size over width.
        multiple: the inner size is rounded up to a multiple of this.
        blocks: number of blocks in the stack, for the initialisation of the map down.

    Example:
        >>> import torch
        >>> GatedFeedForward(8)(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(
        self, width: int, expansion: float = 4 / 3, multiple: int = 64, blocks: int = 1
    ) -> None:
        """Draw the weights."""
        super().__init__()
        check_sizes(width=width, multiple=multiple, blocks=blocks)
        check_positive("expansion", expansion)
        inner = rounded_up(expansion * width, multiple)
        self.up = nn.Linear(width, 2 * inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        small_init(self.up.weight, width)
        depth_init(self.down.weight, width, blocks)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width) -> (..., width)."""
        gate, value = called_in(self.up, x).chunk(2, -1)
        return called_in(self.down, functional.gelu(gate) * value)


class _PreNormBlock(nn.Module):
    """A mixer and perhaps a feed-forward part, each on a layer norm and with a skip connection."""

    mixer: Mixer
    feedforward: nn.Module | None
    norm: nn.Module
    norm_feedforward: nn.Module

    def forward(
        self,
        x: Tensor,
        state: State | None = None,
        lengths: Lengths | None = None,
        return_state: bool = False,
    ) -> Any:
        """x (batch, length, width) -> (batch, length, width); the rest as for a mixer."""
        if lengths is not None:
            x = mask_past_end(x, lengths)
        mixed, state = self.mixer(self.norm(x), state, lengths, True)
        y = self._after(x, mixed)
        return (y, state) if return_state else y

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One element: x (batch, width) -> (batch, width), and the state after it."""
        mixed, after = self.mixer.step(self.norm(x), state)
        return self._after(x, mixed), after

    def _after(self, x: Tensor, mixed: Tensor) -> Tensor:
        y = x + mixed
        if self.feedforward is None:
            return y
        return y + self.feedforward(self.norm_feedforward(y))


class MLSTMBlock(_PreNormBlock):
    """x + mLSTM(layer norm of x).

    Args:
        width: size of inputs and outputs.
        heads, kernel, expand, qkv_block, multiple, bias, dropout, blocks: as for `MLSTM`.

    Otherwise than in the authors' package, the norm keeps its scales w, not w - 1.

    Example:
        >>> import torch
        >>> MLSTMBlock(8)(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(
        self,
        width: int,
        heads: int = 4,
        kernel: int = 4,
        expand: float = 2.0,
        qkv_block: int = 4,
        multiple: int = 64,
        bias: bool = False,
        dropout: float = 0.0,
        blocks: int = 1,
    ) -> None:
        """Build the norm and the mixer."""
        super().__init__()
        check_sizes(width=width)
        self.width = width
        self.norm, self.norm_feedforward = nn.LayerNorm(width, bias=False), nn.Identity()
        self.feedforward = None
        self.mixer = MLSTM(width, heads, kernel, expand, qkv_block, multiple, bias, dropout, blocks)

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this block again, but for its parameters."""
        return self.mixer.configuration()


class SLSTMBlock(_PreNormBlock):
    """y = x + sLSTM(layer norm of x); y + feed-forward(layer norm of y).

    Args:
        width: size of inputs and outputs.
        heads, kernel, forget_bias, recurrent_bound, dropout: as for `SLSTM`.
        expansion: inner size of the feed-forward part over width, or None to leave it out.
        multiple: that inner size is rounded up to a multiple of this.
        blocks: number of blocks in the stack, for the initialisation of the feed-forward part.

    Otherwise than in the authors' package, the feed-forward part has no dropout of its own, and the
    norms keep their scales w, not w - 1.

    Example:
        >>> import torch
        >>> SLSTMBlock(8)(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(
        self,
        width: int,
        heads: int = 4,
        kernel: int = 4,
        forget_bias: PowerLaw | Spaced = PowerLaw(),
        recurrent_bound: float = 0.0,
        dropout: float = 0.0,
        expansion: float | None = 4 / 3,
        multiple: int = 64,
        blocks: int = 1,
    ) -> None:
        """Build the norms, the mixer and the feed-forward part."""
        super().__init__()
        check_sizes(width=width, multiple=multiple, blocks=blocks)
        self.width, self.expansion, self.multiple, self.blocks = width, expansion, multiple, blocks
        self.norm, self.norm_feedforward = nn.LayerNorm(width, bias=False), nn.Identity()
        self.mixer = SLSTM(width, heads, kernel, forget_bias, recurrent_bound, dropout)
        self.feedforward = None
        if expansion is not None:
            self.norm_feedforward = nn.LayerNorm(width, bias=False)
            self.feedforward = GatedFeedForward(width, expansion, multiple, blocks)

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this block again, but for its parameters."""
        return self.mixer.configuration() | {
            "expansion": self.expansion,
            "multiple": self.multiple,
            "blocks": self.blocks,
        }


def xlstm_blocks(
    width: int,
    layers: int,
    heads: int = 4,
    kernel: int = 4,
    expand: float = 2.0,
    qkv_block: int = 4,
    expansion: float | None = 4 / 3,
    multiple: int = 64,
    dropout: float = 0.0,
) -> list[nn.Module]:
    """The blocks of xLSTM[1:1]: mLSTM and sLSTM in turn, initialised by their place in the stack.

    Args:
        width: size of inputs and outputs.
        layers: number of blocks.
        heads, kernel: of both kinds.
        expand, qkv_block: of the mLSTM.
        expansion: of the sLSTM's feed-forward part, or None to leave it out.
        multiple: inner sizes are rounded up to a multiple of this.
        dropout: probability, in every mixer.

    Example:
        >>> import torch
        >>> from slicekit import SequenceModel
        >>> model = SequenceModel(
        ...     vocabulary=5, outputs=5, width=8, blocks=xlstm_blocks(8, layers=2), final_norm=True
        ... )
        >>> model(torch.randint(5, (2, 7))).shape
        torch.Size([2, 7, 5])
    """
    check_sizes(layers=layers)
    return [
        SLSTMBlock(
            width,
            heads,
            kernel,
            PowerLaw(place, layers),
            dropout=dropout,
            expansion=expansion,
            multiple=multiple,
            blocks=layers,
        )
        if place % 2
        else MLSTMBlock(
            width,
            heads,
            kernel,
            expand,
            qkv_block,
            multiple,
            dropout=dropout,
            blocks=layers,
        )
        for place in range(layers)
    ]
