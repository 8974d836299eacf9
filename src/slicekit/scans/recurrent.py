"""The reference: an obvious loop over the steps, differentiable any number of times."""

from dataclasses import dataclass

import torch

from slicekit.checks import concrete
from slicekit.scans.base import Outer, Recurrence, Scan, Solution, contract
from slicekit.scans.projective import (
    WINDOW,
    differentiable_directions,
    powers_of_two,
    strained,
)


@dataclass(frozen=True)
class Recurrent(Scan):
    """One step after the other. Slow on long sequences, and what every other scan is tested by."""

    def run(self, recurrence: Recurrence) -> Solution:
        """Loop over the length; with a readout, no state but the last is kept."""
        looked_at = recurrence.projective and concrete(recurrence.state)
        return _run(recurrence, WINDOW if looked_at else 1, looked_at)


def _run(recurrence: Recurrence, window: int, looked_at: bool) -> Solution:
    """With so many steps in a window; one, if numbers may be looked at and turn out to need it."""
    state, inputs, readout = recurrence.state, recurrence.inputs, recurrence.readout
    if isinstance(inputs, Outer):
        pairs = zip(inputs.left.unbind(1), inputs.right.unbind(1), strict=True)
        driven = (left.unsqueeze(-1) * right.unsqueeze(-2) for left, right in pairs)
    else:
        driven = iter(inputs.unbind(1)) if inputs is not None else None
    queries = iter(readout.unbind(1)) if readout is not None else None
    outputs, factors = [], []
    for step, transition in enumerate(recurrence.source.steps()):
        if recurrence.projective and step % window == 0:
            size = transition.sizes(state.detach())
            factors.append(powers_of_two(size) if step else torch.ones_like(size))
            state = state / factors[-1]
        state = transition.act(state)
        if driven is not None:
            state = state + next(driven)
        outputs.append(state if queries is None else contract(next(queries), state))
    if not recurrence.projective:
        return Solution(torch.stack(outputs, 1), state)
    divided = torch.stack(factors, 1)
    if looked_at and strained(recurrence.state, state.detach(), divided):
        return _run(recurrence, 1, False)
    directions, log_norm = differentiable_directions(torch.stack(outputs, 1), divided, window)
    return Solution.from_directions(recurrence, directions, log_norm)
