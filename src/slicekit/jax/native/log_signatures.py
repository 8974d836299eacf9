"""Log-signatures of windows, and their derivative, by the shared library."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from slicekit.descriptions.word_tables import word_tables
from slicekit.jax.native.handlers import available, call
from slicekit.jax.native.kernel import Arrays, Flags, Kernel, run
from slicekit.jax.paths.lie_bases import LieBasis

DEEPEST = 16
"""The largest depth that the library takes."""

MOST_CHANGES = 1 << 18
"""Entries of a change of basis up to which tables are written into a compiled program."""


@dataclass(frozen=True)
class LogSignatures(Kernel):
    """Coefficients (batch, windows, size) from increments (batch, length, channels).

    Windows have that many increments each, or lie between edges (batch, windows + 1), a second
    array, if window is 0.
    """

    basis: LieBasis
    window: int = 0

    def pure(self, arrays: Arrays, outputs: Arrays) -> Arrays:
        """By `slicekit.jax.paths.log_signatures`."""
        from slicekit.jax.paths.log_signatures import in_windows, of_edges, of_runs

        if self.window == 0:
            return (of_edges(arrays[0], self.basis, arrays[1]),)
        return (of_runs(in_windows(arrays[0], self.window), self.basis),)

    def forward(self, arrays: Arrays, save: bool) -> tuple[Arrays, Arrays]:
        """The coefficients."""
        batch, length, _ = arrays[0].shape
        windows = -(-length // self.window) if self.window else arrays[1].shape[1] - 1
        shape = (batch, windows, self.basis.size)
        return (self._call("log_signatures_forward", shape, *arrays),), ()

    def backward(
        self, arrays: Arrays, outputs: Arrays, saved: Arrays, given: Arrays, perturbed: Flags
    ) -> Arrays:
        """The gradient of <given, coefficients> in the increments."""
        return (self._call("log_signatures_pullback", arrays[0].shape, *arrays, *given),)

    def _call(self, target: str, shape: tuple[int, ...], *arrays: Array) -> Array:
        result = jax.ShapeDtypeStruct(shape, arrays[0].dtype)
        window = np.array([self.window], np.int64)
        return call(
            target, result, *arrays, batching="broadcast_all", window=window, **_tables(self.basis)
        )


def suits(increments: Array, basis: LieBasis) -> bool:
    """Whether kernels are there and take these increments (batch, length, channels)."""
    return (
        increments.dtype in (jnp.float32, jnp.float64)
        and increments.size > 0
        and basis.channels > 1
        and 1 < basis.depth <= DEEPEST
        and basis.change.values.size <= MOST_CHANGES
        and available()
    )


def log_signatures(increments: Array, basis: LieBasis, window: int) -> Array:
    """The coefficients of all windows, where `suits` says so."""
    return run(LogSignatures(basis, window), increments)[0]


def between(increments: Array, basis: LieBasis, edges: Array) -> Array:
    """The coefficients of the windows between edges, where `suits` says so."""
    return run(LogSignatures(basis), increments, edges)[0]


@lru_cache(maxsize=64)
def _tables(basis: LieBasis) -> dict[str, Any]:
    words, change = word_tables(basis.channels, basis.depth), basis.change
    return {
        "depth": np.array([basis.depth], np.int64),
        "top": np.array([words.top], np.int64),
        "places": words.places,
        "split_starts": words.split_starts,
        "splits": words.splits.ravel(),
        "prefixes": words.prefixes.ravel(),
        "change_starts": np.searchsorted(change.rows, np.arange(basis.size + 1)).astype(np.int64),
        "change_columns": change.columns.astype(np.int64),
        "change_values": change.values,
    }
