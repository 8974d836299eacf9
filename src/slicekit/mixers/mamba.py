"""Mamba (Gu and Dao, Mamba: Linear-Time Sequence Modeling with Selective State Spaces, 2023).

    (u, z) = W_in x,    y = S6(silu(conv(u))),    out = W_out (y ⊙ silu(z)).

Glossary:
    in_map, out_map: W_in and W_out.
    convolution: the short causal convolution of each channel, and its silu.
    ssm: S6, in which the step sizes Δ, B and C are selective.
    gate: z.
    inner: E · width, the size of u and z, E the expansion.
    hidden: h of S6, (batch, inner, dim).
    window: the last kernel - 1 inputs of the convolution.
"""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from slicekit.layers.state import State
from slicekit.mixers.arguments import check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.convolution import ShortConvolution
from slicekit.mixers.discretisation import StepSizes
from slicekit.mixers.s6 import S6, step_rank


class Mamba(Mixer):
    """The Mamba block, with the authors' initialisation.

    Args:
        width: size of inputs and outputs.
        dim: number of states of an inner channel, N.
        expand: E; there are expand * width inner channels.
        kernel: taps of the convolution.
        rank: size of what the step sizes are made from; None for ceil(width / 16).
        bias: whether the maps in and out have one.
        convolution_bias: whether the convolution has one.
        steps: the initial step sizes.
        step_weights: how the map to step sizes starts: "random" or "constant".
        step_scale: a factor of its initial size.

    Example:
        >>> import torch
        >>> mamba = Mamba(8, 4)
        >>> y, state = mamba(torch.randn(2, 5, 8), return_state=True)
        >>> y.shape, state["hidden"].shape, state["window"].shape
        (torch.Size([2, 5, 8]), torch.Size([2, 16, 4]), torch.Size([2, 3, 16]))
    """

    citations = ("gu2023mamba",)
    linear = True

    def __init__(
        self,
        width: int,
        dim: int = 16,
        expand: int = 2,
        kernel: int = 4,
        rank: int | None = None,
        *,
        bias: bool = False,
        convolution_bias: bool = True,
        steps: StepSizes = StepSizes(),
        step_weights: str = "random",
        step_scale: float = 1.0,
    ) -> None:
        """Draw the parameters."""
        super().__init__()
        check_sizes(width=width, dim=dim, expand=expand, kernel=kernel)
        self.channels = self.outputs = width
        self.expand, self.bias, self.convolution_bias = expand, bias, convolution_bias
        inner = expand * width
        self.in_map = nn.Linear(width, 2 * inner, bias=bias)
        self.convolution = ShortConvolution(inner, kernel, convolution_bias, activation=True)
        self.ssm = S6(
            inner,
            dim,
            step_rank(width, rank),
            steps=steps,
            step_weights=step_weights,
            step_scale=step_scale,
        )
        self.out_map = nn.Linear(inner, width, bias=bias)

    def start(self, batch: int, like: Tensor) -> State:
        """Zeros."""
        hidden = self.ssm.start(batch, like)["hidden"]
        return State({"hidden": hidden, "window": self.convolution.window(batch, like)})

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Run x (batch, length, width) from a state."""
        inner, gate, window = self.drive(x, state, lengths)
        y, hidden = self.ssm.recur(inner, state["hidden"], lengths, self.scan)
        y = y * functional.silu(gate.to(y.dtype))
        return self.out_map(y.to(x.dtype)), State({"hidden": hidden, "window": window})

    def drive(
        self, x: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What S6 sees and its gate, (batch, length, inner), and the window to carry."""
        inner, gate = self.in_map(x).chunk(2, -1)
        inner, window = self.convolution(inner, state["window"], lengths)
        return inner, gate, window

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments."""
        ssm = self.ssm
        return {
            "width": self.channels,
            "dim": ssm.dim,
            "expand": self.expand,
            "kernel": self.convolution.size,
            "rank": ssm.rank,
            "bias": self.bias,
            "convolution_bias": self.convolution_bias,
            "steps": ssm.steps,
            "step_weights": ssm.step_weights,
            "step_scale": ssm.step_scale,
        }
