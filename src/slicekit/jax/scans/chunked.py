"""Chunks of steps: transitions are made and forgotten chunk by chunk, backwards made again."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from slicekit.descriptions.checks import check_chosen
from slicekit.jax.scans.associative import prefixes
from slicekit.jax.scans.base import (
    FromIncrements,
    FromTokens,
    FromTransitions,
    Recurrence,
    Scan,
    Solution,
    contract,
    dense_inputs,
)
from slicekit.jax.scans.recurrent import first_carry, solution, step_of

SIZE = 64
"""Steps in a chunk, unless the user says."""


@dataclass(frozen=True)
class Chunked(Scan):
    """Chunk after chunk; memory grows with the states and not with the transitions.

    Args:
        size: steps in a chunk; None is 64.
        parallel: whether the steps of a chunk are composed side by side, by an associative scan;
            None does so for closed structures anywhere but on a CPU, where a loop is faster.
            Structures that are not closed, and projective states, always go step by step.
    """

    size: int | None = None
    parallel: bool | None = None

    def __post_init__(self) -> None:
        """Check the size."""
        check_chosen("size", self.size)

    def run(self, recurrence: Recurrence) -> Solution:
        """Scan over the chunks; what is left over is one shorter chunk."""
        source = recurrence.source
        once = isinstance(source, FromIncrements) and source.structure.ragged
        if once or isinstance(source, FromTokens):
            source = source.prepared()  # scattered or tabulated once, not in every chunk
        recurrence = recurrence._replace(source=source)
        xs = (source.steps(), recurrence.inputs, recurrence.readout)
        size = SIZE if self.size is None else self.size
        whole = source.length // size * size
        carry: Any = first_carry(recurrence)
        chunk = jax.checkpoint(self._chunk(recurrence))
        solutions = []
        if whole:
            shape = (whole // size, size)
            parts = jax.tree.map(lambda x: x[:whole].reshape(*shape, *x.shape[1:]), xs)
            carry, made = lax.scan(chunk, carry, parts)
            solutions.append(jax.tree.map(lambda x: x.reshape(whole, *x.shape[2:]), made))
        if whole < source.length:
            carry, made = chunk(carry, jax.tree.map(lambda x: x[whole:], xs))
            solutions.append(made)
        return solution(recurrence, carry, jax.tree.map(lambda *x: jnp.concatenate(x), *solutions))

    def _chunk(self, recurrence: Recurrence) -> Any:
        source, projective = recurrence.source, recurrence.projective
        parallel = jax.default_backend() != "cpu" if self.parallel is None else self.parallel

        def chunk(carry: Any, x: Any) -> Any:
            steps, inputs, queries = x
            transition = source.transition(steps)
            if not (parallel and transition.closed) or projective:
                made = FromTransitions(transition)
                return lax.scan(step_of(made, projective), carry, (made.steps(), inputs, queries))
            states = prefixes(transition, dense_inputs(inputs), carry[0])
            outputs = states if queries is None else contract(queries, states)
            return (states[-1], None, None), (outputs, None)

        return chunk
