"""The sLSTM over sequences, products with the inputs and all: by a C++ kernel, or in torch.

Names are those of `slstm_recurrence`, and these:
    filtered        what the gates i and f see
    x               what the gates z and o see
    gates, bias     W and b, of i, f, z and o
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from slicekit.choices import kernel_serves
from slicekit.layers.state import last_valid
from slicekit.mixers.flop_counts import of_slstm_sequences
from slicekit.mixers.slstm_recurrence import CLOSED, slstm_recurrence
from slicekit.native.library import unsuited
from slicekit.native.sequences import SLSTM
from slicekit.operators import Operator
from slicekit.paths import valid_mask


def slstm_sequences(
    filtered: Tensor,
    x: Tensor,
    gates: Tensor,
    recurrent: Tensor,
    bias: Tensor,
    state: Sequence[Tensor],
    lengths: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Run whole sequences; all tensors have one dtype, and first derivatives in reverse mode.

    Args:
        filtered: (batch, length, heads, dim).
        x: (batch, length, heads, dim).
        gates: (heads, 4, dim, dim), to a gate's unit, from a unit.
        recurrent: (heads, dim, 4, dim), from a unit, to a gate's unit.
        bias: (heads, 4, dim).
        state: hidden, cell, normaliser and stabiliser, each (batch, heads, dim).
        lengths: (batch,) int64, or None. Past the end both inputs are zero, and so are the outputs.

    Returns:
        The hidden states (batch, length, heads, dim), and the four tensors of the last state.

    Example:
        >>> x, h = torch.randn(3, 7, 2, 4), torch.zeros(3, 2, 4)
        >>> weights = torch.randn(2, 4, 4, 4), torch.randn(2, 4, 4, 4), torch.randn(2, 4, 4)
        >>> hidden, last = slstm_sequences(x, x, *weights, [h, h, h + 1, h])
        >>> hidden.shape, last[1].shape
        (torch.Size([3, 7, 2, 4]), torch.Size([3, 2, 4]))
    """
    operands = [filtered, x, gates, recurrent, bias, *state]
    if not kernel_serves("sLSTM", unsuited(x)):
        return in_torch(filtered, x, gates, recurrent, bias, state, lengths)
    keep = torch.is_grad_enabled() and any(y.requires_grad for y in operands)
    hidden, *last, _ = SLSTM_SEQUENCES((keep,), (*operands, lengths))
    return hidden, last


def in_torch(
    filtered: Tensor,
    x: Tensor,
    gates: Tensor,
    recurrent: Tensor,
    bias: Tensor,
    state: Sequence[Tensor],
    lengths: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """As `slstm_sequences`, without the kernel."""
    driven = _driven(filtered, x, gates, bias, lengths)
    before = torch.stack([y.transpose(0, 1) for y in state])
    hidden, last = slstm_recurrence(driven, recurrent.flatten(2), before)
    hidden = hidden.permute(2, 0, 1, 3)
    after = [y.transpose(0, 1) for y in last.unbind(0)]
    if lengths is not None:
        some = (lengths > 0).view(-1, 1, 1)
        after[0] = torch.where(some, last_valid(hidden, lengths), state[0])
        hidden = torch.where(valid_mask(lengths, x.shape[1])[..., None, None], hidden, 0.0)
    return hidden, after


def _driven(
    filtered: Tensor, x: Tensor, gates: Tensor, bias: Tensor, lengths: Tensor | None
) -> Tensor:
    """Pre-activations (length, heads, batch, 4, dim) without the recurrent part."""
    pairs = ((filtered, gates[:, :2]), (x, gates[:, 2:]))
    driven = torch.cat([torch.einsum("blhd,hged->lhbge", *pair) for pair in pairs], 3)
    driven = driven + bias.unsqueeze(1)
    if lengths is None:
        return driven
    valid = valid_mask(lengths, x.shape[1]).mT[:, None, :, None, None]
    held = driven.new_tensor([CLOSED, -CLOSED, 0.0, 0.0]).unsqueeze(-1)  # i = 0, f = 1
    return torch.where(valid, driven, held)


SLSTM_SEQUENCES = Operator(
    "slstm_sequences",
    "bool keep",
    SLSTM.forward,
    SLSTM.shapes,
    SLSTM.backward,
    flops=of_slstm_sequences,
    outputs=5,
    keeps=(0, 2, 3, 5),
    subject="the kernel of the sLSTM gives",
)
