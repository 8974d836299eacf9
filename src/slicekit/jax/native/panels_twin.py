"""The fused recurrence in pure JAX: what the kernel computes, for derivatives it does not know."""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from slicekit.jax.native.kernel import Arrays
from slicekit.jax.native.panels import BLOCKS, HADAMARD, SKEW, Panels, Part, divided_steps
from slicekit.jax.structures import Generator, Orthogonal, SumTransition, Transition, WalshHadamard
from slicekit.jax.structures.base import weighted_sum
from slicekit.jax.structures.block_diagonal import BlockGenerator
from slicekit.jax.structures.low_rank import LowRankGenerator


def states_of(panels: Panels, arrays: Arrays, outputs: Arrays) -> Arrays:
    """The states, and the factors as the kernel found them."""
    parameters, rest = arrays[: panels.count], list(arrays[panels.count :])
    path, index = rest.pop(0), rest.pop(0) if panels.tokens else None
    state, inputs = rest[0], rest[1] if panels.driven else None
    made = _transition(panels, parameters, path if panels.tokens else jnp.swapaxes(path, 0, 1))
    length = path.shape[1] if index is None else index.shape[1]
    factors = lax.stop_gradient(outputs[1]) if panels.rescale else None
    count = made.stepwise_count()
    xs: Any = (
        made.arrays()[:count] if index is None else jnp.swapaxes(index, 0, 1),
        None if inputs is None else jnp.swapaxes(inputs, 0, 1),
        None if factors is None else divided_steps(factors, length, panels.rescale),
    )

    def step(state: Array, x: Any) -> tuple[Array, Array]:
        here, driven, factor = x
        steps = here if index is None else tuple(a[here] for a in made.arrays()[:count])
        state = state if factor is None else state / factor
        state = made.with_arrays((*steps, *made.arrays()[count:])).act(state)
        state = state if driven is None else state + driven
        return state, state

    states = jnp.swapaxes(lax.scan(step, state, xs)[1], 0, 1)
    return (states,) if factors is None else (states, factors)


def _transition(panels: Panels, parameters: Arrays, increments: Array) -> Transition:
    given, parts = iter(parameters), []
    for part in panels.parts:
        generator = _generator(part, [next(given) for _ in range(part.arrays)], increments)
        parts.append(generator.exponential() if part.exponential else generator.euler())
    return parts[0] if len(parts) == 1 else SumTransition(tuple(parts))


def _generator(part: Part, theta: list[Array], increments: Array) -> Generator:
    channels = increments.shape[-1]
    if part.kind == BLOCKS:
        shape = (channels, part.dim // part.size, part.size, part.size)
        return BlockGenerator(weighted_sum(increments, theta[0].reshape(shape)))
    if part.kind == SKEW:
        angles = theta[0].reshape(channels, part.dim // part.size, -1)
        return Orthogonal(part.dim, part.size).combine({"angles": angles}, increments)
    if part.kind == HADAMARD:
        return WalshHadamard(part.dim, bounded=False).combine({"values": theta[0]}, increments)
    return LowRankGenerator(*(weighted_sum(increments, x) for x in theta))
