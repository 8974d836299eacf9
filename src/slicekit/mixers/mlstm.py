"""The mLSTM: a matrix memory with exponential gates, which is a linear recurrence.

Names here and in the paper (Beck et al. 2024, section 2.3, appendix A.2 and figure 11):
    keys, values, queries       k_t, v_t, q_t
    log_input, log_forget       log i_t, the pre-activation itself, and log f_t = log σ
    stabiliser                  m_t = max(log f_t + m_{t-1}, log i_t)
    gain, decay                 i'_t = exp(log i_t - m_t), f'_t = exp(log f_t + m_{t-1} - m_t)
    hidden                      the columns of C_t^T and, as the last one, the normaliser n_t
    read                        h_t = C_t q_t / max(|n_t^T q_t|, exp(-m_t))
    skip                        the learnable skip of the filtered input
    norm                        "GN", a group norm with one group for each head

C_t^T = f'_t C_{t-1}^T + i'_t k_t v_t^T and n_t = f'_t n_{t-1} + i'_t k_t are the one recurrence
H_t = f'_t H_{t-1} + i'_t k_t [v_t, 1]^T, which `propagate` runs for any length. With
F_t = Σ_{s <= t} log f_s the stabilisers of all steps are m_t = F_t + M_t, where M_t is the running
maximum of log i_t - F_t and m_0; then f'_t = exp(M_{t-1} - M_t), i'_t = exp(log i_t - F_t - M_t).
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from slicekit.checks import check_positive
from slicekit.layers.state import State
from slicekit.mixers.arguments import check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.convolution import ShortConvolution
from slicekit.mixers.heads import Steps
from slicekit.mixers.headwise import (
    UNSEEN,
    HeadLayerNorm,
    HeadLinear,
    check_divides,
    check_dropout,
    depth_init,
    rounded_up,
    small_init,
)
from slicekit.mixers.precision import most_exact
from slicekit.paths import valid_mask
from slicekit.scans import Outer
from slicekit.structures import DiagonalTransition

SATURATED = 1e5
"""Logarithms of gates are kept within this, so that no two infinities ever meet."""


def matrix_memory(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    input_gate: Tensor,
    forget_gate: Tensor,
    memory: Tensor,
    stabiliser: Tensor,
    lengths: Tensor | None = None,
    eps: float = 1e-6,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the matrix memory of the mLSTM.

    Args:
        queries, keys, values: (batch, length, heads, dim).
        input_gate, forget_gate: (batch, length, heads), pre-activations.
        memory: (batch, heads, dim, dim + 1): C^T, and n as its last column.
        stabiliser: (batch, heads), m.
        lengths: (batch,) int64, or None.
        eps: added to the denominator.

    Returns:
        What is read, (batch, length, heads, dim), and the memory and stabiliser at the end.

    Example:
        >>> q, k, v = torch.randn(3, 2, 7, 4, 8).unbind(0)
        >>> i, f = torch.randn(2, 2, 7, 4).unbind(0)
        >>> memory, stabiliser = torch.zeros(2, 4, 8, 9), torch.zeros(2, 4)
        >>> matrix_memory(q, k, v, i, f, memory, stabiliser)[0].shape
        torch.Size([2, 7, 4, 8])
    """
    batch, _, heads, dim = keys.shape
    work = memory.dtype
    steps, m = memory_steps(queries, keys, values, input_gate, forget_gate, stabiliser, lengths)
    read, last = steps.run(memory)
    read = read.unflatten(0, (batch, heads)).transpose(1, 2)
    # Beyond this exp overflows, and what is read is zero to rounding already.
    largest = math.log(torch.finfo(work).max) - 8
    least = torch.exp(-m.clamp_min(-largest)).to(work)
    norms = torch.maximum(read[..., dim].abs(), least) + eps
    return read[..., :dim] / norms.unsqueeze(-1), last, m[:, -1].to(work)


def memory_steps(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    input_gate: Tensor,
    forget_gate: Tensor,
    stabiliser: Tensor,
    lengths: Tensor | None = None,
) -> tuple[Steps, Tensor]:
    """The linear recurrence of the memory, for arguments as `matrix_memory` takes them.

    Returns:
        Its steps, which past the end change nothing, and the stabilisers (batch, length, heads).
    """
    batch, length, heads, dim = keys.shape
    work = stabiliser.dtype
    valid = None if lengths is None else valid_mask(lengths, length).unsqueeze(-1)
    gain, decay, m = _stabilised(input_gate, forget_gate, stabiliser, valid)

    def fold(x: Tensor) -> Tensor:
        return x.to(work).transpose(1, 2).flatten(0, 1)

    written = torch.cat([values.to(work), values.new_ones(batch, length, heads, 1, dtype=work)], -1)
    inputs = Outer(fold(gain.unsqueeze(-1) * keys), fold(written))
    decays = DiagonalTransition(fold(decay.unsqueeze(-1)).expand(-1, -1, dim))
    return Steps(decays, inputs, fold(queries) / math.sqrt(dim)), m


def _stabilised(
    input_gate: Tensor, forget_gate: Tensor, stabiliser: Tensor, valid: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gains i', decays f' and stabilisers m, each (batch, length, heads), the last most exact."""
    work, exact = stabiliser.dtype, most_exact(stabiliser.device)
    log_input = input_gate.to(exact).clamp(-SATURATED, SATURATED)
    log_forget = functional.logsigmoid(forget_gate.to(exact)).clamp_min(-SATURATED)
    if valid is not None:
        log_input = torch.where(valid, log_input, UNSEEN)
        log_forget = torch.where(valid, log_forget, 0.0)
    kept = log_forget.cumsum(1)
    offered = log_input - kept
    highest = torch.cat([stabiliser.to(exact).unsqueeze(1), offered], 1).cummax(1).values
    decay = torch.exp(highest[:, :-1] - highest[:, 1:])
    gain = torch.exp(offered - highest[:, 1:])
    if valid is not None:  # a stabiliser may be as low as a gate past the end
        gain = torch.where(valid, gain, 0.0)
    return gain.to(work), decay.to(work), kept + highest[:, 1:]


class MLSTM(Mixer):
    """One layer of mLSTM, between its maps up and down.

    Args:
        width: size of inputs and outputs.
        heads: number of heads, each with a memory of its own.
        kernel: taps of the convolution that queries, keys and gates see.
        expand: inner size over width.
        qkv_block: size of the blocks of the block-diagonal maps to queries, keys and values.
        multiple: the inner size is rounded up to a multiple of this.
        bias: whether the linear maps (not the gates, which always do) add a constant.
        dropout: probability, on the output.
        blocks: number of blocks in the stack, for the initialisation of the map down.

    The state holds "hidden" (batch, heads, dim, dim + 1), the memory and its normaliser;
    "stabiliser" (batch, heads); and the convolution's "window". The norm keeps its scales otherwise
    than the authors' package, see `HeadLayerNorm`.

    Example:
        >>> MLSTM(8, heads=2)(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    citations = ("beck2024xlstm",)

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
        """Draw the weights."""
        super().__init__()
        check_sizes(width=width, kernel=kernel, multiple=multiple, blocks=blocks)
        check_positive("expand", expand)
        check_dropout(dropout)
        self.channels = self.outputs = self.width = width
        self.expand, self.multiple, self.blocks = expand, multiple, blocks
        inner = rounded_up(expand * width, multiple)
        check_divides("heads", heads, "inner size", inner)
        check_divides("qkv_block", qkv_block, "inner size", inner)
        self.inner, self.heads, self.dim = inner, heads, inner // heads
        self.up = nn.Linear(width, 2 * inner, bias)
        self.convolution = ShortConvolution(inner, kernel)
        self.queries = HeadLinear(inner, inner // qkv_block, bias)
        self.keys = HeadLinear(inner, inner // qkv_block, bias)
        self.values = HeadLinear(inner, inner // qkv_block, bias)
        self.gates = nn.Linear(3 * inner, 2 * heads)
        self.norm = HeadLayerNorm(heads, self.dim)
        self.skip = nn.Parameter(torch.ones(inner))
        self.down = nn.Linear(inner, width, bias)
        self.dropout = nn.Dropout(dropout)
        self._initialise()

    def _initialise(self) -> None:
        """As the authors do: the maps to queries, keys and values by the width, not their size."""
        for part in (self.up, self.queries, self.keys, self.values):
            small_init(part.weight, self.width)
        depth_init(self.down.weight, self.width, self.blocks)
        for part in (self.up, self.down):
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        nn.init.zeros_(self.gates.weight)
        with torch.no_grad():
            self.gates.bias[: self.heads].normal_(std=0.1)
            self.gates.bias[self.heads :] = torch.linspace(3.0, 6.0, self.heads)

    def start(self, batch: int, like: Tensor) -> State:
        """An empty memory, and a stabiliser below any gate."""
        return State(
            {
                "hidden": like.new_zeros(batch, self.heads, self.dim, self.dim + 1),
                "stabiliser": like.new_full((batch, self.heads), UNSEEN),
                "window": self.convolution.window(batch, like),
            }
        )

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Up, filter, remember, gate, down."""
        inner, gate = self.up(x).chunk(2, -1)
        filtered, window = self._filtered(inner, state, lengths)
        read, memory, stabiliser = matrix_memory(
            *self._features(inner, filtered), state["hidden"], state["stabiliser"], lengths
        )
        read = self.norm(read).flatten(-2).to(filtered.dtype)
        y = (read + self.skip.to(filtered.dtype) * filtered) * functional.silu(gate)
        after = State({"hidden": memory, "stabiliser": stabiliser, "window": window})
        return self.dropout(self.down(y)), after

    def recurrence(
        self, x: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Steps, dict[str, Tensor]]:
        """What the elements do to the memory: the mLSTM as an affine linear CDE.

        Args:
            x: (batch, length, width).
            state: where they start.
            lengths: (batch,) int64, or None.

        Returns:
            The steps, and what is carried besides the memory.
        """
        inner, _ = self.up(x).chunk(2, -1)
        filtered, window = self._filtered(inner, state, lengths)
        features = self._features(inner, filtered)
        steps, m = memory_steps(*features, state["stabiliser"], lengths)
        return steps, {"stabiliser": m[:, -1].to(state["stabiliser"].dtype), "window": window}

    def _filtered(
        self, inner: Tensor, state: State, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        filtered, window = self.convolution(inner, state["window"], lengths)
        return functional.silu(filtered), window

    def _features(
        self, inner: Tensor, filtered: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys and values (..., heads, dim), and the gates i and f (..., heads)."""
        flat = self.queries(filtered), self.keys(filtered), self.values(inner)
        input_gate, forget_gate = self.gates(torch.cat(flat, -1)).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (self.heads, self.dim)) for t in flat)
        return q, k, v, input_gate, forget_gate

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this mixer again, but for its parameters."""
        return {
            "width": self.width,
            "heads": self.heads,
            "kernel": self.convolution.size,
            "expand": self.expand,
            "qkv_block": self.inner // self.queries.heads,
            "multiple": self.multiple,
            "bias": self.up.bias is not None,
            "dropout": self.dropout.p,
            "blocks": self.blocks,
        }
