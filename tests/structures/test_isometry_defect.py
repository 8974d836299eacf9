"""How far transitions are from isometries, against the dense matrix."""

import pytest
import torch
from torch import Tensor

from slicekit import Diagonal, DirectSum, JointDPLR, Sparse, WalshHadamard
from slicekit.flows import resolve
from slicekit.structures import DiagonalTransition, Structure, SumTransition, Transition
from tests.market import CHANNELS, STRUCTURES


def dense_defect(transition: Transition) -> Tensor:
    """|M^T M - I|² / dim, added up over the parts of a sum."""
    if isinstance(transition, SumTransition):
        return torch.stack([dense_defect(part) for part in transition.parts]).sum(0)
    dense = transition.as_dense()
    gram = dense.mH @ dense - torch.eye(transition.dim, dtype=dense.dtype)
    return gram.abs().square().sum((-1, -2)) / transition.dim


def made(structure, rows: int = 4) -> Transition:
    generator = torch.Generator().manual_seed(0)
    parameters = {
        name: x.double() if x.is_floating_point() else x
        for name, x in structure.init(CHANNELS, generator).items()
    }
    increments = torch.randn(rows, CHANNELS, generator=generator).double()
    return resolve(structure, None).transition(structure, parameters, increments)


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_defect_is_that_of_the_dense_matrix(name: str) -> None:
    transition = made(STRUCTURES[name])
    torch.testing.assert_close(transition.isometry_defect(), dense_defect(transition))


def test_complex_transitions_have_one_too() -> None:
    values = torch.randn(3, 5, dtype=torch.complex128)
    transition = DiagonalTransition(values)
    torch.testing.assert_close(transition.isometry_defect(), dense_defect(transition))
    turned = DiagonalTransition(values / values.abs())
    torch.testing.assert_close(turned.isometry_defect(), torch.zeros(3, dtype=torch.float64))


def test_large_matrices_are_probed_without_bias() -> None:
    transition = made(JointDPLR(48, 2), rows=2)
    torch.manual_seed(0)
    found = torch.stack([transition.isometry_defect() for _ in range(400)])
    mean, error = found.mean(0), found.std(0) / 400**0.5
    assert ((mean - dense_defect(transition)).abs() < 4 * error).all()


@pytest.mark.parametrize(
    ("structure", "expected"),
    [
        (Diagonal(4), True),
        (Sparse(4, density=0.5), False),
        (WalshHadamard(4), False),
        (DirectSum(Diagonal(2), Sparse(4, density=0.5)), True),
        (DirectSum(WalshHadamard(4), Sparse(4, density=0.5)), False),
    ],
    ids=repr,
)
def test_a_structure_says_whether_it_has_isometries(structure: Structure, expected: bool) -> None:
    assert structure.has_isometries is expected
