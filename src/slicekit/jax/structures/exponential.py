"""Exponentials: of small matrices, exactly; and of any generator, as an action on the state.

`matrix_exponential` takes the C++ kernel where there is one. Elsewhere it scales, sums a Taylor
polynomial and squares, as torch's twin does. How often it squares depends on the data, which a
traced program can't hold: it has room for `MAX_SQUARINGS`, of which it takes as many as it needs.

`EulerAction` and `ExponentialAction` are the flows of structures that are not closed: they know
their generator and apply I + A or exp(A) to a state without forming the matrix.
"""

import math
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax

from slicekit.jax.native import exponential as native
from slicekit.jax.structures.base import Generator, Transition

MAX_SQUARINGS = 16
"""Enough for matrices of norm 2^15; larger ones overflow anyway."""

MAX_SUBSTEPS = 10_000
REACH = 0.5
COLUMNS = 3


def _taylor_minus_identity(a: Array, degree: int) -> Array:
    """Σ_{1..degree} a^n / n!, by Paterson and Stockmeyer with powers up to `COLUMNS`."""
    powers = [jnp.eye(a.shape[-1], dtype=a.dtype), a]
    for _ in range(COLUMNS - 1):
        powers.append(powers[-1] @ a)
    total = None
    for row in reversed(range(degree // COLUMNS)):
        first = row * COLUMNS + 1
        part = sum(
            (powers[n] / math.factorial(first + n) for n in range(1, COLUMNS)),
            start=powers[0] / math.factorial(first),
        )
        total = part if total is None else part + powers[COLUMNS] @ total
    assert total is not None
    return a @ total


@jax.checkpoint
def _exponential_minus_identity(a: Array) -> Array:
    degree = 15 if a.dtype in (jnp.float64, jnp.complex128) else 9
    norm = lax.stop_gradient(jnp.abs(a)).sum(-1).max(initial=0.0)
    squarings = jnp.ceil(jnp.log2(jnp.maximum(norm, REACH) / REACH)).astype(int)
    squarings = jnp.clip(squarings, 0, MAX_SQUARINGS)
    e = _taylor_minus_identity(a / jnp.exp2(squarings.astype(norm.dtype)), degree)

    def square(e: Array, nth: Array) -> tuple[Array, None]:
        return lax.cond(nth < squarings, lambda x: 2 * x + x @ x, lambda x: x, e), None

    return lax.scan(square, e, jnp.arange(MAX_SQUARINGS))[0]


def matrix_exponential(a: Array) -> Array:
    """exp of square matrices (..., n, n), real or complex, differentiable any number of times.

    exp(A) = e^m exp(A - m I) with m the mean of the diagonal, so that pure decay stays exact. What
    is squared is exp(A) - I, so that matrices far smaller than the largest lose no digits.

    >>> half_turn = jnp.array([[0.0, jnp.pi], [-jnp.pi, 0.0]])
    >>> jnp.diagonal(matrix_exponential(half_turn)).round(4)
    Array([-1., -1.], dtype=float32)
    """
    return native.exponential(a) if native.suits(a) else pure_matrix_exponential(a)


def pure_matrix_exponential(a: Array) -> Array:
    """The same, by products alone."""
    unit = jnp.eye(a.shape[-1], dtype=a.dtype)
    mean = jnp.trace(a, axis1=-2, axis2=-1)[..., None, None] / a.shape[-1]
    return (_exponential_minus_identity(a - mean * unit) + unit) * jnp.exp(mean)


class _Action(Transition):
    """A flow that is known through its generator."""

    generator: Generator

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.generator.dim

    def stepwise_count(self) -> int:
        """As the generator's."""
        return self.generator.stepwise_count()

    def arrays(self) -> tuple[Array, ...]:
        """The generator's."""
        return self.generator.arrays()

    def _with(self, generator: Any) -> Self:
        raise NotImplementedError

    def with_arrays(self, arrays: tuple[Array, ...]) -> Self:
        """The flow of the generator with other arrays."""
        return self._with(self.generator.with_arrays(arrays))

    def adjoint(self) -> Transition:
        """The flow of the adjoint generator."""
        return self._with(self.generator.adjoint())

    def where(self, valid: Array) -> Self:
        """Not offered: zero the increments instead, which is the identity exactly."""
        raise TypeError("mask the increments of this structure, not its transitions")


class EulerAction(_Action):
    """h is sent to h + A h."""

    def _with(self, generator: Any) -> Self:
        return type(self)(generator)

    def act(self, state: Array) -> Array:
        """(I + A) H for H (..., dim, columns)."""
        return state + self.generator.act(state)


class ExponentialAction(_Action):
    """h is sent to exp(A) h by a Taylor polynomial, in `substeps` equal parts."""

    substeps: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)

    def _with(self, generator: Any) -> Self:
        return type(self)(generator, self.substeps, self.degree)

    def act(self, state: Array) -> Array:
        """exp(A) H for H (..., dim, columns)."""

        def add(n: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            term, total = carry
            term = self.generator.act(term) / (n * self.substeps)
            return term, total + term

        def substep(_: Any, state: Array) -> Array:
            return lax.fori_loop(1, self.degree + 1, add, (state, state))[1]

        if self.substeps == 1:
            return substep(0, self._broadcast(state))
        return lax.fori_loop(0, self.substeps, substep, self._broadcast(state))

    def _broadcast(self, state: Array) -> Array:
        """A state of the shape of the result, which a loop must carry."""
        result = jax.eval_shape(self.generator.act, state)
        return jnp.broadcast_to(state, result.shape)


def _degree(reach: float, epsilon: float) -> int:
    """Smallest n with reach^n / n! below epsilon / 4, so that the derivative is exact as well."""
    term, n = 1.0, 0
    while term > epsilon / 4 and n < 40:
        n += 1
        term *= reach / n
    return max(n, 1)


def exponential_action(generator: Generator, substeps: int | None = None) -> ExponentialAction:
    """The action of exp(A), with as many substeps as the norm of A asks for.

    Args:
        generator: A, a batch of any shape.
        substeps: fixed number of substeps; the norm of A should then not exceed it. Needed where
            the data can't be looked at: under `jax.jit`, `jax.vmap` and `jax.checkpoint`.
    """
    epsilon = float(jnp.finfo(generator.arrays()[0].dtype).eps)
    if substeps is not None:
        return ExponentialAction(generator, substeps, _degree(1.0, epsilon))
    try:
        norm = float(jnp.max(generator.norm_bound(), initial=0.0))
    except jax.errors.ConcretizationTypeError as error:
        raise ValueError(
            "Exponential() can't look at traced data; use Exponential(substeps=n)"
        ) from error
    if norm > MAX_SUBSTEPS:
        raise ValueError(
            f"Exponential() met a generator of norm {norm:.3g}, too large to exponentiate "
            f"(at most {MAX_SUBSTEPS}): scale the increments down"
        )
    count = max(1, math.ceil(norm)) if math.isfinite(norm) else 1
    return ExponentialAction(generator, count, _degree(min(norm / count, 1.0), epsilon))
