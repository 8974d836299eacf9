"""The reference: an obvious loop over the steps, differentiable any number of times."""

from dataclasses import dataclass

import torch

from slicekit.scans.base import Recurrence, Scan, Solution, contract
from slicekit.scans.inputs import Outer
from slicekit.scans.projective import normalise


@dataclass(frozen=True)
class Recurrent(Scan):
    """One step after the other. Slow on long sequences, and what every other scan is tested by."""

    def run(self, recurrence: Recurrence) -> Solution:
        """Loop over the length; with a readout, no state but the last is kept."""
        state, inputs, readout = recurrence.state, recurrence.inputs, recurrence.readout
        if isinstance(inputs, Outer):
            pairs = zip(inputs.left.unbind(1), inputs.right.unbind(1), strict=True)
            driven = (left.unsqueeze(-1) * right.unsqueeze(-2) for left, right in pairs)
        else:
            driven = iter(inputs.unbind(1)) if inputs is not None else None
        queries = iter(readout.unbind(1)) if readout is not None else None
        outputs, scales = [], []
        log_scale = torch.zeros_like(state[:, 0].real) if recurrence.projective else None
        for transition in recurrence.source.steps():
            state = transition.act(state)
            if driven is not None:
                state = state + next(driven)
            if log_scale is not None:
                state, log_norm = normalise(state)
                log_scale = log_scale + log_norm
                scales.append(log_scale)
            outputs.append(state if queries is None else contract(next(queries), state))
        stacked = torch.stack(scales, 1) if scales else None
        return Solution(torch.stack(outputs, 1), state, stacked)
