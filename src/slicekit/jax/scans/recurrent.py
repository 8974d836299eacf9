"""One step after the other by `lax.scan`: the fastest way on a CPU, and the reference."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from slicekit.jax.scans.base import Recurrence, Scan, Solution, Source, contract, dense_inputs
from slicekit.jax.scans.projective import normalise


@dataclass(frozen=True)
class Recurrent(Scan):
    """One step after the other; every transition is made before, by one product for all steps.

    Differentiable any number of times, forwards and backwards.
    """

    def run(self, recurrence: Recurrence) -> Solution:
        """Scan over the length; with a readout, no state but the last is kept."""
        start = (recurrence.state, zero_scale(recurrence))
        source = recurrence.source.prepared()
        xs = (source.steps(), recurrence.inputs, recurrence.readout)
        (last, _), (outputs, scales) = lax.scan(step_of(source, recurrence.projective), start, xs)
        return Solution(outputs, last, scales)


def zero_scale(recurrence: Recurrence) -> Array | None:
    """The logarithm of what a projective state was divided by at the start: nothing."""
    if not recurrence.projective:
        return None
    return jnp.zeros_like(jnp.abs(recurrence.state[:, 0]))


def step_of(source: Source, projective: bool) -> Any:
    """The body of a scan: (state, log_scale) and a step's (transition, input, query)."""

    def step(carry: Any, x: Any) -> Any:
        (state, log_scale), (made, inputs, query) = carry, x
        state = source.transition(made).act(state)
        driven = dense_inputs(inputs)
        if driven is not None:
            state = state + driven
        if projective:
            state, log_norm = normalise(state)
            log_scale = log_scale + log_norm
        output = state if query is None else contract(query, state)
        return (state, log_scale), (output, log_scale)

    return step
