"""The protocol of a structure in JAX; the glossary is that of `slicekit.structures.base`.

A structure is the description that torch's twin shares (facts, checks, costs, starts) with its
mathematics over arrays. Generators and transitions are pytrees, so that they go through every
transformation of JAX; autodiff gives their derivatives.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from slicekit.descriptions.base import Description, Started, derive_anew
from slicekit.jax.paths.lie_bases import LieBasis

Parameters = dict[str, Array]


class Matrices(eqx.Module):
    """A batch of structured square matrices.

    Fields named in `stepwise` carry the leading axes of the batch (usually length and batch); those
    named in `shared` hold for all of it.
    """

    stepwise: ClassVar[tuple[str, ...]] = ()
    shared: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of rows and columns of each matrix."""

    @abstractmethod
    def act(self, state: Array) -> Array:
        """Multiply from the left: state (..., dim, columns) -> (..., dim, columns)."""

    @abstractmethod
    def adjoint(self) -> "Matrices":
        """The conjugate transpose of every matrix."""

    def mv(self, vector: Array) -> Array:
        """Multiply vectors: (..., dim) -> (..., dim)."""
        return self.act(vector[..., None])[..., 0]

    def as_dense(self) -> Array:
        """The matrices themselves, (..., dim, dim): the oracle of every test."""
        return self.act(jnp.eye(self.dim, dtype=self.arrays()[0].dtype))

    def arrays(self) -> tuple[Array, ...]:
        """All arrays, stepwise ones first."""
        return tuple(getattr(self, name) for name in (*self.stepwise, *self.shared))

    def with_arrays(self, arrays: tuple[Array, ...]) -> Self:
        """The same kind of matrices with other arrays, in the order of `arrays`."""
        given = dict(zip((*self.stepwise, *self.shared), arrays, strict=True))
        rest = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in given}
        return type(self)(**given, **rest)

    def stepwise_count(self) -> int:
        """How many of `arrays` are stepwise."""
        return len(self.stepwise)

    def map(self, change: Callable[[Array], Array]) -> Self:
        """Apply a change of the leading axes (indexing, transposition) to every stepwise array."""
        count, arrays = self.stepwise_count(), self.arrays()
        return self.with_arrays((*(change(x) for x in arrays[:count]), *arrays[count:]))


class Transition(Matrices):
    """A batch of one-step flows: h is sent to M h.

    Where products stay in the structure, `closed` is true and `compose` multiplies.
    """

    @property
    def closed(self) -> bool:
        """Whether products of transitions stay in the structure."""
        return False

    def compose(self, earlier: Any) -> Self:
        """self after earlier, a transition of the same kind: the product self · earlier.

        Raises:
            TypeError: where products leave the structure.
        """
        raise TypeError(f"{type(self).__name__} is not closed under products; use as_dense()")

    @abstractmethod
    def where(self, valid: Array) -> Self:
        """The identity wherever valid, of the leading shape, is false."""

    def sizes(self, state: Array) -> Array:
        """For each number of a state, the largest modulus among the rows that mix with its row.

        Rows that no step ever mixes may be scaled apart; all do unless a subclass knows better.

        Args:
            state: (..., dim, columns), real or complex.

        Returns:
            (..., dim, columns), real.
        """
        moduli = jnp.abs(state)
        return jnp.broadcast_to(moduli.max(-2, keepdims=True), moduli.shape)


class Generator(Matrices):
    """A batch of vector fields A(Δω), which flows turn into transitions."""

    @abstractmethod
    def euler(self) -> Transition:
        """I + A."""

    @abstractmethod
    def exponential(self, substeps: int | None = None) -> Transition:
        """exp(A), exact to rounding; substeps matters only where exp(A) is applied to the state."""

    def natural(self) -> Transition:
        """The flow that a structure takes when the user names none."""
        return self.euler()

    @property
    def takes_euler_steps(self) -> bool:
        """Whether `natural` is known to be I + A: not where a subclass has its own."""
        return type(self).natural is Generator.natural

    def bracket(self, other: "Generator") -> "Generator":
        """[self, other] = other · self - self · other, as vector fields.

        Structures that are not closed under it answer with a dense generator.
        """
        from slicekit.jax.structures.block_diagonal import BlockGenerator

        a, b = self.as_dense(), other.as_dense()
        return BlockGenerator((b @ a - a @ b)[..., None, :, :])

    def norm_bound(self) -> Array:
        """An upper bound, of the leading shape, for the operator norm."""
        return jnp.linalg.norm(self.as_dense(), axis=(-2, -1))


FROM_COMBINE = ("euler", "natural", "lift_parameters", "commutes", "bracketed", "largest_block")
FROM_INIT = ("shapes",)
"""What a structure says of the matrices that `combine` makes, and of what `init` draws."""


class Structure(Description, ABC):
    """A frozen description of what A^1..A^dω look like; it holds no arrays.

    A new structure is one subclass, a frozen dataclass with a field `dim` and the abstract methods;
    the generator that `combine` returns may be one of slicekit's own. A subclass of a structure
    that overrides `combine` or `init` alone is right by itself: what the other says of its own
    matrices or parameters, to be faster, is not inherited.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep nothing that is about another `combine` or `init`."""
        super().__init_subclass__(**kwargs)
        derive_anew(cls, Structure, "combine", FROM_COMBINE)
        derive_anew(cls, Structure, "euler", ("natural",))
        derive_anew(cls, Structure, "init", FROM_INIT)

    @abstractmethod
    def init(self, channels: int, key: Array, *, increment: float = 1.0) -> Parameters:
        """Random parameters of A^1..A^channels.

        Args:
            channels: dω.
            key: source of randomness.
            increment: typical size of one channel's increment, for structures whose initialisation
                fixes the size of a whole step.

        Returns:
            Floating arrays are to be trained, integer arrays (a sparsity pattern) are not.
        """

    @abstractmethod
    def combine(self, parameters: Parameters, increments: Array) -> Generator:
        """A(Δω) = Σ_i Δω^i A^i for increments (..., channels)."""

    def euler(self, parameters: Parameters, increments: Array) -> Transition:
        """I + A(Δω)."""
        return self.combine(parameters, increments).euler()

    def natural(self, parameters: Parameters, increments: Array) -> Transition:
        """What it takes when the user names no flow: its generator's choice."""
        generator = self.combine(parameters, increments)
        if not generator.takes_euler_steps:
            return generator.natural()
        if self.exponential_only:
            return generator.exponential()
        if type(self).euler is Structure.euler:
            return generator.euler()
        return self.euler(parameters, increments)

    @property
    def bracketed(self) -> Any:
        """Where the brackets of its matrices live: itself where it is closed under them."""
        from slicekit.jax.structures.dense import Dense

        return Dense(self.dim)

    def lift_parameters(self, parameters: Parameters, basis: LieBasis) -> Parameters:
        """The parameters of Ā^1..Ā^β for `lift(basis.depth)`: A^i at letters, brackets elsewhere.

        Args:
            parameters: of A^1..A^channels.
            basis: of the free Lie algebra over as many letters; β is its size.
        """
        if basis.depth == 1:
            return parameters
        letters = jnp.eye(basis.channels, dtype=floating_dtype(parameters))
        dense = self.combine(parameters, letters).as_dense()
        return {"blocks": brackets(dense, basis)[:, None]}

    def shapes(self, channels: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters by name; nothing random is drawn."""
        from slicekit.jax.structures.sparse import blank

        with blank():
            made = jax.eval_shape(lambda key: self.init(channels, key), jax.random.key(0))
        return {name: x.shape for name, x in made.items()}

    @abstractmethod
    def step_cost(self, channels: int) -> int:
        """Multiplications of one step: making A(Δω) and applying it to one state."""


class Drawn(Started, Structure):
    """A structure whose parameters are drawn as its description says they start."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep nothing that is about other `starts`."""
        super().__init_subclass__(**kwargs)
        derive_anew(cls, Drawn, "starts", ("init", *FROM_INIT))

    def init(self, channels: int, key: Array, *, increment: float = 1.0) -> Parameters:
        """Gaussian parameters, of the shapes and standard deviations of `starts`."""
        starts = self.starts(channels, increment)
        keys = jax.random.split(key, len(starts))
        return {
            name: start.std * jax.random.normal(tensor_key, start.shape)
            for tensor_key, (name, start) in zip(keys, starts.items(), strict=True)
        }

    def shapes(self, channels: int) -> dict[str, tuple[int, ...]]:
        """As the description says."""
        return {name: start.shape for name, start in self.starts(channels).items()}


def brackets(matrices: Array, basis: LieBasis) -> Array:
    """Ā^1..Ā^β: the matrices of the letters, and [a, b] = b a - a b for every bracket of a basis.

    Args:
        matrices: (channels, ..., n, n).
        basis: over as many letters.

    Returns:
        (β, ..., n, n), in the order of the basis.
    """
    known = matrices
    for left, right in basis.brackets:
        a, b = known[left], known[right]
        known = jnp.concatenate([known, b @ a - a @ b])
    return known


def floating_dtype(parameters: Parameters) -> Any:
    """The dtype of the trained parameters."""
    return next(x.dtype for x in parameters.values() if jnp.issubdtype(x.dtype, jnp.floating))


def weighted_sum(increments: Array, array: Array) -> Array:
    """Σ_i Δω^i T_i for increments (..., channels) and an array (channels, ...)."""
    flat = increments.reshape(-1, increments.shape[-1]) @ array.reshape(array.shape[0], -1)
    return flat.reshape(*increments.shape[:-1], *array.shape[1:])
