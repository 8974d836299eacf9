"""The chunked scan: its adjoint, what it keeps and what it refuses."""

import pytest
import torch
from torch import Tensor

import slicekit.scans.chunked.steps
from slicekit import (
    DPLR,
    Chunked,
    Diagonal,
    Exponential,
    Recurrent,
    propagate,
    solve,
)
from slicekit.flows import Flow
from slicekit.structures.exponential import EulerAction
from tests.market import (
    FLOWS,
    STRUCTURES,
    TINY,
    every_structure,
    every_structure_and_flow,
    every_tiny_structure,
    make_parameters,
)
from tests.scans.problems import SETTINGS, Problem, Setting, assert_near, with_gradients


@pytest.mark.parametrize("flow", [None, Exponential()], ids=["natural", "exponential"])
@pytest.mark.parametrize("tokens", [False, True], ids=["increments", "tokens"])
@every_tiny_structure
def test_gradients_are_those_of_finite_differences(
    name: str, tokens: bool, flow: Flow | None
) -> None:
    setting = Setting(inputs="none" if tokens else "dense", tokens=tokens, padded=True)
    problem = Problem.make(TINY[name], setting, length=3)
    names = [k for k, x in problem.leaves.items() if x.is_floating_point()]

    def answers(*values: Tensor) -> tuple[Tensor, ...]:
        leaves = problem.leaves | dict(zip(names, values, strict=True))
        return tuple(problem.solve(leaves, flow, Chunked(2)).values())

    assert torch.autograd.gradcheck(
        answers, [problem.leaves[k].clone().requires_grad_() for k in names], fast_mode=True
    )


@pytest.mark.parametrize("setting", ["affine-padded", "tokens", "projective"])
@every_structure_and_flow
def test_transitions_that_are_not_kept_change_nothing(
    name: str, flow_name: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting])
    flow = FLOWS[flow_name]
    kept = with_gradients(lambda x: problem.solve(x, flow, Chunked(4)), problem.leaves)
    monkeypatch.setattr(slicekit.scans.chunked.steps, "KEEP_BYTES", 0)
    made_again = with_gradients(lambda x: problem.solve(x, flow, Chunked(4)), problem.leaves)
    assert_near(made_again, kept, 1e-12)


@every_structure
def test_chunks_of_one_step_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS["affine-padded"])
    whole = with_gradients(lambda x: problem.solve(x, None, Chunked()), problem.leaves)
    monkeypatch.setattr(slicekit.scans.chunked.steps, "CHUNK_BYTES", 1)
    step_by_step = with_gradients(lambda x: problem.solve(x, None, Chunked()), problem.leaves)
    assert_near(step_by_step, whole, 1e-12)


@pytest.mark.parametrize("name", ["diagonal", "diagonal-dense", "joint-dplr", "hadamard-8"])
@pytest.mark.parametrize("length", [1, 32, 40])
def test_any_length_is_that_of_the_dense_loop(name: str, length: int) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS["affine"], length=length, scale=0.1)
    actual = with_gradients(lambda x: problem.solve(x, None, Chunked()), problem.leaves)
    expected = with_gradients(lambda x: problem.reference(x, None), problem.leaves)
    assert_near(actual, expected, 1e-9)


@pytest.mark.parametrize("answer", ["states", "last"])
@every_structure
def test_gradients_of_one_answer_alone_are_right(name: str, answer: str) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS["plain"])
    chunked, looped = (
        with_gradients(
            lambda x, scan=scan: {answer: problem.solve(x, None, scan)[answer]}, problem.leaves
        )
        for scan in (Chunked(4), Recurrent())
    )
    assert_near(chunked, looped, 1e-10)


@pytest.mark.parametrize("tokens", [False, True], ids=["increments", "tokens"])
@pytest.mark.parametrize("flow", [None, Exponential()], ids=["natural", "exponential"])
@every_structure
def test_second_derivatives_are_refused_and_sent_to_recurrent(
    name: str, flow: Flow | None, tokens: bool
) -> None:
    problem = Problem.make(STRUCTURES[name], Setting(tokens=tokens))
    path = problem.leaves["path"].clone().requires_grad_()
    h = problem.solve(problem.leaves | {"path": path}, flow, Chunked())["states"]
    (first,) = torch.autograd.grad(h.square().sum(), path, create_graph=True)
    with pytest.raises(RuntimeError, match=r"first derivatives only.*use scan=Recurrent\(\)"):
        first.square().sum().backward()


def test_second_derivatives_are_refused_by_torch_func() -> None:
    structure = Diagonal(3)
    parameters, state = make_parameters(structure), torch.randn(1, 3).double()

    def loss(increments: Tensor) -> Tensor:
        return solve(structure, parameters, increments, state, scan=Chunked())[1].square().sum()

    with pytest.raises(RuntimeError, match=r"use scan=Recurrent\(\)"):
        torch.func.jacrev(torch.func.grad(loss))(torch.randn(1, 4, 3).double())


def test_transitions_it_does_not_know_are_refused() -> None:
    structure = DPLR(4, 1)
    transition = structure.combine(make_parameters(structure), torch.randn(1, 5, 3).double())
    assert isinstance(transition.euler(), EulerAction)
    state = torch.randn(1, 4).double()
    with pytest.raises(ValueError, match=r"scan=Chunked\(.*\) does not know EulerAction; use Rec"):
        propagate(transition.euler(), state, scan=Chunked())
    chosen, _ = propagate(transition.euler(), state)
    looped, _ = propagate(transition.euler(), state, scan=Recurrent())
    assert torch.equal(chosen, looped)


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^size=0; expected at least 1, or None$"):
        Chunked(0)
