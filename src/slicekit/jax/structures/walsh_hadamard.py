"""Walsh-Hadamard matrices: A^i = H diag(d^i), H the orthonormal Sylvester matrix. WH-SLiCE."""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from slicekit.descriptions import walsh_hadamard as descriptions
from slicekit.jax.structures.base import Drawn, Generator, Parameters, weighted_sum
from slicekit.jax.structures.exponential import EulerAction, ExponentialAction, exponential_action

RADIX = 16


def sylvester(size: int) -> np.ndarray:
    """The orthonormal Hadamard matrix of a small size, which a stage of the transform applies."""
    signs = np.ones((1, 1))
    while len(signs) < size:
        signs = np.block([[signs, signs], [signs, -signs]])
    return signs / size**0.5


def walsh_hadamard_transform(state: Array) -> Array:
    """H X for X (..., dim, columns) in O(dim log dim): stages of radix 16, no dense H.

    >>> walsh_hadamard_transform(jnp.eye(4))[1] * 2
    Array([ 1., -1.,  1., -1.], dtype=float32)
    """
    (*lead, dim, columns), done = state.shape, 1
    while done < dim:
        stage = min(RADIX, dim // done)
        rest = state.reshape(*lead, dim // (done * stage), stage, done * columns)
        state = jnp.einsum("ij,...jn->...in", jnp.asarray(sylvester(stage), state.dtype), rest)
        done *= stage
    return state.reshape(*lead, dim, columns)


class WalshHadamardGenerator(Generator):
    """A = H diag(values), or its transpose diag(values) H; values (..., dim)."""

    values: Array
    transposed: bool = eqx.field(static=True, default=False)
    stepwise: ClassVar[tuple[str, ...]] = ("values",)

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.values.shape[-1]

    def act(self, state: Array) -> Array:
        """A scaling and a fast transform of state (..., dim, columns)."""
        values = self.values[..., None]
        if self.transposed:
            return values * walsh_hadamard_transform(state)
        return walsh_hadamard_transform(values * state)

    def adjoint(self) -> "WalshHadamardGenerator":
        """The scaling and the transform change places."""
        return WalshHadamardGenerator(self.values.conj(), not self.transposed)

    def euler(self) -> EulerAction:
        """h + A h."""
        return EulerAction(self)

    def exponential(self, substeps: int | None = None) -> ExponentialAction:
        """exp(A) as an action on the state."""
        return exponential_action(self, substeps)

    def norm_bound(self) -> Array:
        """Largest modulus of the diagonal: H is an isometry."""
        return jnp.abs(self.values).max(-1)


@dataclass(frozen=True)
class WalshHadamard(descriptions.WalshHadamard, Drawn):
    """H diag(d^i), as `slicekit.WalshHadamard`.

    Args:
        dim: size of the state, a power of two.
        bounded: whether d^i is the tanh of the parameters, and so inside (-1, 1).
        scale: standard deviation of the initial parameters.
    """

    def combine(self, parameters: Parameters, increments: Array) -> WalshHadamardGenerator:
        """H diag(Σ_i Δω^i d^i) for increments (..., channels)."""
        values = parameters["values"]
        values = jnp.tanh(values) if self.bounded else values
        return WalshHadamardGenerator(weighted_sum(increments, values))
