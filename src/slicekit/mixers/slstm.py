"""The sLSTM: scalar memories with exponential gates, which are mixed within each head.

Names here and in the paper (Beck et al. 2024, section 2.2 and figure 10):
    filtered        SiLU of the causal convolution of x, which drives the gates i and f
    gates           W_i, W_f, W_z, W_o, block-diagonal: a map of each head to itself
    recurrent       R_i, R_f, R_z, R_o, block-diagonal as well
    bias            b_i, b_f, b_z, b_o
    hidden, cell, normaliser, stabiliser    h_t, c_t, n_t, m_t; see `slstm_recurrence`
    norm            "GN", a group norm with one group for each head

As in the authors' package: log i is the pre-activation itself, f a sigmoid, R is zero at first, and
the biases of the forget gates follow a power law that depends on a block's place in the stack.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.checks import check_finite, check_whole
from slicekit.layers.state import State
from slicekit.mixers.arguments import check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.convolution import ShortConvolution
from slicekit.mixers.headwise import (
    UNSEEN,
    HeadLayerNorm,
    check_divides,
    check_dropout,
    small_init,
)
from slicekit.mixers.slstm_sequences import slstm_sequences

CARRIED = ("hidden", "cell", "normaliser", "stabiliser")


@dataclass(frozen=True)
class PowerLaw:
    """Forget biases 5 - 12 r^p for r from 0 to 1, where p grows from 0.3 to 1.6 along the stack.

    Args:
        block: place of the block in its stack, from 0.
        blocks: number of blocks.

    Example:
        >>> PowerLaw().biases(3)[[0, -1]]
        tensor([ 5., -7.])
    """

    block: int = 0
    blocks: int = 1

    def __post_init__(self) -> None:
        """Check that the place is in the stack."""
        check_sizes(blocks=self.blocks)
        check_whole("block", self.block, least=0)
        if self.block >= self.blocks:
            raise ValueError(f"block={self.block}; expected 0..{self.blocks - 1} of {self.blocks}")

    def biases(self, dim: int) -> Tensor:
        """The biases of a head of that size."""
        depth = self.block / (self.blocks - 1) if self.blocks > 1 else 0.0
        return 5 - 12 * torch.linspace(0, 1, dim) ** (0.3 + 1.3 * depth)


@dataclass(frozen=True)
class Spaced:
    """Forget biases at equal distances.

    Args:
        low: the first.
        high: the last.

    Example:
        >>> Spaced().biases(4)
        tensor([3., 4., 5., 6.])
    """

    low: float = 3.0
    high: float = 6.0

    def __post_init__(self) -> None:
        """Check that both are numbers."""
        check_finite("low", self.low)
        check_finite("high", self.high)

    def biases(self, dim: int) -> Tensor:
        """The biases of a head of that size."""
        return torch.linspace(self.low, self.high, dim)


class SLSTM(Mixer):
    """One layer of sLSTM, without the feed-forward part of its block.

    Args:
        width: size of inputs and outputs.
        heads: number of heads; memories are mixed within a head only.
        kernel: taps of the convolution that the gates i and f see; 0 for none.
        forget_bias: `PowerLaw(...)` or `Spaced(...)`.
        recurrent_bound: R is uniform up to this; the authors' other choice is 1 / √width.
        dropout: probability, before the norm.

    The state holds "hidden", "cell", "normaliser" and "stabiliser", each (batch, heads, dim), and
    with a convolution its "window" (batch, kernel - 1, width). There is no parallel form: a loop
    runs over time, in a C++ kernel on the CPU. It gives first derivatives only. The norm keeps its
    scales otherwise than the authors' package, see `HeadLayerNorm`.

    Example:
        >>> SLSTM(8, heads=2)(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    citations = ("beck2024xlstm",)

    def __init__(
        self,
        width: int,
        heads: int = 4,
        kernel: int = 4,
        forget_bias: PowerLaw | Spaced = PowerLaw(),
        recurrent_bound: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        """Draw the weights."""
        super().__init__()
        check_sizes(width=width)
        check_divides("heads", heads, "width", width)
        check_whole("kernel", kernel, least=0)
        if not isinstance(forget_bias, PowerLaw | Spaced):
            raise TypeError(f"forget_bias={forget_bias!r}; expected PowerLaw(...) or Spaced(...)")
        check_finite("recurrent_bound", recurrent_bound)
        if recurrent_bound < 0:
            raise ValueError(f"recurrent_bound={recurrent_bound}; expected at least 0")
        check_dropout(dropout)
        self.channels = self.outputs = self.width = width
        self.heads, self.dim, self.kernel = heads, width // heads, kernel
        self.forget_bias, self.recurrent_bound = forget_bias, recurrent_bound
        dim = self.dim
        self.convolution = ShortConvolution(width, kernel, activation=True) if kernel else None
        self.gates = nn.Parameter(small_init(torch.empty(heads, 4, dim, dim), width))
        recurrent = torch.empty(heads, dim, 4, dim).uniform_(-recurrent_bound, recurrent_bound)
        self.recurrent = nn.Parameter(recurrent)
        bias = torch.zeros(heads, 4, dim)
        bias[:, 1] = forget_bias.biases(dim)
        self.bias = nn.Parameter(bias)
        self.norm = HeadLayerNorm(heads, dim)
        self.dropout = nn.Dropout(dropout)

    def start(self, batch: int, like: Tensor) -> State:
        """Nothing seen: a stabiliser below any gate; the normaliser of 1 only keeps 0 / 0 away."""
        values = (0.0, 0.0, 1.0, UNSEEN)
        shape = (batch, self.heads, self.dim)
        carried = {
            name: like.new_full(shape, value) for name, value in zip(CARRIED, values, strict=True)
        }
        if self.convolution is not None:
            carried["window"] = self.convolution.window(batch, like)
        return State(carried)

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Filter, and run the loop over time, in float32 for half precision."""
        work = state["hidden"].dtype
        after: dict[str, Tensor] = {}
        filtered = x
        if self.convolution is not None:
            filtered, after["window"] = self.convolution(x, state["window"], lengths)
        hidden, last = slstm_sequences(
            filtered.to(work).unflatten(-1, (self.heads, self.dim)),
            x.to(work).unflatten(-1, (self.heads, self.dim)),
            self.gates.to(work),
            self.recurrent.to(work),
            self.bias.to(work),
            [state[name] for name in CARRIED],
            lengths,
        )
        y = self.norm(self.dropout(hidden)).flatten(2)
        return y, State(dict(zip(CARRIED, last, strict=True)) | after)

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this mixer again, but for its parameters."""
        return {
            "width": self.width,
            "heads": self.heads,
            "kernel": self.kernel,
            "forget_bias": self.forget_bias,
            "recurrent_bound": self.recurrent_bound,
            "dropout": self.dropout.p,
        }
