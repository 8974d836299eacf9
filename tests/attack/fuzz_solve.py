"""`solve` with everything drawn at random, its answers and gradients against a dense loop."""

import random
from dataclasses import replace
from unittest import mock

import torch

from slicekit import Associative, Chunked, Euler, Exponential, Native, Recurrent
from slicekit.scans import Scan
from tests.attack.exponentials import exponential
from tests.attack.runner import Size, Tally
from tests.market import STRUCTURES
from tests.scans.problems import Problem, Setting, assert_near, with_gradients

SCANS: list[Scan | None] = [
    None,
    Native(),
    Chunked(),
    Chunked(1),
    Chunked(5),
    Associative(),
    Associative(3),
]
TOLERANCES = {torch.float64: 1e-8, torch.float32: 2e-3}


def attack(tally: Tally, size: Size) -> None:
    """A thousand problems."""
    for number, source in size.cases(1000):
        tally.attempt(f"case {number}", lambda source=source: once(source))


def once(source: random.Random) -> None:
    """One problem."""
    structure = source.choice(list(STRUCTURES.values()))
    matrix, projective = source.random() < 0.4, source.random() < 0.3
    kinds = ["none"] if projective else ["none", "dense", *(["outer"] if matrix else [])]
    setting = Setting(
        matrix, source.choice(kinds), source.random() < 0.4, source.random() < 0.4, projective
    )
    flow = source.choice([None, Exponential()] + ([] if structure.exponential_only else [Euler()]))
    scan = source.choice([*SCANS, Recurrent()])
    scan = Recurrent() if projective and isinstance(scan, Associative) else scan
    dtype = source.choice(list(TOLERANCES))
    length = source.choice([1, 2, 3, 7, 16, 33, 65])
    problem = Problem.make(structure, setting, length, scale=source.choice([0.05, 0.2]))
    scattered = {name: _scattered(x, source) for name, x in problem.leaves.items()}
    problem = replace(problem, leaves=scattered)
    where = f"{structure!r}, {setting}, {flow}, {scan}, {dtype}, length {length}"
    try:
        found = with_gradients(
            lambda leaves: problem.solve(leaves, flow, scan), problem.to(dtype).leaves
        )
    except ValueError as refusal:
        if isinstance(scan, Native):  # it may have no kernel for that, and says so
            return
        raise AssertionError(f"{where}: {refusal}") from refusal
    with mock.patch.object(torch, "matrix_exp", exponential):
        expected = with_gradients(lambda leaves: problem.reference(leaves, flow), problem.leaves)
    try:
        assert_near(found, expected, TOLERANCES[dtype])
    except AssertionError as difference:
        raise AssertionError(f"{where}: {difference}") from difference


def _scattered(x: torch.Tensor, source: random.Random) -> torch.Tensor:
    """The same numbers, perhaps with other strides."""
    how = source.random()
    if x.ndim < 2 or how < 0.5:
        return x
    if how < 0.75:
        return x.mT.contiguous().mT
    return torch.cat([x, x], -1)[..., : x.shape[-1]]
