"""What JAX's transformations make of `solve`: vmap, jvp, checkpoint, second derivatives, shards."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import slicekit.jax as sj

STRUCTURE = sj.DirectSum(sj.BlockDiagonal(4, 2), sj.Orthogonal(2, 2), sj.DPLR(3, 1))
PARAMETERS: Any = {
    name: np.asarray(x, np.float64) for name, x in STRUCTURE.init(2, jax.random.key(0)).items()
}
STEPS = np.random.default_rng(0).normal(size=(2, 6, 2)) * 0.3
START = np.random.default_rng(1).normal(size=(2, 9))


def states(steps: Array, start: Any = START, scan: Any = None) -> Array:
    return sj.solve(STRUCTURE, PARAMETERS, jnp.asarray(steps), jnp.asarray(start), scan=scan)[0]


def test_vmap_is_a_loop() -> None:
    many = np.stack([STEPS, 2 * STEPS])
    np.testing.assert_allclose(
        jax.jit(jax.vmap(states))(many), np.stack([jax.jit(states)(x) for x in many]), rtol=1e-12
    )


def test_forward_mode_is_the_difference_quotient() -> None:
    direction = np.ones_like(STEPS)
    _, tangent = jax.jit(lambda x: jax.jvp(states, (x,), (direction,)))(STEPS)
    run, small = jax.jit(states), 1e-6
    quotient = (run(STEPS + small * direction) - run(STEPS - small * direction)) / (2 * small)
    np.testing.assert_allclose(tangent, quotient, rtol=1e-6, atol=1e-8)


def test_second_derivatives_are_those_of_the_gradient() -> None:
    def loss(x: Array) -> Array:
        return (states(x) ** 2).sum()

    direction, small = np.ones_like(STEPS), 1e-6
    slope = jax.jit(jax.grad(loss))
    product = jax.jit(lambda x: jax.jvp(jax.grad(loss), (x,), (direction,))[1])(STEPS)
    quotient = (slope(STEPS + small * direction) - slope(STEPS - small * direction)) / (2 * small)
    np.testing.assert_allclose(product, quotient, rtol=1e-5, atol=1e-7)


def test_checkpoint_changes_nothing() -> None:
    def loss(x: Array) -> Array:
        return (states(x) ** 2).sum()

    np.testing.assert_allclose(
        jax.jit(jax.grad(jax.checkpoint(loss)))(STEPS), jax.jit(jax.grad(loss))(STEPS), rtol=1e-12
    )


def test_half_precision_is_computed_in_single() -> None:
    half = jnp.asarray(STEPS, jnp.bfloat16)
    single = {name: jnp.asarray(x, jnp.float32) for name, x in PARAMETERS.items()}
    start = jnp.asarray(START, jnp.bfloat16)
    run = jax.jit(lambda steps: sj.solve(STRUCTURE, single, steps, start))
    h, last = run(half)
    want, end = run(half.astype(jnp.float32))
    assert h.dtype == jnp.bfloat16 and last.dtype == jnp.float32
    np.testing.assert_array_equal(h, want.astype(jnp.bfloat16))
    np.testing.assert_array_equal(last, end)
