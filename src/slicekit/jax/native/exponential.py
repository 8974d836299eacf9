"""Exponentials of small matrices, and their derivative, by the shared library."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from slicekit.jax.native.handlers import available, call
from slicekit.jax.native.kernel import Arrays, Flags, Kernel, run

LARGEST = 64
"""Rows up to which the library is the faster way; also the most that fused kernels take."""


@dataclass(frozen=True)
class Exponentials(Kernel):
    """exp(A) of real matrices (..., n, n)."""

    def pure(self, arrays: Arrays, outputs: Arrays) -> Arrays:
        """By `slicekit.jax.structures.exponential`."""
        from slicekit.jax.structures.exponential import pure_matrix_exponential

        return (pure_matrix_exponential(*arrays),)

    def forward(self, arrays: Arrays, save: bool) -> tuple[Arrays, Arrays]:
        """exp(A)."""
        return (self._call("exponential_forward", *arrays),), ()

    def backward(
        self, arrays: Arrays, outputs: Arrays, saved: Arrays, given: Arrays, perturbed: Flags
    ) -> Arrays:
        """The gradient of <given, exp(A)> in A."""
        return (self._call("exponential_pullback", *arrays, *given),)

    def _call(self, target: str, *arrays: Array) -> Array:
        result = jax.ShapeDtypeStruct(arrays[0].shape, arrays[0].dtype)
        return call(target, result, *arrays, batching="broadcast_all")


def suits(a: Array) -> bool:
    """Whether kernels are there and take these matrices (..., n, n)."""
    real = a.dtype in (jnp.float32, jnp.float64)
    return real and a.size > 0 and a.shape[-1] <= LARGEST and available()


def exponential(a: Array) -> Array:
    """exp(A), where `suits` says so."""
    return run(Exponentials(), a)[0]
