"""Log-signatures of windows of a path, and of neighbouring intervals put together.

Nothing is divided by time. A zero increment changes nothing, so zero padding is exact.
"""

import jax.numpy as jnp
from jax import Array

from slicekit.descriptions.checks import check_whole
from slicekit.jax.checks import check_floating, check_same, check_shape
from slicekit.jax.native import log_signatures as native
from slicekit.jax.paths.lie_bases import LieBasis
from slicekit.jax.paths.tensor_algebra import (
    signature,
    signatures_since,
    tensor_exp,
    tensor_log,
    tensor_product,
)


def log_signatures(
    increments: Array, basis: LieBasis, window: int, *, stream: bool = False
) -> Array:
    """The log-signature of each run of `window` consecutive increments.

    Args:
        increments: (batch, length, channels), floating.
        basis: of the coefficients, `hall(channels, depth)` or `lyndon(channels, depth)`.
        window: increments in a window, at least one; the last window may have fewer.
        stream: whether to give, after every increment, what has come of its window.

    Returns:
        (batch, ceil(length / window), basis.size), with stream (batch, length, basis.size).

    Raises:
        TypeError: if increments are not floating or window is no integer.
        ValueError: if a shape does not fit the basis, or window < 1.

    >>> from slicekit.jax.paths import hall
    >>> increments = jnp.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
    >>> log_signatures(increments, hall(2, 2), window=2)
    Array([[[1. , 1. , 0.5],
            [1. , 1. , 0. ]]], dtype=float32)
    """
    check_increments(increments, basis)
    check_whole("window", window)
    if not stream and native.suits(increments, basis):
        return native.log_signatures(increments, basis, window)
    coefficients = of_runs(in_windows(increments, window), basis, stream=stream)
    if not stream:
        return coefficients
    return coefficients.reshape(coefficients.shape[0], -1, basis.size)[:, : increments.shape[1]]


def check_increments(increments: Array, basis: LieBasis) -> None:
    """Raise unless increments are floating, (batch, length, channels of the basis)."""
    check_shape("increments", increments, ("batch", "length", "channels"))
    check_floating("increments", increments)
    if increments.shape[-1] != basis.channels:
        raise ValueError(
            f"increments has {increments.shape[-1]} channels, "
            f"but the basis is {basis.name}({basis.channels}, {basis.depth})"
        )


def in_windows(increments: Array, window: int) -> Array:
    """Cut into windows, the last one filled up by zeros: (batch, windows, window, channels)."""
    batch, length, channels = increments.shape
    window = max(1, min(window, length))
    filled = jnp.pad(increments, ((0, 0), (0, -length % window), (0, 0)))
    return filled.reshape(batch, -1, window, channels)


def of_runs(increments: Array, basis: LieBasis, *, stream: bool = False) -> Array:
    """The log-signature of each path: (..., length, channels) -> (..., [length,] basis.size)."""
    if basis.depth == 1:
        return jnp.cumsum(increments, -2) if stream else increments.sum(-2)
    if basis.depth == 2:
        return _increment_and_areas(increments, basis, stream)
    expanded = signature(increments, basis.depth, stream=stream)
    return basis.project(tensor_log(expanded, basis.channels, basis.depth))


def between(increments: Array, basis: LieBasis, edges: Array) -> Array:
    """The log-signature of each run of increments from one edge to the next.

    Args:
        increments: (batch, length, channels), floating.
        basis: of the coefficients.
        edges: (batch, windows + 1) integers that do not decrease, in 0..length: window w has
            increments edges[w] to edges[w + 1] - 1.

    Returns:
        (batch, windows, basis.size), zero for a window without increments.
    """
    if native.suits(increments, basis):
        return native.between(increments, basis, edges)
    return of_edges(increments, basis, edges)


def of_edges(increments: Array, basis: LieBasis, edges: Array) -> Array:
    """As `between`, in pure JAX."""
    batch, length, channels = increments.shape
    rows = jnp.arange(batch)[:, None]
    begins = jnp.zeros((batch, length + 1), bool).at[rows, edges].set(True)[:, :length]
    streamed = signatures_since(increments, basis.depth, begins)
    ends = jnp.maximum(edges[:, 1:] - 1, 0)
    filled = (edges[:, 1:] > edges[:, :-1])[..., None]
    expanded = jnp.where(filled, streamed[rows, ends], 0)
    return basis.project(tensor_log(expanded, channels, basis.depth))


def _increment_and_areas(increments: Array, basis: LieBasis, stream: bool) -> Array:
    """Depth 2: both bases are the increment, then the Lévy areas of the pairs i < j."""
    after = jnp.cumsum(increments, -2)
    before = after - increments
    left, right = basis.brackets[0]
    if stream:
        steps = before[..., left] * increments[..., right]
        steps = steps - before[..., right] * increments[..., left]
        return jnp.concatenate([after, jnp.cumsum(steps, -2) / 2], -1)
    half = before.mT @ increments / 2
    return jnp.concatenate([increments.sum(-2), (half - half.mT)[..., left, right]], -1)


def chen(basis: LieBasis, earlier: Array, later: Array) -> Array:
    """The log-signature of two neighbouring intervals put together, by Chen's relation.

    Args:
        basis: of all coefficients.
        earlier: (..., basis.size), of the first interval.
        later: (..., basis.size), of the second.

    Returns:
        (..., basis.size).

    >>> from slicekit.jax.paths import hall
    >>> chen(hall(2, 2), jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 1.0, 0.0]))
    Array([1. , 1. , 0.5], dtype=float32)
    """
    check_shape("earlier", earlier, (..., basis.size))
    check_shape("later", later, (..., basis.size))
    check_floating("earlier", earlier)
    check_same("later", later, "earlier", earlier)
    if basis.depth == 1:
        return earlier + later
    if basis.depth == 2:
        left, right = basis.brackets[0]
        areas = earlier[..., left] * later[..., right] - earlier[..., right] * later[..., left]
        room = [(0, 0)] * (areas.ndim - 1) + [(basis.channels, 0)]
        return earlier + later + jnp.pad(areas / 2, room)
    sizes = basis.channels, basis.depth
    first = tensor_exp(basis.expand(earlier), *sizes)
    second = tensor_exp(basis.expand(later), *sizes)
    return basis.project(tensor_log(tensor_product(first, second, *sizes), *sizes))
