"""The tensor algebra truncated at a depth, and signatures in it; as `slicekit.paths`.

An element is kept in expanded form without its scalar: (..., d + d² + ... + d^N), level after
level, words in lexicographic order. Signatures have the scalar 1, Lie elements 0.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from slicekit.descriptions.checks import check_whole
from slicekit.descriptions.words import expanded_size
from slicekit.jax.checks import check_floating, check_same, check_shape

Levels = list[Array]


def signature(increments: Array, depth: int, *, stream: bool = False) -> Array:
    """The signature of the piecewise linear path with these increments, in expanded form.

    Args:
        increments: (..., length, channels), floating.
        depth: the largest number of letters in a word, at least one.
        stream: whether to give the signature of every prefix.

    Returns:
        (..., channels + ... + channels^depth), with stream (..., length, channels + ...).

    >>> signature(jnp.array([[1.0, 0.0], [0.0, 1.0]]), 2)
    Array([1. , 1. , 0.5, 1. , 0. , 0.5], dtype=float32)
    """
    check_shape("increments", increments, (..., "length", "channels"))
    check_floating("increments", increments)
    check_whole("depth", depth)
    before: Levels = []
    results: Levels = []
    for level in range(1, depth + 1):
        factor = _horner(before, increments, level)
        if level == depth and not stream:
            results.append(_sum_of_products(factor, increments))
            break
        after = jnp.cumsum(_outer(factor, increments), -2)
        results.append(after if stream else after[..., -1, :])
        before.append(_earlier(after))
    return jnp.concatenate(results, -1)


def signatures_since(increments: Array, depth: int, begins: Array) -> Array:
    """After every increment, the signature since the last one at which something begins.

    Args:
        increments: (..., length, channels), floating.
        depth: the largest number of letters in a word.
        begins: (..., length) bool; the first increment always begins something.

    Returns:
        (..., length, channels + ... + channels^depth).

    >>> steps = jnp.array([[1.0], [2.0], [4.0]])
    >>> signatures_since(steps, 1, jnp.array([False, True, False])).ravel()
    Array([1., 2., 6.], dtype=float32)
    """
    begun = begins[..., None]

    def join(earlier: Any, later: Any) -> Any:
        (sum_, begun), (more, anew) = earlier, later
        return jnp.where(anew, more, sum_ + more), begun | anew

    before: Levels = []
    results: Levels = []
    for level in range(1, depth + 1):
        change = _outer(_horner(before, increments, level), increments)
        after, _ = lax.associative_scan(join, (change, begun), axis=change.ndim - 2)
        results.append(after)
        before.append(jnp.where(begun, 0, _earlier(after)))
    return jnp.concatenate(results, -1)


def _earlier(after: Array) -> Array:
    """What there was before each step: (..., length, size), zero at first."""
    return jnp.concatenate([jnp.zeros_like(after[..., :1, :]), after[..., :-1, :]], -2)


def _horner(before: Levels, increments: Array, level: int) -> Array | None:
    """What stands left of the last ⊗ Δ in the change of a level; None is the scalar 1."""
    if level == 1:
        return None
    sum_ = before[0] + increments / level
    for lower in range(1, level - 1):
        sum_ = before[lower] + _outer(sum_, increments / (level - lower))
    return sum_


def _outer(left: Array | None, right: Array) -> Array:
    """Words of the left, then of the right factor: (..., m) and (..., n) to (..., m n)."""
    if left is None:
        return right
    product = left[..., :, None] * right[..., None, :]
    return product.reshape(*product.shape[:-2], -1)


def _sum_of_products(left: Array | None, right: Array) -> Array:
    if left is None:
        return right.sum(-2)
    product = left.mT @ right
    return product.reshape(*product.shape[:-2], -1)


def tensor_product(x: Array, y: Array, channels: int, depth: int) -> Array:
    """The product (1 + x) ⊗ (1 + y) − 1: Chen's relation, if x and y are signatures."""
    size = expanded_size(channels, depth)
    check_shape("x", x, (..., size))
    check_shape("y", y, (..., size))
    check_same("x", x, "y", y)
    a, b = _levels(x, channels, depth), _levels(y, channels, depth)
    mixed = zip(a[1:], b[1:], _product(a, b), strict=True)
    return jnp.concatenate([a[0] + b[0], *(p + q + product for p, q, product in mixed)], -1)


def tensor_log(x: Array, channels: int, depth: int) -> Array:
    """log(1 + x) = x − x²/2 + x³/3 − ..., truncated."""
    check_shape("x", x, (..., expanded_size(channels, depth)))
    return _series(x, channels, depth, [(-1) ** power / (power + 1) for power in range(depth)])


def tensor_exp(x: Array, channels: int, depth: int) -> Array:
    """exp(x) − 1 = x + x²/2 + x³/6 + ..., truncated."""
    check_shape("x", x, (..., expanded_size(channels, depth)))
    weights = [1.0]
    for power in range(2, depth + 1):
        weights.append(weights[-1] / power)
    return _series(x, channels, depth, weights)


def _series(x: Array, channels: int, depth: int, weights: list[float]) -> Array:
    """w_0 x + w_1 x² + ... by Horner: x (w_0 + x (w_1 + ...)); x^n starts at level n."""
    levels = _levels(x, channels, depth)
    sum_ = [weights[-1] * levels[0]]
    for weight in reversed(weights[:-1]):
        scaled = [weight * level for level in levels[: len(sum_) + 1]]
        products = _product(levels[: len(sum_) + 1], sum_)
        sum_ = [scaled[0], *(a + b for a, b in zip(scaled[1:], products, strict=True))]
    return jnp.concatenate(sum_, -1)


def _product(x: Levels, y: Levels) -> Levels:
    """x ⊗ y at levels 2, 3, ..., len(x), both without a scalar."""
    products = []
    for level in range(2, len(x) + 1):
        product = _outer(x[0], y[level - 2])
        for left in range(2, level):
            product = product + _outer(x[left - 1], y[level - left - 1])
        products.append(product)
    return products


def _levels(x: Array, channels: int, depth: int) -> Levels:
    edges = np.cumsum([channels**level for level in range(1, depth)]).tolist()
    return jnp.split(x, edges, axis=-1)
