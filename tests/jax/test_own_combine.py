"""A subclass of a structure with another `combine` is run by the matrices that this one makes."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from jax import Array

import slicekit.jax as sj
from slicekit.jax.paths import hall, log_signatures
from slicekit.jax.structures import BlockGenerator, DiagonalGenerator, DiagonalTransition
from slicekit.jax.structures.base import brackets
from tests.jax.twins import array, twin, with_gradients_in_jax
from tests.market import CHANNELS, NONLINEAR, TINY, make_parameters
from tests.scans.problems import assert_near

LENGTH, WINDOW = 4, 2

pytestmark = pytest.mark.filterwarnings("ignore:LogODE")


class Halved:
    """Half of every parameter: generators stay of their kind."""

    def combine(self, parameters: dict[str, Array], increments: Array) -> Any:
        given: Any = super()
        floating = {n: jnp.issubdtype(x.dtype, jnp.floating) for n, x in parameters.items()}
        halves = {n: x / 2 if floating[n] else x for n, x in parameters.items()}
        return given.combine(halves, increments)


class Tilted:
    """A + A^T / 2 with rows and columns turned round, as one block."""

    def combine(self, parameters: dict[str, Array], increments: Array) -> Any:
        given: Any = super()
        turned = jnp.roll(given.combine(parameters, increments).as_dense(), (1, 2), (-2, -1))
        return BlockGenerator((turned + turned.mT / 2)[..., None, :, :])


def changed(name: str, change: type) -> Any:
    """A structure of the market in a subclass of its own."""
    given = twin(TINY[name])
    kind = type(change.__name__, (change, type(given)), {})
    made = object.__new__(dataclass(frozen=True, init=False)(kind))
    for key, value in vars(given).items():
        object.__setattr__(made, key, value)
    return made


def loop(matrices: Array, h: Array) -> Array:
    """States (batch, length, dim) by dense matrices (batch, length, dim, dim)."""
    states = []
    for step in range(matrices.shape[1]):
        h = jnp.einsum("bij,bj->bi", matrices[:, step], h)
        states.append(h)
    return jnp.stack(states, 1)


def leaves_of(name: str) -> dict[str, torch.Tensor]:
    random, structure = torch.Generator().manual_seed(3), TINY[name]
    path = torch.randn(2, LENGTH, CHANNELS, generator=random).double() * 0.4
    start = torch.randn(2, structure.dim, generator=random).double()
    return make_parameters(structure) | {"the path": path, "the start": start}


def given_by(leaves: dict[str, Array]) -> tuple[dict[str, Array], Array, Array]:
    theta = {name: x for name, x in leaves.items() if not name.startswith("the ")}
    return theta, leaves["the path"], leaves["the start"]


NAMES = ["diagonal", "ragged", "orthogonal", "joint-dplr"]


@pytest.mark.parametrize("change", [Halved, Tilted])
@pytest.mark.parametrize("name", NAMES)
def test_steps_and_windows_are_those_of_its_own_matrices(name: str, change: type) -> None:
    structure = changed(name, change)
    basis, exact = hall(CHANNELS, 2), sj.Exponential(substeps=3)
    linear = name not in NONLINEAR

    def by_solve(leaves: Any) -> dict[str, Array]:
        theta, path, h = given_by(leaves)
        flows: dict[str, Any] = {"natural": None, "single": sj.LogODE(1, 1, exact)}
        flows |= {"windows": sj.LogODE(2, WINDOW, exact)} if linear else {}
        return {key: sj.solve(structure, theta, path, h, flow)[0] for key, flow in flows.items()}

    def by_hand(leaves: Any) -> dict[str, Array]:
        theta, path, h = given_by(leaves)
        dense = structure.combine(theta, path).as_dense()
        single = loop(jax.scipy.linalg.expm(dense), h)
        euler = loop(jnp.eye(structure.dim) + dense, h)
        found = {"natural": single if structure.exponential_only else euler, "single": single}
        if linear:
            letters = structure.combine(theta, jnp.eye(CHANNELS, dtype=path.dtype)).as_dense()
            areas = log_signatures(path, basis, WINDOW)
            fields = jnp.tensordot(areas, brackets(letters, basis), 1)
            found["windows"] = loop(jax.scipy.linalg.expm(fields), h)
        return found

    leaves = leaves_of(name)
    found, expected = (with_gradients_in_jax(f, leaves) for f in (by_solve, by_hand))
    assert_near(found, expected, 1e-8)
    if not linear:
        with pytest.raises(ValueError, match="is not linear in its increments"):
            theta, path, h = given_by({key: array(x) for key, x in leaves.items()})
            sj.solve(structure, theta, path, h, sj.LogODE(2, WINDOW, exact))


class Fading(DiagonalGenerator):
    """Generators that choose their flow."""

    def natural(self) -> DiagonalTransition:
        return self.exponential()


@dataclass(frozen=True)
class Fades(sj.Diagonal):
    def combine(self, parameters: dict[str, Array], increments: Array) -> DiagonalGenerator:
        return Fading(super().combine(parameters, increments).values)


@dataclass(frozen=True)
class Exact(sj.BlockDiagonal):
    """Where I + A makes no sense, though its generators know nothing of it."""

    exponential_only = True


@pytest.mark.parametrize("own", [Fades(2), Exact(2, 1), Exact(blocks=[1, 1])])
def test_a_generator_chooses_its_flow_alone_as_in_a_sum(own: Any) -> None:
    path = jax.random.normal(jax.random.key(1), (1, LENGTH, CHANNELS))
    start = jnp.array([[1.0, -2.0, 3.0, 4.0]])
    for structure in (own, sj.DirectSum(own, sj.Dense(2)), sj.DirectSum(own, sj.Orthogonal(2, 2))):
        theta = structure.init(CHANNELS, jax.random.key(2))
        alone = theta if structure is own else structure.own(theta)[0]
        states, _ = sj.solve(structure, theta, path, start[:, : structure.dim])
        expected, _ = sj.solve(own, alone, path, start[:, :2], sj.Exponential())
        assert jnp.allclose(states[..., :2], expected, rtol=1e-5)


def test_parameters_are_those_of_its_own_init() -> None:
    @dataclass(frozen=True)
    class Gained(sj.Sparse):
        def init(self, channels: int, key: Array, *, increment: float = 1.0) -> dict[str, Array]:
            own = super().init(channels, key, increment=increment)
            return own | {"gain": jnp.full(channels, 2.0)}

        def combine(self, parameters: dict[str, Array], increments: Array) -> Any:
            return super().combine(parameters, parameters["gain"] * increments)

    plain, own = sj.Sparse(4), Gained(4)
    theta = own.init(CHANNELS, jax.random.key(0))
    path, start = jnp.ones((1, 2, CHANNELS)) / 4, jnp.ones((1, 4))
    expected = sj.solve(plain, {n: theta[n] for n in ("values", "places")}, 2 * path, start)[0]
    assert jnp.allclose(sj.solve(own, theta, path, start)[0], expected)
