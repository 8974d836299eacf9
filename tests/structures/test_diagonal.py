"""Diagonal: A^i = diag(d^i)."""

import pytest
import torch

from slicekit import Diagonal
from slicekit.structures import DiagonalGenerator, DiagonalTransition


def test_the_matrices_are_the_parameters_on_a_diagonal() -> None:
    structure = Diagonal(5)
    values = structure.init(3)["values"]
    increments = torch.randn(2, 4, 3)
    dense = structure.combine({"values": values}, increments).as_dense()
    torch.testing.assert_close(dense, torch.diag_embed(increments @ values))


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_initial_entries_have_the_given_scale(scale: float) -> None:
    values = Diagonal(256, scale=scale).init(64)["values"]
    assert values.std().item() == pytest.approx(scale, rel=0.02)


def test_diagonals_commute() -> None:
    a, b = (DiagonalGenerator(torch.randn(4, 3)) for _ in range(2))
    bracket = a.bracket(b)
    assert isinstance(bracket, DiagonalGenerator)
    assert torch.equal(bracket.values, torch.zeros(4, 3))


def test_an_exponential_never_flips_a_sign_and_an_euler_step_may() -> None:
    generator = DiagonalGenerator(torch.tensor([-3.0, -1.0, 2.0]))
    assert (generator.exponential().values > 0).all()
    torch.testing.assert_close(generator.euler().values, torch.tensor([-2.0, 0.0, 3.0]))


def test_complex_diagonals_have_conjugate_adjoints() -> None:
    values = torch.randn(2, 4, dtype=torch.complex128)
    for matrices in (DiagonalTransition(values), DiagonalGenerator(values)):
        torch.testing.assert_close(matrices.adjoint().as_dense(), matrices.as_dense().mH)
    transition = DiagonalTransition(values)
    before, cotangent = torch.randn(2, 2, 4, 3, dtype=torch.complex128)
    leaf = values.clone().requires_grad_()
    (expected,) = torch.autograd.grad(DiagonalTransition(leaf).act(before), leaf, cotangent)
    torch.testing.assert_close(transition.pullback(before, cotangent), (expected,))


def test_costs_are_those_of_the_comparison_table() -> None:
    assert Diagonal(8).parameter_count(3) == 3 * 8
    assert Diagonal(8).step_cost(3) == (3 + 1) * 8
    assert Diagonal(8).composition_cost() == 8
