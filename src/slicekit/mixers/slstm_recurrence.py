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
from torch.utils.flop_counter import register_flop_formula

from slicekit.dispatch import apply, plain_torch
from slicekit.mixers import slstm_passes as passes
from slicekit.mixers.flop_counts import of_slstm, of_slstm_adjoint
from slicekit.native.mapping import map_by_loop

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
    found = []
    for wx in driven.unbind(0):
        raw = wx + torch.bmm(h, recurrent).unflatten(-1, (4, -1))
        i, f, z, o = raw.unbind(-2)
        kept = functional.logsigmoid(f) + m
        m = torch.maximum(i, kept)
        gain, decay = torch.exp(i - m), torch.exp(kept - m)
        c = decay * c + gain * torch.tanh(z)
        n = decay * n + gain
        h = torch.sigmoid(o) * c / n
        found.append(h)
    return torch.stack(found), torch.stack([h, c, n, m])


def slstm_recurrence(driven: Tensor, recurrent: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The same as `slstm_reference`, fast, differentiable once in reverse mode.

    Example:
        >>> state = torch.stack([torch.zeros(2, 3, 4)] * 2 + [torch.ones(2, 3, 4)] * 2)
        >>> h, last = slstm_recurrence(torch.randn(7, 2, 3, 4, 4), torch.randn(2, 4, 16), state)
        >>> h.shape, last.shape
        (torch.Size([7, 2, 3, 4]), torch.Size([4, 2, 3, 4]))
    """
    operands = (driven, recurrent, state)
    taped = torch.is_grad_enabled() and any(x.requires_grad for x in operands)
    results: Any
    if torch.compiler.is_compiling() and not taped:
        results = _loop(*operands, False)
    else:
        advice = "take them in reverse mode: torch.func.grad, vjp or jacrev"
        results = apply(_Loop, "the fast loop of the sLSTM has", advice, *operands, taped)
    hidden, last, *_ = results
    return hidden, last


@torch.library.custom_op("slicekit::slstm", mutates_args=())
def _loop(
    driven: Tensor, recurrent: Tensor, state: Tensor, keep: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    with plain_torch(), torch.no_grad():
        return passes.forward(driven, recurrent, state, keep)


@_loop.register_fake
def _(
    driven: Tensor, recurrent: Tensor, state: Tensor, keep: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    length, heads, batch, _, dim = driven.shape
    slots = length if keep else 1
    return (
        driven.new_empty(length, heads, batch, dim),
        driven.new_empty(4, heads, batch, dim),
        driven.new_empty(slots, heads, batch, 4, dim),
        driven.new_empty(slots, heads, batch, dim),
        driven.new_empty(slots + 1 if keep else 1, 2, heads, batch, dim),
    )


@torch.library.custom_op("slicekit::slstm_adjoint", mutates_args=())
def _adjoint(
    recurrent: Tensor,
    start: Tensor,
    hidden: Tensor,
    gates: Tensor,
    log_forget: Tensor,
    memories: Tensor,
    in_hidden: Tensor,
    in_last: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    with plain_torch(), torch.no_grad():
        return passes.backward(
            recurrent, start, hidden, gates, log_forget, memories, in_hidden, in_last
        )


@_adjoint.register_fake
def _(
    recurrent: Tensor,
    start: Tensor,
    hidden: Tensor,
    gates: Tensor,
    log_forget: Tensor,
    memories: Tensor,
    in_hidden: Tensor,
    in_last: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return (
        gates.new_empty(gates.shape),
        recurrent.new_empty(recurrent.shape),
        gates.new_empty(4, *hidden.shape[1:]),
    )


class _Loop(torch.autograd.Function):
    """What `passes.forward` returns; the first two are differentiable."""

    @staticmethod
    def forward(driven: Tensor, recurrent: Tensor, state: Tensor, keep: bool) -> tuple[Tensor, ...]:
        return _loop(driven, recurrent, state, keep)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        _, recurrent, state, _ = inputs
        hidden, _, *kept = output
        ctx.save_for_backward(recurrent, state, hidden, *kept)
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        recurrent, state, hidden, *kept = ctx.saved_tensors
        in_hidden, in_last = gradients[:2]
        in_hidden = torch.zeros_like(hidden) if in_hidden is None else in_hidden
        in_last = torch.zeros_like(state) if in_last is None else in_last
        # A Function inside a Function's backward is more than torch.compile can trace.
        adjoint: Any = _adjoint if torch.compiler.is_compiling() else _Adjoint.apply
        return *adjoint(recurrent, state, hidden, *kept, in_hidden, in_last), None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        return map_by_loop(_Loop, info, in_dims, args)


class _Adjoint(torch.autograd.Function):
    """The backward pass as a Function of its own, so that a second derivative is refused."""

    @staticmethod
    def forward(*operands: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _adjoint(*operands)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError("the fast loop of the sLSTM gives first derivatives only")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        return map_by_loop(_Adjoint, info, in_dims, args)


register_flop_formula(torch.ops.slicekit.slstm)(of_slstm)
register_flop_formula(torch.ops.slicekit.slstm_adjoint)(of_slstm_adjoint)
