"""S6, the selective state space inside Mamba (Gu and Dao, Mamba, 2023, section 3 and algorithm 2).

    h_t = exp(Δ_t A) h_{t-1} + Δ_t B_t x_t,    y_t = C_t^T h_t + D x_t,    for each channel,

with Δ_t, B_t, C_t made from the whole input x_t: the step sizes are selective.

Glossary:
    steps: Δ_t = softplus(W_Δ s_t + β), (batch, length, width); s_t = S x_t has rank numbers.
    left, readout: B_t and C_t, (batch, length, dim), shared by all channels.
    selection: the rows of one matrix that make s_t, B_t and C_t.
    step_weight, step_bias: W_Δ and β.
    log_rates: log(-A), (width, dim), starts at log 1, ..., log dim in each channel (S4D-Real).
    skip: D.
    hidden: h, (batch, width, dim).
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from slicekit.checks import check_positive, check_whole
from slicekit.layers.state import State
from slicekit.mixers.arguments import check_policy, check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.discretisation import StepSizes
from slicekit.scans import Scan, selective_scan

STEP_WEIGHTS = ("random", "constant")


class S6(Mixer):
    """The selective state space alone: no convolution, no gate.

    Args:
        width: size of inputs and outputs.
        dim: number of states of a channel, N.
        rank: size of s_t, from which the step sizes are made; None for ceil(width / 16).
        steps: the initial step sizes.
        step_weights: how W_Δ starts: "random" (uniform) or "constant".
        step_scale: a factor of W_Δ's initial size, which is rank^(-1/2).

    Example:
        >>> s6 = S6(8, 4)
        >>> y, state = s6(torch.randn(2, 5, 8), return_state=True)
        >>> y.shape, state["hidden"].shape
        (torch.Size([2, 5, 8]), torch.Size([2, 8, 4]))
    """

    citations = ("gu2023mamba",)
    linear = True

    def __init__(
        self,
        width: int,
        dim: int = 16,
        rank: int | None = None,
        *,
        steps: StepSizes = StepSizes(),
        step_weights: str = "random",
        step_scale: float = 1.0,
    ) -> None:
        """Draw the parameters."""
        super().__init__()
        check_sizes(width=width, dim=dim)
        check_policy("steps", steps, StepSizes, "a StepSizes")
        check_positive("step_scale", step_scale)
        if step_weights not in STEP_WEIGHTS:
            raise ValueError(
                f"step_weights={step_weights!r}; expected one of {', '.join(STEP_WEIGHTS)}"
            )
        self.channels = self.outputs = width
        self.dim, self.rank = dim, step_rank(width, rank)
        self.steps, self.step_weights, self.step_scale = steps, step_weights, step_scale
        self.selection = nn.Linear(width, self.rank + 2 * dim, bias=False)
        size = step_scale * self.rank**-0.5
        low = -size if step_weights == "random" else size
        self.step_weight = nn.Parameter(torch.empty(width, self.rank).uniform_(low, size))
        self.step_bias = nn.Parameter(steps.draw_bias(width))
        self.log_rates = nn.Parameter(torch.arange(1.0, dim + 1).log().repeat(width, 1))
        self.skip = nn.Parameter(torch.ones(width))

    def start(self, batch: int, like: Tensor) -> State:
        """Zeros."""
        return State({"hidden": like.new_zeros(batch, self.channels, self.dim)})

    def select(self, x: Tensor, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Step sizes Δ (batch, length, width), and B and C (batch, length, dim).

        Args:
            x: (batch, length, width).
            like: a tensor of the dtype to return them in.
        """
        raw, left, readout = self.selection(x).split([self.rank, self.dim, self.dim], -1)
        raw = functional.linear(raw, self.step_weight.to(raw.dtype))
        steps = functional.softplus(raw.to(like.dtype) + self.step_bias.to(like.dtype))
        return steps, left.to(like.dtype), readout.to(like.dtype)

    def rates(self, like: Tensor) -> Tensor:
        """A, (width, dim), negative."""
        return -self.log_rates.to(like.dtype).exp()

    def recur(
        self, x: Tensor, hidden: Tensor, lengths: Tensor | None, scan: Scan | None = None
    ) -> tuple[Tensor, Tensor]:
        """Outputs (batch, length, width) and last state of x (batch, length, width)."""
        steps, left, readout = self.select(x, hidden)
        driving = x.to(hidden.dtype)
        operands = (steps, self.rates(hidden), driving, left, readout, hidden)
        y, last = selective_scan(*operands, lengths, scan)
        return y + self.skip.to(hidden.dtype) * driving, last

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Run x (batch, length, width) from a state."""
        y, last = self.recur(x, state["hidden"], lengths, self.scan)
        return y, State({"hidden": last})

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "width": self.channels,
            "dim": self.dim,
            "rank": self.rank,
            "steps": self.steps,
            "step_weights": self.step_weights,
            "step_scale": self.step_scale,
        }


def step_rank(width: int, rank: int | None) -> int:
    """The rank that was asked for, or ceil(width / 16).

    >>> step_rank(33, None)
    3
    """
    if rank is None:
        return math.ceil(width / 16)
    check_whole("rank", rank)
    return rank
