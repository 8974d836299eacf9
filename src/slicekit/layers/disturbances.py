"""Small changes of a state: where they point, and what became of their norms.

Glossary: free disturbances point anywhere; the others are sums of differences between given states.
"""

import torch
from torch import Tensor, nn

from slicekit.paths import Tabulated
from slicekit.scans import Projective

DISTURBED = 64
"""How many sequences of a batch are disturbed."""


def draw_disturbances(
    increments: Tensor | Tabulated, dim: int, states: Tensor | None
) -> tuple[Projective, int]:
    """A disturbance of norm 1 for each sequence, drawn at random.

    Args:
        increments: (batch, length, channels): tells their number, dtype and device.
        dim: size of the state.
        states: (count, dim), whose differences half of them are made of; None for free ones only.

    Returns:
        (batch, dim) as a `Projective` state, and how many of them, the first ones, are free.
    """
    count, like = increments.shape[0], {"dtype": increments.dtype, "device": increments.device}
    free = count if states is None else (count + 1) // 2
    drawn = torch.randn(free, dim, **like)
    if states is not None:
        apart = (states - states.mean(0)).to(**like)
        drawn = torch.cat([drawn, torch.randn(count - free, apart.shape[0], **like) @ apart])
    direction = nn.functional.normalize(drawn, dim=-1)
    return Projective(direction, direction.new_zeros(count)), free


def change_of_norm(log_norm: Tensor, free: int) -> tuple[Tensor, Tensor]:
    """How much the free disturbances grew, and how much the others grew or shrank.

    Args:
        log_norm: (batch, length), of disturbances that had norm 1.
        free: how many of them, the first ones, may shrink.

    Returns:
        The means of max(0, log |δ_t|²)² over the first and of (log |δ_t|²)² over the rest; 0 where
        there are none.
    """
    changes = 2 * log_norm
    grown, kept = changes[:free].clamp_min(0), changes[free:]
    return tuple(x.square().sum() / max(1, x.numel()) for x in (grown, kept))  # type: ignore[return-value]
