"""The recurrence of the sLSTM: a slow and obvious loop, and a fast one with an adjoint of its own.

Names here and in the paper (Beck et al. 2024, equations 8 to 18):
    driven          W x_t + b for the gates i, f, z, o: what the loop does not depend on
    recurrent       R, for each head a map from h_{t-1} to the four gates
    hidden          h_t = o_t c_t / n_t
    cell            c_t = f'_t c_{t-1} + i'_t z_t
    normaliser      n_t = f'_t n_{t-1} + i'_t
    stabiliser      m_t = max(log f_t + m_{t-1}, log i_t)
    gains           i'_t = exp(log i_t - m_t), f'_t = exp(log f_t + m_{t-1} - m_t)

The gates are log i_t = the pre-activation, log f_t = log σ, z_t = tanh and o_t = σ. A state is one
tensor (4, heads, batch, dim) of hidden, cell, normaliser and stabiliser.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from slicekit.mixers import slstm_passes as passes
from slicekit.mixers.flop_counts import of_slstm
from slicekit.operators import Operator

CLOSED = -1e35
"""The logarithm of an input gate past the end, below any other so that it never is the maximum."""


def slstm_reference(driven: Tensor, recurrent: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The equations as they stand, for autograd: what `slstm_recurrence` is tested against.

    Args:
        driven: (length, heads, batch, 4, dim), the gates i, f, z, o.
        recurrent: (heads, dim, 4 * dim).
        state: (4, heads, batch, dim).

    Returns:
        The hidden states (length, heads, batch, dim), and the last state.
    """
    h, c, n, m = state.unbind(0)
    outputs = []
    for wx in driven.unbind(0):
        raw = wx + torch.bmm(h, recurrent).unflatten(-1, (4, -1))
        i, f, z, o = raw.unbind(-2)
        kept = functional.logsigmoid(f) + m
        m = torch.maximum(i, kept)
        gain, decay = torch.exp(i - m), torch.exp(kept - m)
        c = decay * c + gain * torch.tanh(z)
        n = decay * n + gain
        h = torch.sigmoid(o) * c / n
        outputs.append(h)
    return torch.stack(outputs), torch.stack([h, c, n, m])


def slstm_recurrence(driven: Tensor, recurrent: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The same as `slstm_reference`, fast, differentiable once in reverse mode.

    Example:
        >>> state = torch.stack([torch.zeros(2, 3, 4)] * 2 + [torch.ones(2, 3, 4)] * 2)
        >>> h, last = slstm_recurrence(torch.randn(7, 2, 3, 4, 4), torch.randn(2, 4, 16), state)
        >>> h.shape, last.shape
        (torch.Size([7, 2, 3, 4]), torch.Size([4, 2, 3, 4]))
    """
    operands = (driven, recurrent, state)
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in operands)
    hidden, last, *_ = SLSTM((keep,), operands)
    return hidden, last


def _shapes(keep: bool, operands: list[Any]) -> tuple[Tensor, ...]:
    driven = operands[0]
    length, heads, batch, _, dim = driven.shape
    slots = length if keep else 1
    return (
        driven.new_empty(length, heads, batch, dim),
        driven.new_empty(4, heads, batch, dim),
        driven.new_empty(slots, heads, batch, 4, dim),
        driven.new_empty(slots, heads, batch, dim),
        driven.new_empty(slots + 1 if keep else 1, 2, heads, batch, dim),
    )


def _forward(keep: bool, operands: list[Any]) -> tuple[Tensor, ...]:
    driven, recurrent, state = operands
    return passes.forward(driven, recurrent, state, keep)


def _backward(
    keep: bool, operands: list[Any], results: list[Any], cotangents: list[Tensor], needed: Any
) -> tuple[Tensor, ...]:
    _, recurrent, start = operands
    hidden, _, *kept = results
    return passes.backward(recurrent, start, hidden, *kept, *cotangents)


SLSTM = Operator(
    "slstm",
    "bool keep",
    _forward,
    _shapes,
    _backward,
    flops=of_slstm,
    outputs=2,
    reads=(1, 2),
    keeps=(0, 2, 3, 4),
    twins={0: 2},
    subject="the fast loop of the sLSTM gives",
)
