"""Descriptions by handle: only those that nothing can tell apart share one, and handles die."""

import copy
import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
from torch import Tensor

import slicekit
from slicekit import (
    BlockDiagonal,
    Chunked,
    Diagonal,
    DirectSum,
    Exponential,
    Recurrent,
    handles,
    solve,
)
from slicekit.flows import Flow
from slicekit.handles import recall
from slicekit.structures import DiagonalGenerator, Parameters, Structure, Transition
from tests.market import CHANNELS, STRUCTURES, Circulant, every_structure, make_parameters

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _no_graph_of_another_test() -> Iterator[None]:
    yield
    torch.compiler.reset()


def test_equal_descriptions_share_a_name_and_others_do_not() -> None:
    assert BlockDiagonal(8, 4).key == BlockDiagonal(8, 4).key
    keys = {structure.key for structure in STRUCTURES.values()}
    assert len(keys) == len(STRUCTURES)
    assert BlockDiagonal(8, 4).key != BlockDiagonal(8, 4, scale=0.5).key


@every_structure
def test_a_name_recalls_an_equal_description(name: str) -> None:
    structure = STRUCTURES[name]
    assert recall(structure.key) == structure


def test_a_class_defined_anew_gets_a_name_of_its_own() -> None:
    """As in a notebook whose cell is run again: the old structure must not answer for the new."""

    def define(sign: float) -> type[Diagonal]:
        @dataclass(frozen=True)
        class Signed(Diagonal):
            def combine(self, parameters: Parameters, increments: Tensor) -> DiagonalGenerator:
                return super().combine(parameters, sign * increments)

        return Signed

    old, new = define(1.0)(2), define(-1.0)(2)
    assert repr(old) == repr(new)
    assert old.key != new.key
    assert type(recall(old.key)) is type(old)
    assert type(recall(new.key)) is type(new)
    parameters, path = {"values": torch.ones(1, 2)}, torch.ones(1, 3, 1)
    up, down = (
        solve(structure, parameters, path, torch.ones(1, 2), scan=Chunked())[1]
        for structure in (old, new)
    )
    assert torch.equal(up, torch.full((1, 2), 8.0))
    assert torch.equal(down, torch.zeros(1, 2))


@every_structure
def test_structures_are_values(name: str) -> None:
    structure = STRUCTURES[name]
    for same in (pickle.loads(pickle.dumps(structure)), copy.deepcopy(structure)):
        assert same == structure
        assert same is not structure
        assert hash(same) == hash(structure)
        assert same.key == structure.key
        assert (same.dim, same.ragged, same.bilinear, same.exponential_only) == (
            structure.dim,
            structure.ragged,
            structure.bilinear,
            structure.exponential_only,
        )
    with pytest.raises(AttributeError):
        structure.dim = 3


SOLVE = """
import pickle, sys, torch
with open(sys.argv[1], "rb") as file:
    calls = pickle.load(file)
answers = []
for structure, parameters, path, state, flow, scan in calls:
    from slicekit import solve
    path.requires_grad_()
    states, _ = solve(structure, parameters, path, state, flow, scan)
    (gradient,) = torch.autograd.grad(states.square().sum(), path)
    answers.append((states.detach(), gradient, structure.key))
with open(sys.argv[2], "wb") as file:
    pickle.dump(answers, file)
"""


def test_unpickled_structures_and_flows_solve_in_a_process_that_never_saw_them(
    tmp_path: Path,
) -> None:
    calls = []
    for structure in STRUCTURES.values():
        path = torch.randn(1, 4, CHANNELS).double() * 0.3
        state = torch.randn(1, structure.dim).double()
        call = (structure, make_parameters(structure), path, state, Exponential(), Chunked(3))
        calls.append(call)
    given, answered = tmp_path / "calls", tmp_path / "answers"
    given.write_bytes(pickle.dumps(calls))
    places = [str(ROOT), str(Path(slicekit.__file__).parents[1])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    command = [sys.executable, "-c", SOLVE, str(given), str(answered)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = pickle.loads(answered.read_bytes())
    for call, (states, gradient, key) in zip(calls, answers, strict=True):
        if type(call[0]).__module__.startswith("slicekit."):
            assert key == call[0].key
        moved = call[2].clone().requires_grad_()
        expected, _ = solve(call[0], call[1], moved, *call[3:])
        torch.testing.assert_close(states, expected.detach())
        (wanted,) = torch.autograd.grad(expected.square().sum(), moved)
        torch.testing.assert_close(gradient, wanted)


def test_a_users_structure_needs_one_class() -> None:
    """Circulant matrices commute and are closed under products: the dense form says so."""
    structure = Circulant(4)
    increments = torch.randn(2, CHANNELS).double()
    a, b = structure.combine(make_parameters(structure), increments).unbind(0)
    torch.testing.assert_close(a.as_dense() @ b.as_dense(), b.as_dense() @ a.as_dense())
    assert recall(structure.key) == structure


@dataclass(frozen=True)
class Hidden(Diagonal):
    """A factor that is neither shown nor compared."""

    factor: float = field(default=1.0, repr=False, compare=False)

    def combine(self, parameters: Parameters, increments: Tensor) -> DiagonalGenerator:
        return super().combine(parameters, self.factor * increments)


@dataclass
class Changeable(Structure):
    """A description that can be written to, with no hash."""

    dim: int
    factors: list[float]

    def init(self, channels: int, *_: Any, **__: Any) -> Parameters:
        return {"values": torch.ones(channels, self.dim)}

    def combine(self, parameters: Parameters, increments: Tensor) -> DiagonalGenerator:
        return Diagonal(self.dim).combine(parameters, self.factors[0] * increments)

    def step_cost(self, channels: int) -> int:
        return 0


class Scaled(Flow):
    """A user's flow that says nothing of itself."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Tensor
    ) -> Transition:
        return structure.euler(parameters, self.factor * increments)

    def __repr__(self) -> str:
        return "Scaled()"


class DampedExponential(Exponential):
    """A subclass that is no dataclass itself."""

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Tensor
    ) -> Transition:
        return super().transition(structure, parameters, 0.5 * increments)


def anew(factor: float) -> Structure:
    """A class defined anew, inside of a sum."""

    @dataclass(frozen=True)
    class Part(Diagonal):
        def combine(self, parameters: Parameters, increments: Tensor) -> DiagonalGenerator:
            return super().combine(parameters, factor * increments)

    return DirectSum(Part(1), Diagonal(1))


LOOKALIKES: dict[str, tuple[tuple[Structure, Flow | None], ...]] = {
    "a field that is not shown": ((Hidden(2, 1.0), None), (Hidden(2, 3.0), None)),
    "a whole number and a real one": ((Hidden(2, 1), None), (Hidden(2, 1.0), None)),
    "a class anew inside of a sum": ((anew(1.0), None), (anew(3.0), None)),
    "a list": ((Changeable(2, [1.0]), None), (Changeable(2, [3.0]), None)),
    "flows of one name": ((Diagonal(2), Scaled(1.0)), (Diagonal(2), Scaled(3.0))),
    "a subclass of a flow": ((Diagonal(2), Exponential()), (Diagonal(2), DampedExponential())),
}


def last_state(structure: Structure, flow: Flow | None, scan: Any) -> Tensor:
    parameters = structure.init(1)
    parameters = {name: torch.ones_like(x) for name, x in parameters.items()}
    return solve(structure, parameters, torch.ones(1, 3, 1), torch.ones(1, 2), flow, scan)[1]


@pytest.mark.parametrize("case", LOOKALIKES)
def test_no_description_answers_for_one_that_looks_like_it(case: str) -> None:
    for structure, flow in LOOKALIKES[case]:
        expected = last_state(structure, flow, Recurrent())
        for scan in (Chunked(), None):
            torch.testing.assert_close(last_state(structure, flow, scan), expected)


def test_no_graph_is_run_with_a_description_that_looks_like_its_own() -> None:
    compiled = torch.compile(last_state, fullgraph=True, backend="aot_eager")
    cases = ("a field that is not shown", "a class anew inside of a sum", "flows of one name")
    for structure, flow in (pair for case in cases for pair in LOOKALIKES[case]):
        expected = last_state(structure, flow, Recurrent())
        torch.testing.assert_close(compiled(structure, flow, Chunked()), expected)


def test_a_description_that_was_changed_computes_as_it_is_now() -> None:
    structure, flow = Changeable(2, [1.0]), Scaled(1.0)
    compiled = torch.compile(last_state, fullgraph=True, backend="aot_eager")
    for factor in (1.0, -0.5):
        structure.factors[0] = flow.factor = factor
        expected = last_state(structure, flow, Recurrent())
        torch.testing.assert_close(last_state(structure, flow, Chunked()), expected)
        torch.testing.assert_close(compiled(structure, flow, Chunked()), expected)
    structure.dim = 3
    with pytest.raises(ValueError, match="initial_state has shape"):
        last_state(structure, flow, None)


def test_a_copy_has_a_handle_of_its_own() -> None:
    flow = Scaled(1.0)
    for same in (copy.copy(flow), copy.deepcopy(flow), pickle.loads(pickle.dumps(flow))):
        assert same.key != flow.key
        same.factor = 3.0
        expected = last_state(Diagonal(2), same, Recurrent())
        torch.testing.assert_close(last_state(Diagonal(2), same, Chunked()), expected)


def test_handles_die_with_their_descriptions() -> None:
    gc.collect()
    before = len(handles._named), len(handles._alike)
    last_key = ""
    for dim in range(1, 300):
        last_key = DirectSum(Diagonal(dim, scale=0.123), Hidden(dim, float(dim))).key
        last_state(Changeable(2, [float(dim)]), Scaled(float(dim)), Chunked())
    assert (len(handles._named), len(handles._alike)) == before
    with pytest.raises(RuntimeError, match=rf"^no structure or flow has the handle '{last_key}'"):
        recall(last_key)


def test_gradients_outlive_the_variables_that_named_their_descriptions() -> None:
    path = torch.ones(1, 3, 1, requires_grad=True)

    def run(scan: Any, path: Tensor) -> Tensor:
        structure, flow = Hidden(2, 0.5), Scaled(3.0)
        return solve(structure, {"values": torch.ones(1, 2)}, path, torch.ones(1, 2), flow, scan)[1]

    (expected,) = torch.autograd.grad(run(Recurrent(), path).sum(), path)
    last = run(Chunked(), path)
    gc.collect()
    (found,) = torch.autograd.grad(last.sum(), path)
    torch.testing.assert_close(found, expected)


def test_a_compiled_graph_keeps_what_its_backward_pass_asks_for() -> None:
    path = torch.ones(1, 3, 1, requires_grad=True)

    def run(structure: Structure, flow: Flow, scan: Any) -> Tensor:
        parameters = {"values": torch.ones(1, 2)}
        return solve(structure, parameters, path, torch.ones(1, 2), flow, scan)[1]

    (expected,) = torch.autograd.grad(run(Hidden(2, 0.7), Scaled(3.0), Recurrent()).sum(), path)
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    last = compiled(Hidden(2, 0.7), Scaled(3.0), Chunked())
    gc.collect()
    (found,) = torch.autograd.grad(last.sum(), path)
    torch.testing.assert_close(found, expected)


def test_threads_agree_on_a_handle() -> None:
    made: list[Structure] = []
    threads = [
        Thread(target=lambda: made.extend(Diagonal(2, scale=i / 7) for i in range(1, 50)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({structure.key for structure in made}) == 49
    assert all(recall(structure.key) == structure for structure in made)
