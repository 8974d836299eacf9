"""The loop is the one scan that may be differentiated twice."""

import pytest
import torch
from torch import Tensor

from slicekit import Exponential, Recurrent
from slicekit.flows import Flow
from tests.market import TINY, every_tiny_structure
from tests.scans.problems import Problem, Setting


@pytest.mark.parametrize("flow", [None, Exponential()], ids=["natural", "exponential"])
@every_tiny_structure
def test_second_derivatives_are_those_of_finite_differences(name: str, flow: Flow | None) -> None:
    problem = Problem.make(TINY[name], Setting(inputs="dense", padded=True), length=2)
    names = [k for k, x in problem.leaves.items() if x.is_floating_point()]

    def answers(*values: Tensor) -> tuple[Tensor, ...]:
        leaves = problem.leaves | dict(zip(names, values, strict=True))
        return tuple(problem.solve(leaves, flow, Recurrent()).values())

    values = [problem.leaves[k].clone().requires_grad_() for k in names]
    assert torch.autograd.gradcheck(answers, values, fast_mode=True)
    assert torch.autograd.gradgradcheck(answers, values, fast_mode=True)
