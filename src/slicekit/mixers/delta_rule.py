"""The delta rule: before a key's value is written, what is stored under that key is erased.

Glossary:
    queries, keys, values  q_t, k_t, v_t
    beta                   β_t   how much is erased and written: 0 nothing, 1 all, 2 a reflection
    decay                  α_t   how much of the whole state is kept
    transition             M_t = α_t (I - β_t k_t k_t^T), diagonal plus rank one
    inputs                 β_t k_t v_t^T

With |k_t| = 1 the eigenvalue of M_t along k_t is α_t (1 - β_t): in [0, 1] for β_t = sigmoid(.), in
[-1, 1] for twice that, which is what state tracking needs.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from slicekit.mixers.discretisation import StepSizes
from slicekit.mixers.heads import Steps
from slicekit.scans import Outer
from slicekit.structures import LowRankTransition

RATES = 16.0
"""Largest initial rate exp(log_rate)."""


def delta_steps(
    queries: Tensor, keys: Tensor, values: Tensor, beta: Tensor, decay: Tensor | None = None
) -> Steps:
    """H <- α (I - β k k^T) H + β k v^T and o = q^T H, as transitions, inputs and a readout.

    Args:
        queries: q, (batch, length, keys), scaled as they are to be used.
        keys: k, (batch, length, keys), normalised.
        values: v, (batch, length, values).
        beta: β, (batch, length).
        decay: α, (batch, length); None for 1.

    Example:
        >>> one = torch.ones(1, 1, 1)
        >>> steps = delta_steps(one, one, 5 * one, beta=torch.ones(1, 1))
        >>> steps.run(torch.full((1, 1, 1, 1), 3.0))[0].item()
        5.0
    """
    written = beta.unsqueeze(-1) * keys
    if decay is None:
        kept, erased = keys.new_ones(1).expand_as(keys), written
    else:
        decay = decay.unsqueeze(-1)
        kept, erased = decay.expand_as(keys), decay * written
    transition = LowRankTransition(kept, -erased.unsqueeze(-1), keys.unsqueeze(-1))
    return Steps(transition, Outer(written, values), queries)


def product_steps(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    beta: Tensor,
    decay: Tensor | None = None,
) -> Steps:
    """Several delta steps for each element: the decay is in the first, the readout after the last.

    Args:
        queries: q, (batch, length, keys).
        keys: k^j, (batch, length, rank, keys).
        values: v^j, (batch, length, rank, values).
        beta: β^j, (batch, length, rank).
        decay: α, (batch, length); None for 1.
    """
    rank = keys.shape[2]
    if decay is not None:
        decay = functional.pad(decay.unsqueeze(-1), (0, rank - 1), value=1.0).flatten(1)
    queries = functional.pad(queries.unsqueeze(2), (0, 0, rank - 1, 0)).flatten(1, 2)
    steps = delta_steps(queries, keys.flatten(1, 2), values.flatten(1, 2), beta.flatten(1), decay)
    return Steps(steps.transitions, steps.inputs, steps.readout, rank)


class Beta(nn.Module):
    """β = sigmoid(W x), or twice that.

    Args:
        width: size of an input element.
        outputs: number of β's.
        negative: whether β reaches 2, so that eigenvalues reach -1.
    """

    def __init__(self, width: int, outputs: int, negative: bool) -> None:
        """Draw W."""
        super().__init__()
        self.negative = negative
        self.map = nn.Linear(width, outputs, bias=False)

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """(batch, length, width) -> (batch, length, outputs), in the dtype given."""
        beta = self.map(x).to(dtype).sigmoid()
        return 2 * beta if self.negative else beta


class Decay(nn.Module):
    """α = exp(-exp(log_rate) softplus(W x + step_bias)), one for each head: Mamba-2's gate.

    Args:
        width: size of an input element.
        heads: number of heads.

    The rates start uniform on (0, 16], the steps softplus(step_bias) as `StepSizes()` draws them.
    """

    def __init__(self, width: int, heads: int) -> None:
        """Draw W, rates and steps."""
        super().__init__()
        self.map = nn.Linear(width, heads, bias=False)
        self.log_rate = nn.Parameter((RATES * (1 - torch.rand(heads))).log())
        self.step_bias = nn.Parameter(StepSizes().draw_bias(heads))

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """(batch, length, width) -> (batch * heads, length), in the dtype given."""
        # Contiguous, because the gradient of softplus is not where torch.compile expects it else.
        logits = self.map(x).to(dtype).mT.contiguous()
        step = functional.softplus(logits + self.step_bias.to(dtype).unsqueeze(-1))
        rate = self.log_rate.to(dtype).exp().unsqueeze(-1)
        return torch.exp(-rate * step).flatten(0, 1)
