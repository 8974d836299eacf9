"""WalshHadamard: H diag(d^i), H the orthonormal Sylvester matrix."""

import pytest
import torch
from scipy.linalg import hadamard

from slicekit import WalshHadamard
from slicekit.structures.walsh_hadamard import walsh_hadamard_transform


def orthonormal(dim: int) -> torch.Tensor:
    return torch.from_numpy(hadamard(dim)).double() / dim**0.5


@pytest.mark.parametrize("dim", [1, 2, 4, 8, 16, 32, 256, 512])
def test_the_fast_transform_is_that_of_the_sylvester_matrix(dim: int) -> None:
    state = torch.randn(2, dim, 3).double()
    transformed = walsh_hadamard_transform(state)
    torch.testing.assert_close(transformed, orthonormal(dim) @ state)
    torch.testing.assert_close(walsh_hadamard_transform(transformed), state)


@pytest.mark.parametrize("dim", [2, 8, 32])
@pytest.mark.parametrize("bounded", [True, False])
def test_the_matrices_are_those_of_the_paper(dim: int, bounded: bool) -> None:
    structure = WalshHadamard(dim, bounded=bounded)
    values = structure.init(3)["values"].double()
    diagonals = values.tanh() if bounded else values
    increments = torch.randn(4, 3).double()
    dense = structure.combine({"values": values}, increments).as_dense()
    expected = orthonormal(dim) @ torch.diag_embed(increments @ diagonals)
    torch.testing.assert_close(dense, expected)


def test_bounded_diagonals_stay_inside_the_unit_interval() -> None:
    structure = WalshHadamard(8)
    huge = {"values": 5 * torch.randn(1, 8).double()}
    generator = structure.combine(huge, torch.ones(1).double())
    assert generator.values.abs().max() < 1
    assert torch.linalg.matrix_norm(generator.as_dense(), 2) < 1


def test_initial_parameters_have_variance_one() -> None:
    assert WalshHadamard(256).init(64)["values"].std().item() == pytest.approx(1, rel=0.02)
    halved = WalshHadamard(256, scale=0.5).init(64)["values"]
    assert halved.std().item() == pytest.approx(0.5, rel=0.02)


def test_sizes_that_are_no_power_of_two_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^dim=12 is no power of two; choose 8 or 16$"):
        WalshHadamard(12)
    with pytest.raises(ValueError, match=r"^WalshHadamard has dim=0; expected at least 1$"):
        WalshHadamard(0)
