"""The long short-term memory, with the parameters and the results of `torch.nn.LSTM`.

Names here and in the literature (Hochreiter and Schmidhuber 1997; Gers et al. 2000):
    hidden      h_t = o_t tanh(c_t), which is also the output
    cell        c_t = f_t c_{t-1} + i_t g_t
    weight_ih   W, rows in the order of the gates i, f, g, o
    weight_hh   R, the same for h_{t-1}
    bias_ih, bias_hh   both are added, as torch has it

Elements past the end drive one more channel, which closes the input gates and opens the forget
gates until their sigmoids are exactly 0 and 1. The cells then stay as they are, torch's fused loop
runs on the padded batch, and nothing has to be sorted or packed.
"""

from typing import Any

import torch
from torch import Tensor, nn

from slicekit.checks import check_finite
from slicekit.dispatch import autocast_off, vjp
from slicekit.layers.state import State, last_valid
from slicekit.mixers.arguments import check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.flop_counts import of_lstm
from slicekit.mixers.headwise import check_dropout
from slicekit.operators import Operator
from slicekit.paths import valid_mask

SATURATED = 1e4
"""A pre-activation whose sigmoid is exactly 1 in every precision, and of its negative exactly 0."""


class LSTM(Mixer):
    """One layer of LSTM; two of them one after the other are `torch.nn.LSTM(num_layers=2)`.

    Args:
        channels: size of an input element.
        dim: size of the hidden state, which is the output.
        forget_bias: what the forget gates' two biases add up to at first; None leaves them to
            torch's initialisation, uniform up to 1 / √dim like all parameters.
        dropout: its probability, on the outputs; what is carried is not touched.

    The parameters have the names and shapes of `torch.nn.LSTMCell`. The state holds "hidden" and
    "cell", both (batch, dim).

    Example:
        >>> lstm = LSTM(3, 8)
        >>> lstm(torch.randn(2, 5, 3)).shape
        torch.Size([2, 5, 8])
    """

    citations = ("hochreiter1997lstm", "gers2000forget")

    def __init__(
        self, channels: int, dim: int, forget_bias: float | None = None, dropout: float = 0.0
    ) -> None:
        """Draw the weights."""
        super().__init__()
        check_sizes(channels=channels, dim=dim)
        check_dropout(dropout)
        if forget_bias is not None:
            check_finite("forget_bias", forget_bias)
        self.channels, self.outputs, self.dim = channels, dim, dim
        self.forget_bias = forget_bias
        self.dropout = nn.Dropout(dropout)
        bound = dim**-0.5

        def uniform(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))

        self.weight_ih, self.weight_hh = uniform(4 * dim, channels), uniform(4 * dim, dim)
        self.bias_ih, self.bias_hh = uniform(4 * dim), uniform(4 * dim)
        if forget_bias is not None:
            with torch.no_grad():
                self.bias_ih[dim : 2 * dim] = forget_bias
                self.bias_hh[dim : 2 * dim] = 0.0

    def start(self, batch: int, like: Tensor) -> State:
        """Zeros."""
        return State({name: like.new_zeros(batch, self.dim) for name in ("hidden", "cell")})

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Run the fused loop, in float32 for half precision."""
        hidden, cell = state["hidden"], state["cell"]
        work = hidden.dtype
        x = x.to(work)
        weights = [w.to(work) for w in (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)]
        if lengths is not None:
            past = ~valid_mask(lengths, x.shape[1])
            x = torch.cat([x, past.unsqueeze(-1).to(work)], -1)
            weights[0] = torch.cat([weights[0], self._holding(weights[0])], -1)
        with autocast_off(x.device):
            if torch.compiler.is_compiling():
                y, _, cells = LOOP((), (x, hidden, cell, *weights))
            else:
                y, _, cells = _run(x, hidden, cell, weights)
        last = last_valid(y, lengths)
        if lengths is not None:
            last = torch.where((lengths > 0).unsqueeze(-1), last, hidden)
        return self.dropout(y), State({"hidden": last, "cell": cells})

    def _holding(self, like: Tensor) -> Tensor:
        """The weights (4 dim, 1) of the channel under which a cell stays as it is."""
        signs = like.new_tensor([-SATURATED, SATURATED, 0.0, 0.0])
        return signs.repeat_interleave(self.dim).unsqueeze(-1)

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this mixer again, but for its parameters."""
        return {
            "channels": self.channels,
            "dim": self.dim,
            "forget_bias": self.forget_bias,
            "dropout": self.dropout.p,
        }


def _run(
    x: Tensor, hidden: Tensor, cell: Tensor, weights: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs (batch, length, dim), and the last hidden state and cell (batch, dim)."""
    start = [hidden.unsqueeze(0), cell.unsqueeze(0)]
    fused: Any = torch.lstm  # what `torch.nn.LSTM` calls
    y, h, c = fused(x, start, weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)
    return y, h.squeeze(0), c.squeeze(0)


def _forward(operands: list[Any]) -> tuple[Tensor, ...]:
    """The loop as one operator, which torch.compile does not unroll."""
    x, hidden, cell, *weights = operands
    y, h, c = _run(x, hidden, cell, weights)
    return y.clone(memory_format=torch.contiguous_format), h.clone(), c.clone()


def _shapes(operands: list[Any]) -> tuple[Tensor, ...]:
    x, hidden, cell, *_ = operands
    y = x.new_empty(x.shape[0], x.shape[1], hidden.shape[-1])
    return y, hidden.new_empty(hidden.shape), cell.new_empty(cell.shape)


def _backward(
    operands: list[Any], results: Any, cotangents: list[Tensor], needed: Any
) -> tuple[Tensor, ...]:
    """The loop is run again, this time on tape."""

    def run(x: Tensor, hidden: Tensor, cell: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        return _run(x, hidden, cell, list(weights))

    return vjp(run, *operands)[1](tuple(cotangents))


LOOP = Operator(
    "lstm",
    "",
    _forward,
    _shapes,
    _backward,
    flops=of_lstm,
    outputs=3,
    keeps=(),
    subject="a compiled LSTM gives",
)
