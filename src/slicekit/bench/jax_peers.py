"""Other ways to the same states in JAX: the authors' formulation, and diffrax."""

from dataclasses import dataclass
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
from jax import Array, lax

from slicekit.jax.scans import Recurrence, Scan, Solution


@dataclass(frozen=True)
class Materialised(Scan):
    """Every flow is made first; chunks in sequence, prefix products inside a chunk.

    Args:
        size: steps in a chunk; steps that are left over go one by one.
    """

    size: int

    def run(self, recurrence: Recurrence) -> Solution:
        """Scan over the chunks."""
        flows = recurrence.source.transition(recurrence.source.steps())
        length, size = recurrence.source.length, min(self.size, recurrence.source.length)
        whole = length // size * size

        def chunk(state: Array, flows: Any) -> Any:
            products = lax.associative_scan(lambda a, b: b.compose(a), flows, axis=0)
            states = products.act(state)
            return states[-1], states

        def one(state: Array, flow: Any) -> Any:
            after = flow.act(state)
            return after, after

        chunks = flows.map(lambda x: x[:whole].reshape(-1, size, *x.shape[1:]))
        last, states = lax.scan(chunk, recurrence.state, chunks)
        states = states.reshape(whole, *states.shape[2:])
        if whole < length:
            last, rest = lax.scan(one, last, flows.map(lambda x: x[whole:]))
            states = jnp.concatenate([states, rest])
        return Solution(states, last)


def by_diffrax(layer: Any, x: Array) -> Array:
    """The states of a block-diagonal layer by diffrax: Euler's method along the same path.

    Args:
        layer: a `SLiCE` with blocks, Euler's flow and `FirstInput`.
        x: (batch, length, channels).
    """
    increments = layer.drive(x, None)[:, 1:]
    start = layer.initial.start(layer.start, x[:, 0])
    blocks = layer.A["blocks"]
    steps = increments.shape[1]
    times = jnp.arange(steps + 1.0)

    def field(t: Any, h: Array, args: Any) -> Array:
        rows = h.reshape(blocks.shape[1], blocks.shape[-1])
        return jnp.einsum("ckij,kj->kic", blocks, rows).reshape(h.size, blocks.shape[0])

    def solve(increments: Array, start: Array) -> Array:
        path = jnp.concatenate([jnp.zeros_like(increments[:1]), increments.cumsum(0)])
        control = diffrax.LinearInterpolation(times, path)
        solution = diffrax.diffeqsolve(
            diffrax.ControlTerm(field, control),
            diffrax.Euler(),
            t0=0.0,
            t1=float(steps),
            dt0=1.0,
            y0=start,
            saveat=diffrax.SaveAt(ts=times),
            max_steps=steps + 1,
        )
        assert solution.ys is not None
        return solution.ys

    return jax.vmap(solve)(increments, start)
