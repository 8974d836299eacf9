"""DPLR: diag(d^i) + Σ_j u^{i,j} (v^{i,j})^T, linear in the increments."""

import pytest
import torch

from slicekit import DPLR


def test_the_matrices_are_those_of_the_paper() -> None:
    structure = DPLR(5, 2)
    parameters = structure.init(3)
    d, u, v = (parameters[k] for k in ("diagonal", "left", "right"))
    each = torch.diag_embed(d) + torch.einsum("cir,cjr->cij", u, v)
    increments = torch.randn(2, 4, 3)
    dense = structure.combine(parameters, increments).as_dense()
    torch.testing.assert_close(dense, torch.tensordot(increments, each, 1))


def test_the_rank_of_a_sum_is_channels_times_rank() -> None:
    structure = DPLR(12, 2)
    parameters = structure.init(3)
    parameters["diagonal"].zero_()
    dense = structure.combine(parameters, torch.randn(3)).as_dense()
    assert torch.linalg.matrix_rank(dense) == 6


def test_initial_low_rank_parts_have_entries_of_variance_one_over_dim() -> None:
    dim, scale = 64, 0.8
    for rank in (1, 4):
        made = DPLR(dim, rank, scale=scale).init(64)
        assert made["diagonal"].std().item() == pytest.approx(scale, rel=0.03)
        entries = made["left"] @ made["right"].mT
        assert entries.std().item() == pytest.approx(scale**2 / dim**0.5, rel=0.05)


@pytest.mark.parametrize("rank", [0, 5])
def test_ranks_out_of_range_are_refused(rank: int) -> None:
    with pytest.raises(ValueError, match=rf"^rank={rank}; expected 1 to dim=4$"):
        DPLR(4, rank)
