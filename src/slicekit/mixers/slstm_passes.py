"""The two passes of the sLSTM's fast loop; its names are those of `slstm_recurrence`.

In the adjoint the stabiliser is a constant: c_t and n_t scale with exp(-m_t), and what follows sees
them only through their ratio and through c_t exp(m_t). What is left is linear in three cotangents
(of h_t, c_t and n_t), with factors that are found for many steps at once; a step of the backward
loop is six calls, and the gradient of R is one product over all steps at the end.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

WINDOW = 128
"""Steps whose factors the adjoint prepares together."""


def forward(
    driven: Tensor, recurrent: Tensor, state: Tensor, keep: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What `slstm_reference` returns, and what `backward` needs, if that is to be kept.

    Returns:
        Hidden states, last state, and for each step: the four gates, log σ(f), and the cells and
        normalisers (beginning with those before it).
    """
    length, heads, batch, _, dim = driven.shape
    slots = length if keep else 1
    driven, recurrent = driven.contiguous(), recurrent.contiguous()
    hidden = driven.new_empty(length, heads, batch, dim)
    gates = driven.new_empty(slots, heads, batch, 4, dim)
    log_forget = driven.new_empty(slots, heads, batch, dim)
    memories = driven.new_empty(slots + 1 if keep else 1, 2, heads, batch, dim)
    memories[0] = state[1:3]
    h, m = state[0].contiguous(), state[3].clone()
    m_pair = m.unsqueeze(2)

    log_sigmoid: Any = functional.logsigmoid  # which takes out=, though it does not say so
    wx = driven.flatten(3).unbind(0)
    places = hidden.unbind(0)
    raw, pairs = gates.flatten(3).unbind(0), gates[:, :, :, :2].unbind(0)
    i, f, z, o = (gates[:, :, :, k].unbind(0) for k in range(4))
    logs, both = log_forget.unbind(0), memories.unbind(0)
    cells, norms = memories[:, 0].unbind(0), memories[:, 1].unbind(0)
    for t in range(length):
        k = t if keep else 0
        after = k + 1 if keep else 0
        torch.baddbmm(wx[t], h, recurrent, out=raw[k])
        log_sigmoid(f[k], out=logs[k])
        torch.add(logs[k], m, out=f[k])
        torch.maximum(i[k], f[k], out=m)
        pairs[k].sub_(m_pair).exp_()
        z[k].tanh_()
        o[k].sigmoid_()
        torch.mul(both[k], f[k], out=both[after])
        cells[after].addcmul_(i[k], z[k])
        norms[after].add_(i[k])
        h = places[t]
        torch.div(cells[after], norms[after], out=h)
        h.mul_(o[k])
    last = torch.stack([h, cells[-1], norms[-1], m])
    return hidden, last, gates, log_forget, memories


def backward(
    recurrent: Tensor,
    start: Tensor,
    hidden: Tensor,
    gates: Tensor,
    log_forget: Tensor,
    memories: Tensor,
    in_hidden: Tensor,
    in_last: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of driven, recurrent and the state before the first step.

    Args:
        recurrent: (heads, dim, 4 * dim).
        start: (4, heads, batch, dim).
        hidden, gates, log_forget, memories: what `forward` returned and kept.
        in_hidden, in_last: the gradients of the hidden states and of the last state.
    """
    length = hidden.shape[0]
    back = recurrent.mT.contiguous()
    in_raw = torch.empty_like(gates)
    in_memory = in_last[1:3].clone()
    in_c, in_n = (x.unsqueeze(2) for x in in_memory.unbind(0))
    in_h = in_hidden[-1] + in_last[0]
    shift = in_last[3] - (in_last[1:3] * memories[-1]).sum(0)
    owed, in_stabiliser = _follow_maximum(shift, gates, log_forget)

    cotangents, decays = in_hidden.contiguous().unbind(0), gates[:, :, :, 1].unbind(0)
    flat, by_c = in_raw.flatten(3).unbind(0), in_raw[:, :, :, :3].unbind(0)
    by_n, by_h = in_raw[:, :, :, :2].unbind(0), in_raw[:, :, :, 3].unbind(0)
    for stop in range(length, 0, -WINDOW):
        first = max(0, stop - WINDOW)
        span = slice(first, stop)
        memory = memories[first : stop + 1]
        of_h, of_c, of_n, of_o = _factors(hidden[span], gates[span], log_forget[span], memory)
        for t in range(stop - 1, first - 1, -1):
            k = t - first
            if t < length - 1:
                torch.baddbmm(cotangents[t], flat[t + 1], back, out=in_h)
            in_memory.addcmul_(of_h[k], in_h)
            torch.mul(in_c, of_c[k], out=by_c[t])
            by_n[t].addcmul_(in_n, of_n[k])
            if owed is not None:
                by_n[t].add_(owed[t])
            torch.mul(in_h, of_o[k], out=by_h[t])
            in_memory.mul_(decays[t])

    in_stabiliser = in_stabiliser + (in_memory * memories[0]).sum(0)
    before = torch.cat([start[:1], hidden[:-1]]).transpose(0, 1).flatten(1, 2)
    in_recurrent = torch.bmm(before.mT, in_raw.flatten(3).transpose(0, 1).flatten(1, 2))
    in_start = torch.stack([torch.bmm(flat[0], back), *in_memory.unbind(0), in_stabiliser])
    return in_raw, in_recurrent, in_start


def _factors(
    hidden: Tensor, gates: Tensor, log_forget: Tensor, memories: Tensor
) -> tuple[tuple[Tensor, ...], ...]:
    """What a window's cotangents are multiplied by, one tensor for each of its steps.

    Returns:
        From h to (c, n); from c to the pre-activations (i, f, z); from n to (i, f); from h to o.
    """
    i, f, z, o = gates.unbind(3)
    before, after = memories[:-1], memories[1:]
    slope = -f * torch.expm1(log_forget)  # f' (1 - σ(f))
    inverse = after[:, 1].reciprocal()
    of_h = torch.stack([o * inverse, -hidden * inverse], 1)
    of_c = torch.stack([i * z, slope * before[:, 0], i * (1 - z * z)], 3)
    of_n = torch.stack([i, slope * before[:, 1]], 3)
    return tuple(x.unbind(0) for x in (of_h, of_c, of_n, hidden * (1 - o)))


def _follow_maximum(
    shift: Tensor, gates: Tensor, log_forget: Tensor
) -> tuple[tuple[Tensor, ...] | None, Tensor]:
    """What the last stabiliser alone owes to the gates that were its maximum.

    Args:
        shift: (heads, batch, dim), how a loss changes with m_T if c_T exp(m_T) and n_T exp(m_T) do
            not change: zero if it sees the state only through further steps.
        gates, log_forget: as in `backward`.

    Returns:
        What to add to the gradients of the pre-activations i and f, for each step, or None for
        nothing; and the part that reaches the stabiliser before the first step.
    """
    if not bool(shift.any()):
        return None, shift
    i, f = gates[:, :, :, 0], gates[:, :, :, 1]
    kept = (f > i).to(f.dtype)
    reached = kept.flip(0).cumprod(0).flip(0)  # from here on, every maximum was the forget gate's
    later = torch.cat([reached[1:], torch.ones_like(reached[:1])]) * shift
    owed = torch.stack([later * (1 - kept), -later * kept * torch.expm1(log_forget)], 3)
    return owed.unbind(0), reached[0] * shift
