"""How the states of a layer change their size as a sequence goes on.

What is learnt at short lengths holds at long ones only where states look there as they did before.
Disturbances that do not grow are not enough for that: states that all fade have none, and nothing
is left of them in the end. So it is asked how the size of the states, and what tells them apart,
change from position to position.

Numbers that no step mixes with others can only count, in their logarithms: those of one sequence
are far from those of another, which must not be held against them. They drift where their
logarithms do in the mean over sequences, each against the others, as a norm follows in the end.
"""

import torch
from torch import Tensor

from slicekit.checks import HALF, Lengths, check_lengths
from slicekit.paths import valid_mask

FEWEST = 8
"""Sequences that a position needs for its figures to count."""

FLOOR = 1e-6
"""Least spread, as a share of the size: states that agree have no logarithm."""

LEAST = 1e-5
"""Least size of a number, as a share of the largest at its position."""


def drift(states: Tensor, lengths: Lengths | None = None, separate: bool = False) -> Tensor:
    """The variance along time of log size and of log spread of the states h_t.

    Their size at t is the mean of |h_t|² over the sequences, their spread that of |h_t - m_t|² with
    the mean m_t. The first position does not count, where states have seen one token.

    Args:
        states: (batch, length, dim); half precision counts in float32.
        lengths: (batch,) integers; what is behind them does not count.
        separate: whether no step mixes the numbers of a state. Then it is, in the mean over them,
            the variance of the mean of log |h_t,j| over the sequences, less that over all j; a
            position counts as often as there are sequences.

    Returns:
        A scalar with a gradient in the states; 0 where less than two positions have sequences
        enough. No squares overflow.

    Example:
        >>> h = torch.randn(16, 1, 4).expand(16, 50, 4)
        >>> float(drift(h)) < 1e-9, float(drift(h * torch.linspace(1, 0.5, 50)[:, None])) > 0.1
        (True, True)
    """
    batch, length, _ = states.shape
    states = states.float() if states.dtype in HALF else states
    there = states.new_ones(batch, length, dtype=torch.bool)
    if lengths is not None:
        there = valid_mask(check_lengths(lengths, batch, length, device=states.device), length)
    states = torch.where(there.unsqueeze(-1), states, 0)
    count = there.sum(0).to(states.dtype)
    counted = count >= FEWEST
    counted[:1] = False
    if int(counted.sum()) < 2:
        return (0 * states).sum()
    states, count = states[:, counted], count[counted]
    tiny = torch.finfo(states.dtype).tiny
    unit = states.detach().abs().amax((0, 2)).clamp_min(tiny**0.5)
    states = states / unit.unsqueeze(-1)
    if separate:
        logs = (states.square() + LEAST**2).log() / 2
        means = torch.where(there[:, counted, None], logs, 0).sum(0) / count.unsqueeze(-1)
        means = means - means.mean(-1, keepdim=True)
        weights = (count / count.sum()).unsqueeze(-1)
        return (weights * (means - (weights * means).sum(0)).square()).sum(0).mean()
    mean = states.sum(0) / count.unsqueeze(-1)
    size = states.square().sum((0, 2)) / count
    spread = size - mean.square().sum(-1)
    logs = torch.stack([size + tiny, spread.clamp_min(0) + FLOOR * size + tiny]).log()
    return (logs + 2 * unit.log()).var(1, correction=0).sum()
