"""One step after the other by `lax.scan`: the reference, and the way of what has no kernel."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax

from slicekit.jax.scans.base import Recurrence, Scan, Solution, Source, contract, dense_inputs
from slicekit.jax.scans.scales import WINDOW, directions, rescaled


@dataclass(frozen=True)
class Recurrent(Scan):
    """One step after the other; every transition is made before, by one product for all steps.

    Differentiable any number of times, forwards and backwards.
    """

    def run(self, recurrence: Recurrence) -> Solution:
        """Scan over the length; with a readout, no state but the last is kept."""
        source = recurrence.source.prepared()
        xs = (source.steps(), recurrence.inputs, recurrence.readout)
        step = step_of(source, recurrence.projective)
        carry, made = lax.scan(step, first_carry(recurrence), xs)
        return solution(recurrence, carry, made)


def first_carry(recurrence: Recurrence) -> Any:
    """What `step_of` begins with: the state, and of a projective one its exponents and the time."""
    state = recurrence.state
    if not recurrence.projective:
        return state, None, None
    return state, jnp.zeros(state.shape, jnp.int32), jnp.zeros((), jnp.int32)


def solution(recurrence: Recurrence, carry: Any, made: Any) -> Solution:
    """What a scan found, from its last carry and what it made of each step."""
    outputs, exponents = made
    if not recurrence.projective:
        return Solution(outputs, carry[0])
    direction, log_norm = directions(outputs, exponents)
    return Solution(direction, direction[-1], log_norm)


def step_of(source: Source, projective: bool) -> Any:
    """The body of a scan: `first_carry` and a step's (transition, input, query)."""

    def step(carry: Any, x: Any) -> Any:
        (state, exponent, time), (made, inputs, query) = carry, x
        transition = source.transition(made)
        if projective:
            state, exponent = lax.cond(
                (time % WINDOW == 0) & (time > 0),
                lambda state, exponent: rescaled(transition, state, exponent),
                lambda state, exponent: (state, exponent),
                state,
                exponent,
            )
            time = time + 1
        state = transition.act(state)
        driven = dense_inputs(inputs)
        if driven is not None:
            state = state + driven
        output = state if query is None else contract(query, state)
        return (state, exponent, time), (output, exponent)

    return step
