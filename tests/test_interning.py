"""Descriptions by name: equal ones share a name, and a pickle works where nobody knows it yet."""

import copy
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

import slicekit
from slicekit import BlockDiagonal, Chunked, Diagonal, Exponential, solve
from slicekit.interning import intern, recall
from slicekit.structures import DiagonalGenerator, Parameters
from tests.market import CHANNELS, STRUCTURES, Circulant, every_structure, make_parameters

ROOT = Path(__file__).parents[1]


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


def test_any_frozen_value_may_be_interned() -> None:
    key = intern(("a", 1))
    assert recall(key) == ("a", 1)
    assert intern(("a", 1)) == key


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
    answers.append((states.detach(), gradient))
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
    for call, (states, gradient) in zip(calls, answers, strict=True):
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
