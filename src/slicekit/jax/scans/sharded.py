"""A sequence spread over devices: one all-gather of each shard's composed transition.

Inside `jax.shard_map`, where every device holds a part of the sequence and all of the batch that it
was given: h at the start of shard s is M_{s-1} ... M_0 h_0, the shards' transitions composed.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from slicekit.jax.scans.associative import closed, compose_all
from slicekit.jax.scans.base import Recurrence, Scan, Solution, dense_inputs


@dataclass(frozen=True)
class Sharded(Scan):
    """The sequence lies along an axis of a mesh; for use inside `jax.shard_map`.

    Args:
        axis: name of the mesh axis along which the sequence is split, in order.
        inner: the scan of a shard, or None for the fastest that applies.
    """

    axis: str
    inner: Scan | None = None

    def run(self, recurrence: Recurrence) -> Solution:
        """Compose the shard, gather all shards, and run the own one from where it starts.

        Raises:
            ValueError: for projective states, whose products could overflow.
        """
        if recurrence.projective:
            raise ValueError("scan=Sharded() can't carry projective states")
        from slicekit.jax.scans.entry import choose

        source = recurrence.source
        transition = closed(source.transition(source.steps()))
        inputs = dense_inputs(recurrence.inputs)
        gathered = self._gather(compose_all(transition, inputs))

        def onward(state: Any, shard: Any) -> Any:
            moved, driven = shard
            after = moved.act(state)
            return (after if driven is None else after + driven), state

        varying = jax.lax.pcast(recurrence.state, self.axis, to="varying")
        last, starts = lax.scan(onward, varying, gathered)
        start = jnp.take(starts, lax.axis_index(self.axis), axis=0)
        inner = choose(self.inner, recurrence)
        return inner.run(recurrence._replace(state=start))._replace(last=last)

    def _gather(self, composed: Any) -> Any:
        """The arrays of all shards, with the shards as a first axis, by one message."""
        flat, unflatten = ravel_pytree(composed)
        return jax.vmap(unflatten)(lax.all_gather(flat, self.axis))
