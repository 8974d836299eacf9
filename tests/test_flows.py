"""The flows against the differential equation: dh = Σ_i A^i h dω^i along a smooth path."""

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

from slicekit import (
    Associative,
    BlockDiagonal,
    Chunked,
    Dense,
    Diagonal,
    DirectSum,
    Euler,
    Exponential,
    LogODE,
    Orthogonal,
    Recurrent,
    SLiCE,
    Tabulated,
    solve,
)
from slicekit.flows import Flow, Natural, resolve
from slicekit.native.kernel import Kind
from slicekit.scans import lowering
from slicekit.scans.lowering import Part, lower, lowers
from slicekit.structures import (
    BlockGenerator,
    DiagonalGenerator,
    DiagonalTransition,
    Parameters,
    Structure,
)
from slicekit.structures.base import weighted_sum
from tests.market import NONLINEAR, STRUCTURES, make_parameters

CHANNELS = 3
END = 1.0

LINEAR = [name for name in STRUCTURES if name not in NONLINEAR]
"""Structures whose generators are linear in the increments, and so belong to an equation at all."""


COMMUTING = ["diagonal", "orthogonal-2", "circulant"]


def path(times: Tensor) -> Tensor:
    """A smooth path (length, channels) that is no straight line."""
    return torch.stack([times, (3 * times).sin(), (2 * times).cos() + times**2], -1)


def velocity(time: float) -> np.ndarray:
    """The derivative of `path`."""
    return np.array([1.0, 3 * np.cos(3 * time), -2 * np.sin(2 * time) + 2 * time])


def matrices(name: str) -> Tensor:
    structure = STRUCTURES[name]
    unit = torch.eye(CHANNELS).double()
    return structure.combine(make_parameters(structure), unit).as_dense()


def exact(name: str, state: Tensor) -> Tensor:
    """The solution at the end, by a Runge-Kutta method of order eight on dense matrices."""
    a = matrices(name).numpy()

    def field(time: float, h: np.ndarray) -> np.ndarray:
        return np.tensordot(velocity(time), a, 1) @ h

    found = solve_ivp(field, (0, END), state.numpy(), "DOP853", rtol=1e-12, atol=1e-12)
    return torch.from_numpy(found.y[:, -1])


def on_grid(name: str, state: Tensor, steps: int, flow: Flow | None) -> Tensor:
    structure = STRUCTURES[name]
    times = torch.linspace(0, END, steps + 1).double()
    increments = path(times).diff(dim=0).unsqueeze(0)
    parameters = make_parameters(structure)
    return solve(structure, parameters, increments, state.unsqueeze(0), flow)[1].squeeze(0)


def observed_order(name: str, flow: Flow | None) -> float:
    """Slope of the error against the step on a logarithmic scale, as the grid is refined."""
    state = torch.randn(STRUCTURES[name].dim).double()
    solution = exact(name, state)
    grids = [128, 256, 512]
    errors = [float((on_grid(name, state, n, flow) - solution).norm()) for n in grids]
    return -float(np.polyfit(np.log(grids), np.log(errors), 1)[0])


@pytest.mark.parametrize("name", [x for x in LINEAR if x not in COMMUTING])
def test_exponential_steps_converge_with_order_two(name: str) -> None:
    assert 1.8 < observed_order(name, Exponential()) < 2.3


@pytest.mark.parametrize("name", [x for x in LINEAR if not STRUCTURES[x].exponential_only])
def test_euler_steps_converge_with_order_one(name: str) -> None:
    assert 0.85 < observed_order(name, Euler()) < 1.2


@pytest.mark.parametrize("name", COMMUTING)
def test_commuting_matrices_are_exact_on_any_grid(name: str) -> None:
    state = torch.randn(STRUCTURES[name].dim).double()
    one_step = on_grid(name, state, 1, Exponential())
    torch.testing.assert_close(one_step, exact(name, state), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", LINEAR)
def test_exponential_steps_are_exact_along_a_straight_line(name: str) -> None:
    structure = STRUCTURES[name]
    state = torch.randn(structure.dim).double()
    direction = torch.tensor([0.5, -1.0, 0.7]).double()
    generator = torch.tensordot(direction, matrices(name), 1)
    call = (structure, make_parameters(structure))
    for steps in (1, 5):
        increments = (direction / steps).expand(1, steps, CHANNELS)
        _, last = solve(*call, increments, state.unsqueeze(0), Exponential())
        torch.testing.assert_close(last.squeeze(0), torch.matrix_exp(generator) @ state)


def test_without_a_flow_rotations_are_exponentiated_and_others_take_euler_steps() -> None:
    increments = torch.randn(4, CHANNELS).double()
    for name in ("blocks", "orthogonal-4"):
        structure = STRUCTURES[name]
        parameters = make_parameters(structure)
        flow = resolve(structure, None)
        assert isinstance(flow, Natural)
        named = Exponential() if structure.exponential_only else Euler()
        expected = named.transition(structure, parameters, increments).as_dense()
        actual = flow.transition(structure, parameters, increments).as_dense()
        assert torch.equal(actual, expected)


@dataclass(frozen=True, eq=False)
class Fading(DiagonalGenerator):
    """Generators that choose their flow."""

    def natural(self) -> DiagonalTransition:
        return self.exponential()


@dataclass(frozen=True)
class Fades(Diagonal):
    def combine(self, parameters: Parameters, increments: Tensor) -> DiagonalGenerator:
        return Fading(super().combine(parameters, increments).values)


@dataclass(frozen=True)
class QuicklyFades(Fades):
    """With Euler steps of its own, for those who name them."""

    def euler(self, parameters: Parameters, increments: Tensor) -> DiagonalTransition:
        return DiagonalTransition(1 + self.combine(parameters, increments).values)


@dataclass(frozen=True)
class Turns(Dense):
    """Where I + A makes no sense, though its generators know nothing of it."""

    exponential_only = True

    def combine(self, parameters: Parameters, increments: Tensor) -> BlockGenerator:
        blocks = weighted_sum(increments, parameters["blocks"])
        return BlockGenerator(blocks - blocks.mT)


@dataclass(frozen=True)
class Exact(BlockDiagonal):
    """The same, said of a sum that is otherwise as it was."""

    exponential_only = True


@dataclass(frozen=True)
class Chosen(Diagonal):
    """A structure that chooses, whatever its generators say."""

    def natural(self, parameters: Parameters, increments: Tensor) -> DiagonalTransition:
        return self.combine(parameters, increments).exponential()


OWN = [Fades(2), QuicklyFades(2), Turns(2), Exact(2, 1), Exact(blocks=[1, 1]), Chosen(2)]
every_own = pytest.mark.parametrize("own", OWN, ids=lambda own: type(own).__name__)


@pytest.mark.parametrize("scan", [None, Recurrent(), Associative(), Chunked(2)], ids=str)
@every_own
def test_a_generator_chooses_its_flow_alone_as_in_a_sum(own: Structure, scan: Any) -> None:
    table, index = torch.randn(3, CHANNELS).double(), torch.tensor([[0, 2, 1, 1, 0]])
    start = torch.randn(1, 4).double()
    for structure in (own, DirectSum(own, Dense(2)), DirectSum(own, Orthogonal(2, 2))):
        parameters = make_parameters(structure)
        state = start[:, : structure.dim]
        sums = isinstance(structure, DirectSum)
        alone = structure.own(parameters)[0] if sums else parameters
        expected, _ = solve(own, alone, table[index], start[:, :2], Exponential(), Recurrent())
        for path in (table[index], Tabulated(table, index)):
            states, _ = solve(structure, parameters, path, state, None, scan)
            torch.testing.assert_close(states[..., :2], expected)


@every_own
def test_a_layer_steps_by_the_flow_of_its_generators(own: Structure) -> None:
    layer = SLiCE(2, own).double()
    x = torch.randn(2, 4, 2).double()
    named = copy.deepcopy(layer)
    named.flow = Exponential()
    with torch.no_grad():
        expected, state = named(x), None
        torch.testing.assert_close(layer(x), expected)
        for element, h in zip(x.unbind(1), expected.unbind(1), strict=True):
            found, state = layer.step(element, state)
            torch.testing.assert_close(found, h)


def test_no_kernel_is_taken_for_a_flow_that_a_generator_chose() -> None:
    before = dict(lowering._rules)

    def rule(structure: Structure, exponential: bool) -> Part:
        return Part(Kind.BLOCKS, structure.dim, ("values",), 1, exponential)

    try:
        lowers(Fades)(rule)
        said = "there is no kernel for the flow that Fades takes by itself"
        assert lower(Fades(2), resolve(Fades(2), None)) == said
        for flow, exponential in ((Euler(), False), (Exponential(), True)):
            (part,) = lower(Fades(2), flow)
            assert isinstance(part, Part) and part.exponential is exponential
    finally:
        lowering._rules.clear()
        lowering._rules.update(before)
        lowering.generation += 1


def test_windows_of_a_structure_without_euler_steps_take_none() -> None:
    with pytest.raises(ValueError, match=r"flow=Euler\(\) with Turns"):
        resolve(Turns(2), LogODE(2, 3, Euler()))


def test_euler_is_refused_where_it_is_no_isometry() -> None:
    message = (
        r"^flow=Euler\(\) with Orthogonal\(.*\): .* only under Exponential\(\); leave flow=None$"
    )
    with pytest.raises(ValueError, match=message):
        resolve(Orthogonal(4, 2), Euler())
    assert resolve(Orthogonal(4, 2), Exponential()) == Exponential()


def test_what_is_no_flow_is_refused() -> None:
    message = r"^flow='exp'; expected a flow such as Euler\(\) or Exponential\(\), or None$"
    with pytest.raises(TypeError, match=message):
        resolve(STRUCTURES["dense"], "exp")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("substeps", [0, -1])
def test_substeps_below_one_are_refused(substeps: int) -> None:
    with pytest.raises(ValueError, match=rf"^substeps={substeps}; expected at least 1, or None$"):
        Exponential(substeps=substeps)


@pytest.mark.parametrize("flow", [Euler(), Exponential(), Exponential(substeps=3), Natural()])
def test_flows_are_values(flow: Flow) -> None:
    for same in (pickle.loads(pickle.dumps(flow)), copy.deepcopy(flow)):
        assert same == flow
        assert same.key == flow.key
        assert hash(same) == hash(flow)
    assert Exponential() != Exponential(substeps=3)


def test_a_flow_may_be_made_inside_a_compiled_function() -> None:
    structure = Dense(3)
    parameters = structure.init(2)

    def answer(steps: Tensor, start: Tensor) -> Tensor:
        return solve(structure, parameters, steps, start, Exponential())[0]

    steps, start = torch.randn(2, 5, 2), torch.randn(2, 3)
    compiled = torch.compile(answer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(steps, start), answer(steps, start))
