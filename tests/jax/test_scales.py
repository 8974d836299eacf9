"""Projective states in JAX: rows that leave the range of floats come back as they were."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slicekit.jax as sj
from slicekit.jax.scans.scales import exponents, powers_of_two
from tests.jax.twins import JAX_SCANS, need

HALF = 160
"""Steps for which a row halves before it doubles again: 2^-160 is no float32."""


def there_and_back() -> np.ndarray:
    """Increments (1, 2 HALF, 3): 1 + a is 1/2, then 2, in the last channel."""
    walk = np.random.default_rng(0).normal(size=(1, 2 * HALF, 2)) * 0.05
    last = np.where(np.arange(2 * HALF) < HALF, -0.5, 1.0)
    return np.concatenate([walk, np.broadcast_to(last[None, :, None], (1, 2 * HALF, 1))], -1)


STRUCTURE = sj.DirectSum(sj.Diagonal(1), sj.BlockDiagonal(4, 2))


def parameters(dtype: Any) -> Any:
    """The last channel drives the first row alone."""
    blocks = np.random.default_rng(1).normal(size=(3, 2, 2, 2))
    blocks[2] = 0
    own = {"part0_values": np.array([[0.0], [0.0], [1.0]]), "part1_blocks": blocks}
    return {name: jnp.asarray(x, dtype) for name, x in own.items()}


@pytest.mark.parametrize("scan", ["native", "recurrent", "chunked-5"])
def test_a_row_that_falls_far_returns_with_its_gradient(scan: str) -> None:
    need(scan)

    def loss(path: Any, own: Any) -> Any:
        start = sj.Projective.of(jnp.ones((1, 5), path.dtype))
        h, last = sj.solve(STRUCTURE, own, path, start, scan=JAX_SCANS[scan])
        return (last.direction * jnp.arange(1, 6)).sum() + last.log_norm.sum(), h.direction

    def plain(path: Any, own: Any) -> Any:
        h, last = sj.solve(STRUCTURE, own, path, jnp.ones((1, 5), path.dtype), scan=sj.Recurrent())
        norms = jnp.linalg.norm(h, axis=-1, keepdims=True)
        norm = jnp.linalg.norm(last)
        return (last / norm * jnp.arange(1, 6)).sum() + jnp.log(norm), h / norms

    path = there_and_back()
    single = jax.jit(jax.grad(loss, (0, 1), has_aux=True))(
        jnp.asarray(path, jnp.float32), parameters(jnp.float32)
    )
    double = jax.jit(jax.grad(plain, (0, 1), has_aux=True))(
        jnp.asarray(path), parameters(jnp.float64)
    )
    for a, b in zip(jax.tree.leaves(single), jax.tree.leaves(double), strict=True):
        assert a.dtype == jnp.float32
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4)


def test_powers_of_two_are_exact() -> None:
    for dtype in (jnp.float32, jnp.float64):
        numbers = jnp.asarray([1e-30, 0.75, 1.0, 3.0, 1e30], dtype)
        powers = powers_of_two(exponents(numbers), numbers.dtype)
        want = 2.0 ** np.floor(np.log2(np.asarray(numbers, np.float64)))
        np.testing.assert_array_equal(powers, want.astype(dtype))
