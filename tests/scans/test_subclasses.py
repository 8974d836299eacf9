"""A subclass that computes something else is never run as what it was derived from."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit import BlockDiagonal, Chunked, Dense, Diagonal, DirectSum, Euler, Recurrent, solve
from slicekit.flows import Flow
from slicekit.scans import propagate
from slicekit.structures import (
    DiagonalGenerator,
    DiagonalTransition,
    Generator,
    Parameters,
    Structure,
    SumTransition,
    Transition,
)


@dataclass(frozen=True)
class Negative(Diagonal):
    def combine(self, parameters: Parameters, increments: Tensor) -> DiagonalGenerator:
        return super().combine(parameters, -2 * increments)


class NegativeSum(DirectSum):
    def combine(self, parameters: Parameters, increments: Tensor) -> Generator:
        return super().combine(parameters, -2 * increments)

    def euler(self, parameters: Parameters, increments: Tensor) -> Transition:
        return self.combine(parameters, increments).euler()


class Threefold(Euler):
    def transition(
        self, structure: Structure, parameters: Parameters, increments: Tensor
    ) -> Transition:
        return structure.euler(parameters, 3 * increments)


CASES: dict[str, tuple[Structure, Flow | None]] = {
    "a diagonal": (Negative(4), None),
    "a sum": (NegativeSum(Diagonal(2), Dense(2)), None),
    "inside of a sum": (DirectSum(Negative(2), Dense(2)), None),
    "a flow": (BlockDiagonal(4, 2), Threefold()),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("scan", [Chunked(3), None])
def test_values_and_gradients_are_the_subclass_own(case: str, scan: Any) -> None:
    structure, flow = CASES[case]
    parameters = {n: x.double().requires_grad_() for n, x in structure.init(3).items()}
    path = (torch.randn(2, 6, 3).double() / 3).requires_grad_()
    answers = []
    for way in (Recurrent(), scan):
        states, _ = solve(structure, parameters, path, torch.ones(2, 4).double(), flow, way)
        gradients = torch.autograd.grad(states.square().sum(), [path, *parameters.values()])
        answers.append((states.detach(), *gradients))
    for expected, found in zip(*answers, strict=True):
        torch.testing.assert_close(found, expected)


def test_a_transition_of_a_known_name_is_not_taken_for_it() -> None:
    @dataclass(frozen=True, eq=False)
    class Doubled(DiagonalTransition):
        def act(self, state: Tensor) -> Tensor:
            return 2 * super().act(state)

    Doubled.__name__ = "DiagonalTransition"
    given, start = Doubled(torch.ones(1, 3, 2)), torch.ones(1, 2)
    assert propagate(given, start)[1].tolist() == [[8.0, 8.0]]
    sums = SumTransition((given,))
    assert propagate(sums, start)[1].tolist() == [[8.0, 8.0]]
