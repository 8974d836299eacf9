"""Mixers with heads and matrix states: the affine recurrence they share, and what surrounds it.

Glossary:
    H           S^T       matrix state of a head, (keys, values); the paper's S is its transpose
    transitions M_t       acts on H from the left (on S from the right)
    inputs      k_t v_t^T affine input, an outer product
    readout     q_t       o_t = q_t^T H, read after the step

Each element drives H <- M_t H + k_t v_t^T: an affine linear CDE, whose form is the mixer's choice.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from slicekit.checks import check_positive
from slicekit.layers.state import State
from slicekit.mixers.base import Mixer
from slicekit.mixers.features import Features
from slicekit.scans import Outer, Scan, propagate
from slicekit.structures import Transition


@dataclass(frozen=True, eq=False)
class Steps:
    """The recurrence of some elements, H <- M H + u and o = q^T H, with heads folded in the batch.

    Args:
        transitions: M, with leading shape (batch * heads, length * each).
        inputs: u, left (batch * heads, length * each, keys) and right (..., values).
        readout: q, (batch * heads, length * each, keys).
        each: number of steps of an element; its output is read after the last of them.
    """

    transitions: Transition
    inputs: Outer
    readout: Tensor
    each: int = 1

    def run(
        self, hidden: Tensor, lengths: Tensor | None = None, scan: Scan | None = None
    ) -> tuple[Tensor, Tensor]:
        """Take all steps.

        Args:
            hidden: H, (batch, heads, keys, values).
            lengths: (batch,) int64, elements that count; None for all.
            scan: how, or None for the fastest way.

        Returns:
            (batch * heads, length, values), and H after the last element.
        """
        batch, heads = hidden.shape[:2]
        if lengths is not None:
            lengths = (lengths * self.each).unsqueeze(1).expand(-1, heads).reshape(-1)
        read, last = propagate(
            self.transitions, hidden.flatten(0, 1), self.inputs, self.readout, scan, lengths
        )
        return read[:, self.each - 1 :: self.each], last.unflatten(0, (batch, heads))


def fold(x: Tensor, heads: int) -> Tensor:
    """(batch, length, heads * dim) -> (batch * heads, length, dim)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2).flatten(0, 1)


def unfold(x: Tensor, heads: int) -> Tensor:
    """(batch * heads, length, dim) -> (batch, length, heads, dim)."""
    return x.unflatten(0, (-1, heads)).transpose(1, 2)


def unit(x: Tensor, eps: float = 1e-6) -> Tensor:
    """x / sqrt(|x|^2 + eps) along the last dimension: never longer than 1, and smooth at 0."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps)


def normalised(x: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) along the last dimension, also where the squares overflow."""
    # Whatever the size is, the result does not depend on it, and so neither does the gradient.
    size = torch.linalg.vector_norm(x.detach(), math.inf, -1, keepdim=True).clamp_min(1)
    x = x / size
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps / size.square())


class HeadNorm(nn.Module):
    """RMS norm of what each head reads, g * x / sqrt(mean(x^2) + eps), and a SiLU gate after it.

    Args:
        dim: size of a head; all heads share the weights.
        eps: added to the mean square.

    Example:
        >>> norm = HeadNorm(4)
        >>> norm(torch.full((1, 1, 2, 4), 3.0)).round(decimals=3).unique()
        tensor([1.], grad_fn=<Unique2Backward0>)
    """

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        """Weights of one."""
        super().__init__()
        check_positive("eps", eps)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor, gate: Tensor | None = None) -> Tensor:
        """x and gate (..., heads, dim) -> (..., heads, dim)."""
        scaled = normalised(x, self.eps) * self.weight.to(x.dtype)
        return scaled if gate is None else scaled * functional.silu(gate.to(x.dtype))


class MatrixMixer(Mixer):
    """A mixer with a matrix state for each head, an RMS norm of what it reads, and an output map.

    A subclass sets the attributes, calls `build_output` and writes `recurrence`.

    Attributes:
        heads: number of heads.
        keys, values: sizes of a head's H, (keys, values).
        features: the map from elements to queries, keys and values.
        arguments: the constructor's.
    """

    heads: int
    keys: int
    values: int
    features: Features
    arguments: dict[str, Any]
    linear = True

    def build_output(self, width: int, output_gate: bool, eps: float) -> None:
        """The modules after the recurrence: norm, gate (or None) and output map."""
        inner = self.heads * self.values
        self.output_gate = nn.Linear(width, inner, bias=False) if output_gate else None
        self.norm = HeadNorm(self.values, eps)
        self.output = nn.Linear(inner, width, bias=False)
        self.channels = self.outputs = width

    @abstractmethod
    def recurrence(
        self, x: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Steps, dict[str, Tensor]]:
        """What the elements do to the state: the mixer as an affine linear CDE.

        Args:
            x: (batch, length, channels).
            state: where they start; its hidden state gives the dtype to compute in.
            lengths: (batch,) int64, or None.

        Returns:
            The steps, and what is to be carried besides the hidden state.
        """

    def start(self, batch: int, like: Tensor) -> State:
        """Zeros: the hidden state (batch, heads, keys, values) and the convolution's window."""
        hidden = like.new_zeros(batch, self.heads, self.keys, self.values)
        return State({"hidden": hidden, **self.features.start(batch, like)})

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return dict(self.arguments)

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """The recurrence, then norm, gate and output map."""
        steps, carried = self.recurrence(x, state, lengths)
        read, hidden = steps.run(state["hidden"], lengths, self.scan)
        gate = None
        if self.output_gate is not None:
            gate = self.output_gate(x).unflatten(-1, (self.heads, -1))
        y = self.norm(unfold(read, self.heads), gate).flatten(2)
        return self.output(y.to(self.output.weight.dtype)), State({"hidden": hidden, **carried})
