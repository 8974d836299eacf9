"""The two operators behind Chunked() and Native(): torch's own checks of them."""

import pytest
import torch

from slicekit import Chunked, Outer, propagate
from slicekit.scans import Scan
from slicekit.structures import (
    BlockTransition,
    DiagonalTransition,
    LowRankTransition,
    SumTransition,
)
from tests.market import STRUCTURES
from tests.operator_checks import check_operators
from tests.scans.problems import SETTINGS, NativeOrSkip, Problem, with_gradients

SCANS: dict[str, Scan] = {"chunked": Chunked(2), "native": NativeOrSkip()}


@pytest.mark.parametrize(
    ("name", "setting", "by"),
    [
        ("ragged", "affine", "native"),
        ("diagonal", "tokens-outer-padded", "chunked"),
        ("diagonal", "tokens-outer-padded", "native"),
        ("joint-dplr", "projective", "native"),
        ("open-sum", "affine", "chunked"),
        ("open-sum", "affine", "native"),
        ("sparse-by-density", "projective", "chunked"),
        ("sparse-by-density", "projective", "native"),
    ],
)
def test_the_operators_of_solve_are_well_formed(name: str, setting: str, by: str) -> None:
    """Every setting by chunks, and by every way that kernels are called."""
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting], length=5)

    def work() -> None:
        with_gradients(lambda x: problem.solve(x, None, SCANS[by]), problem.leaves)

    check_operators(work)


@pytest.mark.parametrize("by", SCANS)
@pytest.mark.parametrize("kind", ["complex diagonal", "low rank", "sum"])
def test_the_operators_of_propagate_are_well_formed(kind: str, by: str) -> None:
    complex_diagonal = DiagonalTransition(torch.randn(2, 5, 4, dtype=torch.complex128))
    blocks = BlockTransition(torch.randn(2, 5, 2, 2, 2).double())
    thin = torch.randn(2, 2, 5, 4, 2).double()
    low_rank = LowRankTransition(torch.rand(2, 5, 4).double(), *thin)
    transition = {
        "complex diagonal": complex_diagonal,
        "low rank": low_rank,
        "sum": SumTransition((blocks, low_rank)),
    }[kind]
    dim = transition.dim
    inputs = Outer(torch.randn(2, 5, dim).double(), torch.randn(2, 5, 3).double())
    state = torch.randn(2, dim, 3).double().requires_grad_()
    readout = torch.randn(2, 5, dim).double()

    def work() -> None:
        outputs, _ = propagate(transition, state, inputs, readout, SCANS[by])
        outputs.abs().sum().backward()

    check_operators(work)
