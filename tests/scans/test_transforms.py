"""`solve` and `propagate` under torch.func and torch.compile."""

import pytest
import torch
from torch import Tensor
from torch.func import grad, jacrev, vmap
from torch.utils.flop_counter import FlopCounterMode

from slicekit import Chunked, Exponential, Projective, Recurrent, Tabulated, propagate, solve
from slicekit.flows import Flow
from slicekit.scans import Scan
from slicekit.structures import BlockTransition, DiagonalTransition, LowRankTransition
from tests.market import FLOWS, STRUCTURES, every_structure, make_parameters
from tests.scans.problems import SETTINGS, Problem, assert_near, with_gradients

BOTH: dict[str, Scan] = {"recurrent": Recurrent(), "chunked": Chunked(3)}
both_scans = pytest.mark.parametrize("scan", BOTH)

COPIES = 3


def own_flow(name: str) -> Flow | None:
    """Exponentials of open structures must be told their substeps where data can't be read."""
    return Exponential(substeps=3) if name == "dplr" else None


@both_scans
@every_structure
def test_mapping_over_increments_is_a_loop_over_them(name: str, scan: str) -> None:
    structure, flow = STRUCTURES[name], own_flow(name)
    parameters = make_parameters(structure)
    paths = torch.randn(COPIES, 2, 5, 3).double() * 0.3
    state = torch.randn(2, structure.dim).double()

    def states(path: Tensor) -> Tensor:
        return solve(structure, parameters, path, state, flow, BOTH[scan])[0]

    looped = torch.stack([states(path) for path in paths])
    torch.testing.assert_close(vmap(states)(paths), looped)


@both_scans
@every_structure
def test_gradients_map_over_increments_and_parameters(name: str, scan: str) -> None:
    structure, flow = STRUCTURES[name], own_flow(name)
    given = make_parameters(structure)
    trained = {k: x for k, x in given.items() if x.is_floating_point()}
    paths = torch.randn(COPIES, 2, 5, 3).double() * 0.3
    state, weights = torch.randn(2, 2, structure.dim).double()

    def loss(trained: dict[str, Tensor], path: Tensor) -> Tensor:
        return (weights * solve(structure, given | trained, path, state, flow, BOTH[scan])[1]).sum()

    in_both = vmap(grad(loss, argnums=(0, 1)), in_dims=(None, 0))(trained, paths)
    for copy, path in enumerate(paths):
        leaves = {k: x.clone().requires_grad_() for k, x in trained.items()}
        moved = path.clone().requires_grad_()
        loss(leaves, moved).backward()
        torch.testing.assert_close(in_both[1][copy], moved.grad)
        for name_, x in leaves.items():
            torch.testing.assert_close(in_both[0][name_][copy], x.grad)


@pytest.mark.parametrize("name", ["blocks", "joint-dplr", "orthogonal-4", "open-sum", "circulant"])
def test_jacobians_of_both_scans_are_equal(name: str) -> None:
    structure = STRUCTURES[name]
    parameters, state = make_parameters(structure), torch.randn(1, structure.dim).double()
    path = torch.randn(1, 4, 3).double() * 0.3
    looped, chunked = (
        jacrev(lambda x, s=scan: solve(structure, parameters, x, state, scan=s)[0])(path)
        for scan in BOTH.values()
    )
    rows = []
    for i in range(4 * structure.dim):
        moved = path.clone().requires_grad_()
        states = solve(structure, parameters, moved, state, scan=Recurrent())[0]
        rows.append(torch.autograd.grad(states.flatten()[i], moved)[0])
    torch.testing.assert_close(looped, torch.stack(rows).view_as(looped))
    torch.testing.assert_close(chunked, looped)


@both_scans
def test_tables_and_tokens_map(scan: str) -> None:
    structure = STRUCTURES["ragged"]
    parameters, state = make_parameters(structure), torch.randn(2, structure.dim).double()
    tables = torch.randn(COPIES, 4, 3).double() * 0.3
    index = torch.randint(-1, 4, (COPIES, 2, 5))

    def loss(table: Tensor, index: Tensor) -> Tensor:
        tokens = Tabulated(table, index)
        return solve(structure, parameters, tokens, state, scan=BOTH[scan])[0].square().sum()

    mapped = vmap(grad(loss))(tables, index)
    for copy in range(COPIES):
        torch.testing.assert_close(mapped[copy], grad(loss)(tables[copy], index[copy]))


def test_open_structures_ask_for_substeps_where_data_cannot_be_read() -> None:
    structure = STRUCTURES["dplr"]
    parameters, state = make_parameters(structure), torch.randn(1, structure.dim).double()

    def states(path: Tensor) -> Tensor:
        return solve(structure, parameters, path, state, Exponential(), Recurrent())[0]

    with pytest.raises(ValueError, match=r"use Exponential\(substeps=n\)"):
        vmap(states)(torch.randn(2, 1, 4, 3).double())


@every_structure
def test_a_dispatch_mode_around_it_changes_nothing(name: str) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS["tokens-outer-padded"])
    plain = with_gradients(lambda x: problem.solve(x, None, Chunked(4)), problem.leaves)
    with FlopCounterMode(display=False):
        counted = with_gradients(lambda x: problem.solve(x, None, Chunked(4)), problem.leaves)
    assert_near(counted, plain, 1e-12)


def test_a_dispatch_mode_leaves_complex_gradients_right() -> None:
    values = torch.randn(2, 5, 4, dtype=torch.complex128).requires_grad_()
    state = torch.randn(2, 4, dtype=torch.complex128)

    def gradient() -> Tensor:
        states, _ = propagate(DiagonalTransition(values), state, scan=Chunked())
        return torch.autograd.grad(states.abs().sum(), values)[0]

    with FlopCounterMode(display=False):
        counted = gradient()
    torch.testing.assert_close(counted, gradient())


COMPILED = [
    ("blocks", "euler", "affine-padded"),
    ("ragged", "exponential", "tokens-outer-padded"),
    ("diagonal-dense", "euler", "tokens"),
    ("diagonal", "exponential", "matrix"),
    ("dplr", "exponential", "affine"),
    ("joint-dplr", "euler", "outer"),
    ("hadamard-8", "euler", "projective"),
    ("sparse-by-density", "euler", "padded"),
    ("orthogonal-4", "natural", "tokens"),
    ("open-sum", "euler", "projective-matrix-tokens-padded"),
    ("orthogonal-sum", "natural", "affine"),
    ("circulant", "exponential", "plain"),
]


@pytest.mark.parametrize(("name", "flow_name", "setting"), COMPILED)
def test_a_compiled_solve_is_the_eager_one(name: str, flow_name: str, setting: str) -> None:
    torch.compiler.reset()
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting])
    flow = FLOWS[flow_name]

    def answers(leaves: dict[str, Tensor]) -> dict[str, Tensor]:
        return problem.solve(leaves, flow, Chunked())

    compiled = torch.compile(answers, fullgraph=True, backend="aot_eager")
    eager = with_gradients(answers, problem.leaves)
    assert_near(with_gradients(compiled, problem.leaves), eager, 1e-12)


def test_a_compiled_solve_takes_any_length() -> None:
    torch.compiler.reset()
    structure = STRUCTURES["blocks"]
    parameters, state = make_parameters(structure), torch.randn(2, structure.dim).double()

    def states(path: Tensor) -> Tensor:
        return solve(structure, parameters, path, state, scan=Chunked())[0]

    compiled = torch.compile(states, fullgraph=True, backend="aot_eager")
    for length in (4, 5, 9):
        path = torch.randn(2, length, 3).double()
        torch.testing.assert_close(compiled(path), states(path))
        path.requires_grad_()
        torch.testing.assert_close(compiled(path), states(path))
        (actual,) = torch.autograd.grad(compiled(path).square().sum(), path)
        (expected,) = torch.autograd.grad(states(path).square().sum(), path)
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("kind", ["complex diagonal", "complex low rank", "blocks"])
def test_a_compiled_propagate_is_the_eager_one(kind: str) -> None:
    torch.compiler.reset()
    if kind == "blocks":
        dtype, tensors = torch.float64, [torch.randn(2, 7, 2, 2, 2).double()]
    else:
        dtype, tensors = torch.complex128, [torch.randn(2, 7, 4, dtype=torch.complex128)]
    if kind == "complex low rank":
        tensors += [torch.randn(2, 7, 4, 2, dtype=dtype) * 0.3 for _ in range(2)]
    made = {"blocks": BlockTransition, "complex diagonal": DiagonalTransition}
    cls = made.get(kind, LowRankTransition)
    state, readout = torch.randn(2, 4, 3, dtype=dtype), torch.randn(2, 7, 4, dtype=dtype)

    def loss(state: Tensor, readout: Tensor, *tensors: Tensor) -> Tensor:
        outputs, last = propagate(cls(*tensors), state, readout=readout, scan=Chunked())
        return outputs.abs().sum() + last.abs().sum()

    leaves = [x.requires_grad_() for x in (state, readout, *tensors)]
    expected = torch.autograd.grad(loss(*leaves), leaves)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    actual = torch.autograd.grad(compiled(*leaves), leaves)
    torch.testing.assert_close(actual, expected)


def test_a_compiled_projective_state_may_be_passed_on() -> None:
    torch.compiler.reset()
    structure = STRUCTURES["blocks"]
    parameters = make_parameters(structure)

    def twice(path: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        _, middle = solve(structure, parameters, path, Projective.of(state), scan=Chunked())
        _, last = solve(structure, parameters, path, middle, scan=Chunked())
        return last.direction, last.log_norm

    path, state = torch.randn(2, 5, 3).double(), torch.randn(2, structure.dim).double()
    compiled = torch.compile(twice, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(path, state), twice(path, state))
