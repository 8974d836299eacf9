"""JointDPLR: diag(D(Δω)) + U(Δω) V(Δω)^T, quadratic in the increments."""

import pytest
import torch

from slicekit import JointDPLR
from slicekit.structures import LowRankGenerator, LowRankTransition


def test_the_matrices_are_made_jointly() -> None:
    structure = JointDPLR(5, 2)
    parameters = structure.init(3)
    increments = torch.randn(2, 4, 3)
    d, u, v = (torch.tensordot(increments, parameters[k], 1) for k in ("diagonal", "left", "right"))
    dense = structure.combine(parameters, increments).as_dense()
    torch.testing.assert_close(dense, torch.diag_embed(d) + u @ v.mT)


def test_the_rank_stays_however_many_channels() -> None:
    structure = JointDPLR(12, 2)
    parameters = structure.init(5)
    parameters["diagonal"].zero_()
    assert torch.linalg.matrix_rank(structure.combine(parameters, torch.randn(5)).as_dense()) == 2


def test_an_euler_step_keeps_the_rank() -> None:
    structure = JointDPLR(6, 2)
    transition = structure.combine(structure.init(3), torch.randn(3)).euler()
    assert isinstance(transition, LowRankTransition)
    assert transition.left.shape == (6, 2)


def test_one_channel_is_that_of_dplr_scaled_quadratically() -> None:
    structure = JointDPLR(4, 1)
    parameters = structure.init(1)
    parameters["diagonal"].zero_()
    one, two = (structure.combine(parameters, torch.tensor([x])).as_dense() for x in (1.0, 2.0))
    torch.testing.assert_close(two, 4 * one)


def test_complex_factors_have_conjugate_adjoints() -> None:
    d = torch.randn(3, 4, dtype=torch.complex128)
    u, v = torch.randn(2, 3, 4, 2, dtype=torch.complex128)
    expected = torch.diag_embed(d) + u @ v.mH
    before, cotangent = torch.randn(2, 3, 4, 2, dtype=torch.complex128)
    for kind in (LowRankTransition, LowRankGenerator):
        matrices = kind(d, u, v)
        torch.testing.assert_close(matrices.as_dense(), expected)
        torch.testing.assert_close(matrices.adjoint().as_dense(), expected.mH)
        leaves = tuple(x.clone().requires_grad_() for x in (d, u, v))
        gradients = torch.autograd.grad(kind(*leaves).act(before), leaves, cotangent)
        torch.testing.assert_close(matrices.pullback(before, cotangent), gradients)


def test_initial_low_rank_parts_have_entries_of_variance_one_over_dim() -> None:
    made = JointDPLR(64, 4).init(64)
    entries = made["left"] @ made["right"].mT
    assert entries.std().item() == pytest.approx(64**-0.5, rel=0.05)


@pytest.mark.parametrize("rank", [0, 9])
def test_ranks_out_of_range_are_refused(rank: int) -> None:
    with pytest.raises(ValueError, match=rf"^rank={rank}; expected 1 to dim=4$"):
        JointDPLR(4, rank)
