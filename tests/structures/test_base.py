"""What every structure's generators and transitions must be able to do, against dense matrices."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit import BlockDiagonal, Dense, Diagonal, DirectSum, Sparse, solve
from slicekit.citations import cite
from slicekit.descriptions.base import Start
from slicekit.paths import hall
from slicekit.structures import BlockGenerator, Generator, Parameters, Structure, Transition
from tests.market import (
    CHANNELS,
    NONLINEAR,
    STRUCTURES,
    Circulant,
    every_structure,
    make_parameters,
)

LEADS = [(), (4,), (2, 3)]
OWN = {name: x for name, x in STRUCTURES.items() if not isinstance(x, Circulant)}
every_structure_of_ours = pytest.mark.parametrize("name", OWN)
every_lead = pytest.mark.parametrize("lead", LEADS, ids=str)


def make_generator(name: str, lead: tuple[int, ...] = (2, 3)) -> Generator:
    structure = STRUCTURES[name]
    increments = torch.randn(*lead, CHANNELS).double()
    return structure.combine(make_parameters(structure), increments)


def eye(dim: int) -> Tensor:
    return torch.eye(dim, dtype=torch.float64)


@every_lead
@every_structure
def test_generators_act_as_their_dense_matrices(name: str, lead: tuple[int, ...]) -> None:
    generator = make_generator(name, lead)
    dim = STRUCTURES[name].dim
    dense = generator.as_dense()
    assert generator.dim == dim
    assert dense.shape == (*lead, dim, dim)
    state = torch.randn(*lead, dim, 4).double()
    torch.testing.assert_close(generator.act(state), dense @ state)
    torch.testing.assert_close(generator.mv(state[..., 0]), (dense @ state)[..., 0])
    torch.testing.assert_close(generator.adjoint().as_dense(), dense.mT)


@every_lead
@every_structure
def test_transitions_are_the_flows_of_their_generators(name: str, lead: tuple[int, ...]) -> None:
    structure = STRUCTURES[name]
    generator = make_generator(name, lead)
    a = generator.as_dense()
    flows = {"exponential": (generator.exponential(), torch.matrix_exp(a))}
    if not structure.exponential_only:
        flows["euler"] = generator.euler(), eye(structure.dim) + a
        flows["natural"] = generator.natural(), eye(structure.dim) + a
    for transition, dense in flows.values():
        torch.testing.assert_close(transition.as_dense(), dense)
        state = torch.randn(*lead, structure.dim, 2).double()
        torch.testing.assert_close(transition.act(state), dense @ state)
        torch.testing.assert_close(transition.mv(state[..., 0]), (dense @ state)[..., 0])
        torch.testing.assert_close(transition.adjoint().as_dense(), dense.mT)


@pytest.mark.parametrize("name", [k for k, x in STRUCTURES.items() if not x.exponential_only])
def test_structures_make_euler_steps_as_their_generators_do(name: str) -> None:
    structure = STRUCTURES[name]
    parameters, increments = make_parameters(structure), torch.randn(4, CHANNELS).double()
    expected = structure.combine(parameters, increments).euler().as_dense()
    torch.testing.assert_close(structure.euler(parameters, increments).as_dense(), expected)


@pytest.mark.parametrize("name", [k for k in STRUCTURES if k not in NONLINEAR])
def test_generators_are_linear_in_the_increments(name: str) -> None:
    structure = STRUCTURES[name]
    parameters = make_parameters(structure)
    a, b = torch.randn(2, CHANNELS).double()
    parts = [structure.combine(parameters, x).as_dense() for x in (a, b)]
    whole = structure.combine(parameters, 2 * a - b).as_dense()
    torch.testing.assert_close(whole, 2 * parts[0] - parts[1])


@every_structure
def test_closed_transitions_compose_and_others_say_so(name: str) -> None:
    transition = make_generator(name, (2,)).natural()
    later, earlier = transition.map(lambda x: x[0]), transition.map(lambda x: x[1])
    if transition.closed:
        product = later.compose(earlier)
        assert type(product) is type(transition)
        torch.testing.assert_close(product.as_dense(), later.as_dense() @ earlier.as_dense())
    else:
        with pytest.raises(TypeError, match=r"is not closed under products; use as_dense\(\)$"):
            later.compose(earlier)


@every_structure
def test_masked_transitions_are_the_identity(name: str) -> None:
    transition = make_generator(name).natural()
    dim = STRUCTURES[name].dim
    valid = torch.tensor([[True, False, True], [False, True, True]])
    try:
        masked = transition.where(valid)
    except TypeError as error:
        assert "mask the increments" in str(error)
        assert not transition.closed
        return
    expected = torch.where(valid[..., None, None], transition.as_dense(), eye(dim))
    torch.testing.assert_close(masked.as_dense(), expected)


@pytest.mark.parametrize("columns", [1, 3])
@every_structure
def test_pullbacks_are_the_gradients_of_the_action(name: str, columns: int) -> None:
    generator = make_generator(name)
    for matrices in (generator, generator.natural(), generator.exponential()):
        before, cotangent = torch.randn(2, 2, 3, STRUCTURES[name].dim, columns).double()
        tensors = tuple(x.clone() for x in matrices.tensors())
        leaves = [x.requires_grad_() for x in tensors if x.is_floating_point()]
        result = matrices.with_tensors(tensors).act(before)
        expected = torch.autograd.grad(result, leaves, cotangent)
        pulled = matrices.pullback(before, cotangent)
        assert [x.shape for x in pulled] == [x.shape for x in tensors]
        torch.testing.assert_close([x for x in pulled if x.is_floating_point()], list(expected))


@pytest.mark.parametrize("name", [k for k, x in STRUCTURES.items() if x.bilinear])
def test_bilinear_structures_pull_back_as_autograd_does(name: str) -> None:
    structure = STRUCTURES[name]
    parameters = {k: x.requires_grad_() for k, x in make_parameters(structure).items()}
    increments = torch.randn(2, 3, CHANNELS).double().requires_grad_()
    made_by = (structure.combine, structure.euler)
    for made in (make(parameters, increments) for make in made_by):
        gradients = tuple(torch.randn_like(x) for x in made.tensors())
        leaves = (*parameters.values(), increments)
        *expected, moved = torch.autograd.grad(made.tensors(), leaves, gradients)
        found, in_increments = structure.pullback(parameters, increments, gradients)
        assert list(found) == list(parameters)
        torch.testing.assert_close(list(found.values()), expected)
        torch.testing.assert_close(in_increments, moved)


def test_other_structures_have_no_pullback() -> None:
    structure = STRUCTURES["dplr"]
    with pytest.raises(TypeError, match=r"^DPLR has no pullback of its own$"):
        structure.pullback(make_parameters(structure), torch.randn(2, CHANNELS).double(), ())


@every_structure
def test_matrices_are_cut_along_their_leading_axes(name: str) -> None:
    generator = make_generator(name)
    for matrices in (generator, generator.natural()):
        dense = matrices.as_dense()
        for step, one in enumerate(matrices.unbind(1)):
            torch.testing.assert_close(one.as_dense(), dense[:, step])
        part = matrices.map(lambda x: x[:, 1:])
        torch.testing.assert_close(part.as_dense(), dense[:, 1:])
        same = matrices.with_tensors(matrices.tensors())
        torch.testing.assert_close(same.as_dense(), dense)


@every_structure
def test_the_norm_bound_bounds_the_norm(name: str) -> None:
    generator = make_generator(name)
    norms = torch.linalg.matrix_norm(generator.as_dense(), 2)
    bound = generator.norm_bound()
    assert bound.shape == norms.shape
    assert (bound >= norms * (1 - 1e-12)).all()


@every_structure
def test_the_bracket_is_that_of_vector_fields(name: str) -> None:
    first, second = make_generator(name), make_generator(name)
    a, b = first.as_dense(), second.as_dense()
    bracket = first.bracket(second)
    assert isinstance(bracket, Generator)
    torch.testing.assert_close(bracket.as_dense(), b @ a - a @ b)
    torch.testing.assert_close(second.bracket(first).as_dense(), a @ b - b @ a)


OF_ONE_SIZE = ["blocks", "ragged", "diagonal-dense", "hadamard-8", "orthogonal-2", "orthogonal-4"]


@pytest.mark.parametrize("other", OF_ONE_SIZE)
@pytest.mark.parametrize("name", OF_ONE_SIZE)
def test_brackets_of_different_structures_are_right(name: str, other: str) -> None:
    first, second = make_generator(name), make_generator(other)
    a, b = first.as_dense(), second.as_dense()
    torch.testing.assert_close(first.bracket(second).as_dense(), b @ a - a @ b)


@every_structure
def test_lifting_to_depth_one_changes_nothing(name: str) -> None:
    structure = STRUCTURES[name]
    assert structure.lift(1) is structure
    with pytest.raises(ValueError, match=r"^depth=0; expected at least 1$"):
        structure.lift(0)


@every_structure
def test_the_parameter_count_is_that_of_the_parameters(name: str) -> None:
    structure = STRUCTURES[name]
    for channels in (1, 4):
        made = structure.init(channels)
        count = sum(x.numel() for x in made.values() if x.is_floating_point())
        if not isinstance(structure, Sparse):
            assert structure.parameter_count(channels) == count


@pytest.mark.parametrize(
    "structure", [Sparse(64, density=0.1), Sparse(64, epsilon=0.5), Sparse(64, density=1)]
)
def test_the_parameter_count_of_sparse_structures_is_expected(structure: Sparse) -> None:
    counts = [structure.init(3)["values"].numel() for _ in range(20)]
    expected = structure.parameter_count(3)
    spread = (3 * 64**2 * structure.probability * (1 - structure.probability)) ** 0.5
    assert abs(sum(counts) / 20 - expected) <= 4 * spread / 20**0.5 + 1


@every_structure
def test_initial_parameters_are_reproducible(name: str) -> None:
    structure = STRUCTURES[name]
    first, second, other = (
        structure.init(CHANNELS, torch.Generator().manual_seed(seed)) for seed in (5, 5, 6)
    )
    assert all(torch.equal(first[k], second[k]) for k in first)
    assert not all(torch.equal(first[k], other[k]) for k in first)
    floating = [x for x in first.values() if x.is_floating_point()]
    assert all(x.dtype == torch.get_default_dtype() for x in floating)


@every_structure
def test_an_explicit_generator_leaves_the_global_one_alone(name: str) -> None:
    before = torch.get_rng_state()
    STRUCTURES[name].init(CHANNELS, torch.Generator().manual_seed(5))
    assert torch.equal(torch.get_rng_state(), before)


def closed(structure: Structure) -> bool:
    """A direct sum is closed if its parts are; of the others the facts say it."""
    if isinstance(structure, DirectSum):
        return all(closed(part) for part in structure.parts)
    return structure.facts.closed


@every_structure_of_ours
def test_the_facts_say_whether_products_stay_inside(name: str) -> None:
    transition = make_generator(name).natural()
    assert isinstance(transition, Transition)
    assert transition.closed == closed(STRUCTURES[name])


@every_structure_of_ours
def test_the_facts_fill_the_comparison_table(name: str) -> None:
    structure = STRUCTURES[name]
    facts = type(structure).facts
    for text in ("model", "matrix", "parameters", "recurrent", "composition", "theorem"):
        assert getattr(facts, text)

    class Model(torch.nn.Module):
        citations = facts.citations

    bibliography = cite(Model())
    assert facts.citations
    assert all(f"{{{key}," in bibliography for key in facts.citations)
    for channels in (1, 3):
        assert structure.step_cost(channels) >= structure.dim
    assert structure.step_cost(3) > structure.step_cost(1)
    assert 0 < structure.composition_cost() <= structure.dim**3


def test_a_structure_of_no_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Diagonal has dim=0; expected at least 1$"):
        Diagonal(0)
    with pytest.raises(ValueError, match=r"^Circulant has dim=-1; expected at least 1$"):
        Circulant(-1)


@every_structure
def test_counting_parameters_draws_nothing(name: str) -> None:
    before = torch.random.get_rng_state()
    STRUCTURES[name].parameter_count(3)
    assert torch.equal(torch.random.get_rng_state(), before)


@every_structure
def test_rows_mix_within_blocks_and_with_no_others(name: str) -> None:
    structure, dense = STRUCTURES[name], make_generator(name, (20,)).as_dense()
    mixed = (dense != 0).any(0) | eye(structure.dim).bool()
    mixed = (mixed | mixed.mT).double()
    for _ in range(structure.dim):  # whatever can be reached
        mixed = (mixed @ mixed).sign()
    largest = int(mixed.sum(-1).max())
    assert largest <= structure.largest_block <= structure.dim
    assert largest == structure.largest_block or isinstance(structure, Sparse)


@dataclass(frozen=True)
class Mixed(Diagonal):
    """Another `combine`: neither diagonal nor linear any more."""

    def combine(self, parameters: Parameters, increments: Tensor) -> Generator:  # type: ignore[override]
        values = super().combine(parameters, increments).values
        return BlockGenerator((values.unsqueeze(-1) * values.unsqueeze(-2)).unsqueeze(-3))


@dataclass(frozen=True)
class StillDiagonal(Mixed):
    """It says itself what it knows of its matrices."""

    def combine(self, parameters: Parameters, increments: Tensor) -> Generator:  # type: ignore[override]
        return Diagonal.combine(self, parameters, 2 * increments)

    @property
    def commutes(self) -> bool:
        return True


def test_what_another_combine_makes_is_not_said_of_its_own() -> None:
    assert Diagonal(3).commutes and Diagonal(3).largest_block == 1
    assert not Mixed(3).commutes and Mixed(3).largest_block == 3 and not Mixed(3).bilinear
    assert StillDiagonal(3).commutes and StillDiagonal(3).largest_block == 3


def test_brackets_of_a_combine_that_is_not_linear_are_refused() -> None:
    with pytest.raises(ValueError, match="combine is not linear in the increments, so it has no"):
        Mixed(3).lift_parameters(Mixed(3).init(2), hall(2, 2))


def test_a_mixin_that_knows_its_euler_steps_is_asked_for_them() -> None:
    class Doubled:
        def combine(self, parameters: Parameters, increments: Tensor) -> Generator:
            given: Any = super()
            return given.combine(parameters, 2 * increments)

        def euler(self, parameters: Parameters, increments: Tensor) -> Transition:
            given: Any = super()
            return given.euler(parameters, 2 * increments)

    @dataclass(frozen=True)
    class Own(Doubled, Dense):
        pass

    parameters, increments = make_parameters(Dense(2)), torch.randn(4, CHANNELS).double()
    dense = eye(2) + 2 * Dense(2).combine(parameters, increments).as_dense()
    torch.testing.assert_close(Own(2).euler(parameters, increments).as_dense(), dense)


def _with_gain(parameters: Parameters, channels: int) -> Parameters:
    return parameters | {"gain": torch.full((channels,), 2.0)}


@dataclass(frozen=True)
class GainedBlocks(BlockDiagonal):
    def init(self, channels: int, *given: Any, **named: Any) -> Parameters:
        return _with_gain(super().init(channels, *given, **named), channels)

    def combine(self, parameters: Parameters, increments: Tensor) -> Generator:
        own = {name: x for name, x in parameters.items() if name != "gain"}
        return super().combine(own, parameters["gain"] * increments)


@dataclass(frozen=True)
class GainedSparse(Sparse):
    def init(self, channels: int, *given: Any, **named: Any) -> Parameters:
        return _with_gain(super().init(channels, *given, **named), channels)

    def combine(self, parameters: Parameters, increments: Tensor) -> Any:
        own = {name: x for name, x in parameters.items() if name != "gain"}
        return super().combine(own, parameters["gain"] * increments)


@pytest.mark.parametrize("own", [GainedBlocks(blocks=[2, 1]), GainedSparse(3, density=0.5)])
def test_parameters_are_those_of_its_own_init(own: Structure) -> None:
    parameters, path, start = own.init(2), torch.randn(1, 4, 2) / 4, torch.randn(1, 3)
    assert own.blank(2).keys() == parameters.keys()
    parent: Any = type(own).__mro__[1]
    given = {"blocks": (2, 1)} if isinstance(own, BlockDiagonal) else {"dim": 3, "density": 0.5}
    assert own.parameter_count(2) == parent(**given).parameter_count(2) + 2
    plain = {name: x for name, x in parameters.items() if name != "gain"}
    expected = solve(parent(**given), plain, 2 * path, start)[0]
    torch.testing.assert_close(solve(own, parameters, path, start)[0], expected)


def test_parameters_of_a_sum_start_as_it_says_itself() -> None:
    @dataclass(frozen=True)
    class Still(BlockDiagonal):
        def starts(self, channels: int, increment: float = 1.0) -> dict[str, Start]:
            starts = super().starts(channels, increment)
            return {name: Start(start.shape, 0.0) for name, start in starts.items()}

    parameters = Still(blocks=[2, 1]).init(2)
    assert parameters.keys() == BlockDiagonal(blocks=[2, 1]).init(2).keys()
    assert not any(x.any() for x in parameters.values())
