"""Gradients by the native scan: against differences, of one answer, in one leaf, and none."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit import Native, Recurrent
from tests.market import NO_KERNEL, STRUCTURES, TINY, every_structure, every_tiny_structure
from tests.scans.native.problems import PLAIN, answers, needs_library
from tests.scans.problems import SETTINGS, Problem, Setting, assert_near, with_gradients


@needs_library
@pytest.mark.parametrize("kind", ["increments", "tokens", "projective"])
@every_tiny_structure
def test_gradients_are_those_of_finite_differences(name: str, kind: str) -> None:
    if name in NO_KERNEL:
        pytest.skip("there is no kernel")
    tokens, projective = kind == "tokens", kind == "projective"
    inputs = "dense" if kind == "increments" else "none"
    setting = Setting(inputs=inputs, tokens=tokens, padded=True, projective=projective)
    problem = Problem.make(TINY[name], setting, length=10 if projective else 3)
    names = [k for k, x in problem.leaves.items() if x.is_floating_point()]

    def found(*values: Tensor) -> tuple[Tensor, ...]:
        leaves = problem.leaves | dict(zip(names, values, strict=True))
        return tuple(problem.solve(leaves, None, Native()).values())

    assert torch.autograd.gradcheck(
        found, [problem.leaves[k].clone().requires_grad_() for k in names], fast_mode=True
    )


@needs_library
@pytest.mark.parametrize("name", ["blocks", "dplr", "orthogonal-4", "sparse-by-density"])
def test_second_derivatives_are_refused_and_sent_to_recurrent(name: str) -> None:
    problem = Problem.make(STRUCTURES[name], PLAIN)
    path = problem.leaves["path"].clone().requires_grad_()
    h = problem.solve(problem.leaves | {"path": path}, None, Native())["states"]
    (first,) = torch.autograd.grad(h.square().sum(), path, create_graph=True)
    with pytest.raises(RuntimeError, match=r"Native\(\) give first derivatives only.*Recurrent"):
        first.square().sum().backward()


@needs_library
@pytest.mark.parametrize("answer", ["states", "last"])
@every_structure
def test_gradients_of_one_answer_alone_are_right(name: str, answer: str) -> None:
    if name in NO_KERNEL:
        pytest.skip("there is no kernel")
    problem = Problem.make(STRUCTURES[name], SETTINGS["affine"])
    native, looped = (
        with_gradients(
            lambda x, s=scan: {answer: problem.solve(x, None, s)[answer]}, problem.leaves
        )
        for scan in (Native(), Recurrent())
    )
    assert_near(native, looped, 1e-10)


@needs_library
@pytest.mark.parametrize("leaf", ["path", "initial_state", "inputs"])
@pytest.mark.parametrize("name", ["ragged", "dplr", "sparse-by-density", "open-sum", "hadamard-8"])
def test_a_single_leaf_may_be_differentiated(name: str, leaf: str) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS["affine"])
    found = []
    for scan in (Native(), Recurrent()):
        x = problem.leaves[leaf].clone().requires_grad_()
        states = problem.solve(problem.leaves | {leaf: x}, None, scan)["states"]
        found.append(torch.autograd.grad(states.square().sum(), x)[0])
    torch.testing.assert_close(*found)


@needs_library
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("setting", ["affine", "tokens", "projective"])
@pytest.mark.parametrize("name", ["blocks", "dplr", "orthogonal-sum", "sparse-by-density"])
def test_without_gradients_the_values_are_the_same(
    name: str, setting: str, context: Callable[[], Any]
) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting])
    expected = answers(problem)
    with context():
        inside = {k: x.clone() for k, x in problem.leaves.items()}
        found = problem.solve(inside, None, Native())
    assert not any(x.requires_grad for x in found.values())
    assert_near(found, {k: expected[k] for k in found}, 1e-12)
