"""A subclass that computes something else is never run as what it was derived from."""

import warnings
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit import (
    Associative,
    BlockDiagonal,
    Chunked,
    Dense,
    Diagonal,
    DirectSum,
    Euler,
    Recurrent,
    solve,
)
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


@dataclass(frozen=True, eq=False)
class Twice(DiagonalTransition):
    """Another `act`, and nothing else: what is inherited is about another matrix."""

    def act(self, state: Tensor) -> Tensor:
        return 2 * super().act(state)


@dataclass(frozen=True, eq=False)
class WholeTwice(Twice):
    """The same matrix, with all that is said of it."""

    def act(self, state: Tensor) -> Tensor:
        return 2 * DiagonalTransition.act(self, state)

    def adjoint(self) -> "WholeTwice":
        return WholeTwice(self.values.conj())

    def pullback(self, before: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        return super().pullback(before, 2 * cotangent)

    def compose(self, earlier: Any) -> "WholeTwice":
        return WholeTwice(2 * self.values * earlier.values)

    def sizes(self, state: Tensor) -> Tensor:
        return state.abs()


@dataclass(frozen=True)
class Makes(Diagonal):
    """A structure whose own `combine` gives such transitions."""

    whole: bool = False

    def combine(self, parameters: Parameters, increments: Tensor) -> DiagonalGenerator:
        whole, given = self.whole, super().combine(parameters, increments)

        @dataclass(frozen=True, eq=False)
        class Steps(DiagonalGenerator):
            def euler(self) -> DiagonalTransition:
                return (WholeTwice if whole else Twice)(1 + self.values)

        return Steps(given.values)

    def euler(self, parameters: Parameters, increments: Tensor) -> DiagonalTransition:
        return self.combine(parameters, increments).euler()


@pytest.mark.parametrize(
    "structure", [Makes(2), DirectSum(Makes(2), Dense(2)), Makes(2, whole=True)]
)
@pytest.mark.parametrize("scan", [None, Associative(), Chunked(2), Recurrent()])
def test_transitions_with_an_act_of_their_own_are_run_by_it(
    structure: Structure, scan: Any
) -> None:
    parameters = {n: x.double().requires_grad_() for n, x in structure.init(3).items()}
    path = (torch.randn(2, 5, 3).double() / 3).requires_grad_()
    start = torch.ones(2, structure.dim).double()

    def found(way: Any) -> list[Tensor]:
        states, _ = solve(structure, parameters, path, start, scan=way)
        return [states, *torch.autograd.grad(states.square().sum(), [path, *parameters.values()])]

    if isinstance(scan, Chunked) and structure != Makes(2, whole=True):
        with pytest.raises(ValueError, match=r"override act, but inherit adjoint"):
            found(scan)
        return
    unit, h, expected = torch.eye(structure.dim).double(), start, []
    for step in path.unbind(1):
        h = structure.euler(parameters, step).act(unit) @ h[..., None]
        h = h[..., 0]
        expected.append(h)
    states = torch.stack(expected, 1)
    grads = torch.autograd.grad(states.square().sum(), [path, *parameters.values()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ours, theirs in zip(found(scan), [states, *grads], strict=True):
            torch.testing.assert_close(ours, theirs)


def test_only_an_act_that_was_overridden_spoils_what_is_inherited() -> None:
    ours: list[type[Transition]] = [*Transition.__subclasses__()]
    for kind in ours:
        ours += kind.__subclasses__()
        if kind.__module__.startswith("slicekit."):
            assert kind.agrees("adjoint", "pullback", "sizes", "compose"), kind
    assert WholeTwice.agrees("adjoint", "pullback", "sizes", "compose")
    for name in ("adjoint", "pullback", "sizes", "compose"):
        assert not Twice.agrees(name)
