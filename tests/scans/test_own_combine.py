"""A subclass of a structure with another `combine` is run by the matrices that this one makes."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

import slicekit as sk
from slicekit.flows import Flow
from slicekit.paths import hall, log_signatures
from slicekit.structures import BlockGenerator, Generator, Parameters, Structure
from slicekit.structures.base import brackets
from tests.market import CHANNELS, NONLINEAR, STRUCTURES, every_structure, make_parameters

BATCH, LENGTH, WINDOW = 2, 4, 2

pytestmark = [
    pytest.mark.filterwarnings("ignore:Associative.. composes"),
    pytest.mark.filterwarnings("ignore:LogODE"),
]


class Halved:
    """Half of every parameter: generators stay of their kind."""

    def combine(self, parameters: Parameters, increments: Tensor) -> Generator:
        given: Any = super()
        halves = {n: x / 2 if x.is_floating_point() else x for n, x in parameters.items()}
        return given.combine(halves, increments)


class Tilted:
    """A + A^T / 2 as one block: what was diagonal, sparse or skew-symmetric need not be any more.

    Of blocks that is another structure altogether: the rows are turned round as well.
    """

    def combine(self, parameters: Parameters, increments: Tensor) -> Generator:
        given: Any = super()
        dense = given.combine(parameters, increments).as_dense()
        turned = dense.roll((1, 2), (-2, -1))
        return BlockGenerator((turned + turned.mT / 2).unsqueeze(-3))


CHANGES = {"halved": Halved, "tilted": Tilted}


def changed(name: str, change: str) -> Structure:
    """A structure of the market in a subclass of its own."""
    given = STRUCTURES[name]
    kind = type(change, (CHANGES[change], type(given)), {})
    made = object.__new__(dataclass(frozen=True, init=False)(kind))
    made.__setstate__(given.__getstate__())
    return made


def leaves_of(structure: Structure) -> dict[str, Tensor]:
    """Parameters, increments of a few tokens, a path over them and a first state."""
    random = torch.Generator().manual_seed(3)
    table = torch.randn(3, CHANNELS, generator=random).double() * 0.4
    start = torch.randn(BATCH, structure.dim, generator=random).double()
    return {**make_parameters(structure), "the table": table, "the start": start}


INDEX = torch.tensor([[0, 2, 1, 1], [2, 0, 1, 2]])
Run = Callable[[Parameters, Tensor, Tensor], Tensor]


def answers(run: Run, structure: Structure) -> list[Tensor]:
    """What is computed, and its gradients in everything that it is computed from."""
    leaves = leaves_of(structure)
    trained = {n: x.requires_grad_() for n, x in leaves.items() if x.is_floating_point()}
    theta = {n: x for n, x in leaves.items() if not n.startswith("the ")}
    found = run(theta, leaves["the table"], leaves["the start"])
    weights = torch.linspace(-1, 1, found.numel(), dtype=found.dtype).view_as(found)
    gradients = torch.autograd.grad((found * weights).sum(), [*trained.values()], allow_unused=True)
    zeros = (torch.zeros_like(x) for x in trained.values())
    return [found.detach(), *(z if g is None else g for g, z in zip(gradients, zeros, strict=True))]


def loop(matrices: Callable[[Parameters, Tensor], Tensor]) -> Run:
    """One product of a dense matrix (batch, dim, dim) after the other."""

    def run(theta: Parameters, table: Tensor, h: Tensor) -> Tensor:
        states = []
        for step in matrices(theta, table[INDEX]).unbind(1):
            h = (step @ h.unsqueeze(-1)).squeeze(-1)
            states.append(h)
        return torch.stack(states, 1)

    return run


def by_solve(structure: Structure, flow: Flow | None, scan: Any, kind: str) -> Run:
    def run(theta: Parameters, table: Tensor, h: Tensor) -> Tensor:
        path = sk.Tabulated(table, INDEX) if kind == "tokens" else table[INDEX]
        start: Any = sk.Projective.of(h) if kind == "projective" else h
        states, _ = sk.solve(structure, theta, path, start, flow, scan)
        if isinstance(states, sk.Projective):
            return states.direction * states.log_norm.exp().unsqueeze(-1)
        return states

    return run


def compare(structure: Structure, flow: Flow | None, matrices: Any) -> None:
    """Every way that takes it, against the dense loop."""
    expected = answers(loop(matrices), structure)
    scans = [None, sk.Recurrent(), sk.Associative(), sk.Chunked(3)]
    for scan, kind in product(scans, ["path", "tokens", "projective"]):
        if kind == "projective" and isinstance(scan, sk.Associative):
            continue
        found = answers(by_solve(structure, flow, scan, kind), structure)
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9)


def flows_of(structure: Structure) -> list[Flow | None]:
    """Those that are I + A or exp(A) throughout."""
    if not structure.exponential_only:
        return [None, sk.Euler(), sk.Exponential()]
    alone = isinstance(structure, sk.Orthogonal)
    return [None, sk.Exponential()] if alone else [sk.Exponential()]


@pytest.mark.parametrize("change", CHANGES)
@every_structure
def test_steps_are_those_of_its_own_matrices(name: str, change: str) -> None:
    structure = changed(name, change)
    for flow in flows_of(structure):
        exact = isinstance(flow, sk.Exponential) or structure.exponential_only

        def matrices(theta: Parameters, path: Tensor, exact: bool = exact) -> Tensor:
            dense = structure.combine(theta, path).as_dense()
            unit = torch.eye(structure.dim).double()
            return torch.matrix_exp(dense) if exact else unit + dense

        compare(structure, flow, matrices)


@pytest.mark.parametrize("change", CHANGES)
@every_structure
def test_windows_are_those_of_its_own_brackets_or_refused(name: str, change: str) -> None:
    structure = changed(name, change)

    def single(theta: Parameters, path: Tensor) -> Tensor:
        return torch.matrix_exp(structure.combine(theta, path).as_dense())

    def windows(theta: Parameters, path: Tensor) -> Tensor:
        basis = hall(CHANNELS, 2)
        letters = structure.combine(theta, torch.eye(CHANNELS).double()).as_dense()
        areas = log_signatures(path, basis, WINDOW)
        return torch.matrix_exp(torch.tensordot(areas, brackets(letters, basis), 1))

    def found(flow: Flow) -> list[Tensor]:
        return answers(by_solve(structure, flow, None, "path"), structure)

    for flow, matrices in ((sk.LogODE(1, 1), single), (sk.LogODE(2, WINDOW), windows)):
        if flow.depth > 1 and name in NONLINEAR:
            with pytest.raises(ValueError, match="is not linear in its increments"):
                found(flow)
            continue
        for ours, theirs in zip(found(flow), answers(loop(matrices), structure), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("change", CHANGES)
@every_structure
def test_a_layer_steps_as_it_runs(name: str, change: str) -> None:
    structure = changed(name, change)
    layer = sk.SLiCE(2, structure, generator=torch.Generator().manual_seed(2)).double()
    x = torch.randn(BATCH, LENGTH, 2, generator=torch.Generator().manual_seed(3)).double() * 0.4
    state, steps = None, []
    with torch.no_grad():
        for element in x.unbind(1):
            h, state = layer.step(element, state)
            steps.append(h)
        whole, own = layer(x), torch.stack(steps, 1)
        torch.testing.assert_close(own, whole)
        if structure.exponential_only:
            return
        moved = layer.drive(x)[:, 1:]
        for i, h in enumerate(whole[:, :-1].unbind(1)):
            after = h + structure.combine(layer.A(x.dtype), moved[:, i]).mv(h)
            torch.testing.assert_close(whole[:, i + 1], after)
