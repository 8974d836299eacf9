"""Mamba-2 (Dao and Gu, Transformers are SSMs, 2024).

    (z, x, B, C, δ) = W_in input,    (x, B, C) <- silu(conv(x, B, C)),    Δ = softplus(δ + β),
    H_t = exp(Δ_t a) H_{t-1} + B_t (Δ_t x_t)^T,    y_t = H_t^T C_t + D x_t,    for each head,
    out = W_out norm(y ⊙ silu(z)).

Glossary:
    values: x, (batch, length, heads, head_dim).
    left, readout: B and C, (batch, length, groups, dim); a group is shared by heads / groups heads.
    steps: Δ, (batch, length, heads); step_bias is β.
    log_rates: log(-a), one number a head.
    skip: D, one number a head.
    gate: z.
    hidden: H, (batch, heads, dim, head_dim).
    window: the last kernel - 1 inputs of the convolution.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from slicekit.checks import check_positive
from slicekit.layers.state import State
from slicekit.mixers.arguments import check_policy, check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.convolution import ShortConvolution
from slicekit.mixers.discretisation import StepSizes
from slicekit.mixers.heads import Steps, fold, normalised, unfold
from slicekit.mixers.headwise import check_divides
from slicekit.paths import mask_past_end
from slicekit.scans import Outer
from slicekit.structures import DiagonalTransition


@dataclass(frozen=True, eq=False)
class Driven:
    """What the elements become, named as in the glossary."""

    gate: Tensor
    values: Tensor
    left: Tensor
    readout: Tensor
    steps: Tensor
    window: Tensor


class Mamba2(Mixer):
    """The Mamba-2 block, with the authors' initialisation.

    Args:
        width: size of inputs and outputs.
        dim: number of rows of a head's state, N.
        head_dim: number of its columns, P; divides expand * width.
        expand: there are expand * width inner channels, in heads of head_dim.
        groups: how many B and C there are; divides the number of heads.
        kernel: taps of the convolution.
        bias: whether the maps in and out have one.
        convolution_bias: whether the convolution has one.
        rates: the initial -a are uniform in this range; None for 1, 2, ..., heads.
        steps: the initial step sizes.
        step_limits: the smallest and largest Δ.
        norm_groups: parts that are normalised by themselves; None for one for each group of B.
        eps: what the norm adds to a mean square.

    Example:
        >>> mamba = Mamba2(8, 4, head_dim=4)
        >>> y, state = mamba(torch.randn(2, 5, 8), return_state=True)
        >>> y.shape, state["hidden"].shape, state["window"].shape
        (torch.Size([2, 5, 8]), torch.Size([2, 4, 4, 4]), torch.Size([2, 3, 24]))
    """

    citations = ("dao2024mamba2",)
    linear = True

    def __init__(
        self,
        width: int,
        dim: int = 128,
        head_dim: int = 64,
        expand: int = 2,
        groups: int = 1,
        kernel: int = 4,
        *,
        bias: bool = False,
        convolution_bias: bool = True,
        rates: tuple[float, float] | None = (1.0, 16.0),
        steps: StepSizes = StepSizes(),
        step_limits: tuple[float, float] = (0.0, math.inf),
        norm_groups: int | None = None,
        eps: float = 1e-5,
    ) -> None:
        """Draw the parameters."""
        super().__init__()
        norm_groups = groups if norm_groups is None else norm_groups
        check_sizes(width=width, dim=dim, head_dim=head_dim, expand=expand)
        check_sizes(groups=groups, kernel=kernel, norm_groups=norm_groups)
        inner = expand * width
        heads = inner // head_dim
        check_divides("head_dim", head_dim, "expand * width", inner)
        check_divides("groups", groups, "heads", heads)
        check_divides("norm_groups", norm_groups, "expand * width", inner)
        check_positive("eps", eps)
        check_policy("steps", steps, StepSizes, "a StepSizes")
        if rates is not None and not 0 < rates[0] <= rates[1] < math.inf:
            raise ValueError(f"rates={rates}; expected 0 < rates[0] <= rates[1], or None")
        if not 0 <= step_limits[0] <= step_limits[1]:
            raise ValueError(f"step_limits={step_limits}; expected 0 <= low <= high")
        self.channels = self.outputs = width
        self.dim, self.head_dim, self.expand, self.groups = dim, head_dim, expand, groups
        self.inner, self.heads, self.norm_groups, self.eps = inner, heads, norm_groups, eps
        self.bias, self.convolution_bias = bias, convolution_bias
        self.rates, self.steps, self.step_limits = rates, steps, step_limits
        filtered = inner + 2 * groups * dim
        self.in_map = nn.Linear(width, inner + filtered + heads, bias=bias)
        self.convolution = ShortConvolution(filtered, kernel, convolution_bias, activation=True)
        self.step_bias = nn.Parameter(steps.draw_bias(heads))
        first = torch.arange(1.0, heads + 1)
        first = first if rates is None else torch.empty(heads).uniform_(*rates)
        self.log_rates = nn.Parameter(first.log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm_weight = nn.Parameter(torch.ones(inner))
        self.out_map = nn.Linear(inner, width, bias=bias)

    def start(self, batch: int, like: Tensor) -> State:
        """Zeros."""
        hidden = like.new_zeros(batch, self.heads, self.dim, self.head_dim)
        return State({"hidden": hidden, "window": self.convolution.window(batch, like)})

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Run x (batch, length, width) from a state."""
        driven = self.drive(x, state, lengths)
        read, hidden = self.as_steps(driven).run(state["hidden"], scan=self.scan)
        y = unfold(read, self.heads)
        y = y + self.skip.to(y.dtype).unsqueeze(-1) * driven.values
        y = self.normalise(y.flatten(2), driven.gate)
        return self.out_map(y.to(x.dtype)), State({"hidden": hidden, "window": driven.window})

    def recurrence(
        self, x: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Steps, dict[str, Tensor]]:
        """What the elements do to the state: the mixer as an affine linear CDE.

        Args:
            x: (batch, length, width).
            state: where they start; its hidden state gives the dtype to compute in.
            lengths: (batch,) int64, or None.

        Returns:
            The steps, and what is to be carried besides the hidden state.
        """
        driven = self.drive(x, state, lengths)
        return self.as_steps(driven), {"window": driven.window}

    def drive(self, x: Tensor, state: State, lengths: Tensor | None = None) -> Driven:
        """The maps, from elements (batch, length, width) to all that drives the state."""
        parts = [self.inner, self.convolution.channels, self.heads]
        gate, filtered, raw = self.in_map(x).split(parts, -1)
        filtered, window = self.convolution(filtered, state["window"], lengths)
        filtered = filtered.to(state["hidden"].dtype)
        steps = self.step_sizes(raw, filtered, lengths)
        return Driven(gate, *self.cut(filtered), steps, window)

    def as_steps(self, driven: Driven) -> Steps:
        """The recurrence of what the maps gave, heads folded in the batch."""
        steps = driven.steps
        decay = (-self.log_rates.to(steps.dtype).exp() * steps).exp()
        gates = decay.mT.flatten(0, 1).unsqueeze(-1).expand(-1, -1, self.dim)
        values = fold((steps.unsqueeze(-1) * driven.values).flatten(2), self.heads)
        inputs = Outer(self._by_head(driven.left), values)
        return Steps(DiagonalTransition(gates), inputs, self._by_head(driven.readout))

    def cut(self, filtered: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values by heads, and B and C by groups, (batch, length, heads or groups, size)."""
        shared = self.groups * self.dim
        values, left, readout = filtered.split([self.inner, shared, shared], -1)
        by_group = (self.groups, self.dim)
        return (
            values.unflatten(-1, (self.heads, self.head_dim)),
            left.unflatten(-1, by_group),
            readout.unflatten(-1, by_group),
        )

    def step_sizes(self, raw: Tensor, like: Tensor, lengths: Tensor | None) -> Tensor:
        """Δ, (batch, length, heads); a step past the end takes no time, so it changes nothing."""
        steps = functional.softplus(raw.to(like.dtype) + self.step_bias.to(like.dtype))
        steps = steps.clamp(*self.step_limits)
        return steps if lengths is None else mask_past_end(steps, lengths)

    def _by_head(self, shared: Tensor) -> Tensor:
        """(batch, length, groups, dim) -> (batch * heads, length, dim)."""
        return fold(shared.repeat_interleave(self.heads // self.groups, 2).flatten(2), self.heads)

    def normalise(self, y: Tensor, gate: Tensor) -> Tensor:
        """The root-mean-square norm of y ⊙ silu(z), both (batch, length, inner)."""
        y = (y * functional.silu(gate.to(y.dtype))).unflatten(-1, (self.norm_groups, -1))
        return self.norm_weight.to(y.dtype) * normalised(y, self.eps).flatten(-2)

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "width": self.channels,
            "dim": self.dim,
            "head_dim": self.head_dim,
            "expand": self.expand,
            "groups": self.groups,
            "kernel": self.convolution.size,
            "bias": self.bias,
            "convolution_bias": self.convolution_bias,
            "rates": self.rates,
            "steps": self.steps,
            "step_limits": self.step_limits,
            "norm_groups": self.norm_groups,
            "eps": self.eps,
        }
