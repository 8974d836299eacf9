"""The flows against the differential equation: dh = Σ_i A^i h dω^i along a smooth path."""

import copy
import pickle

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

from slicekit import Dense, Euler, Exponential, Orthogonal, solve
from slicekit.flows import Flow, Natural, resolve
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
