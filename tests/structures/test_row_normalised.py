"""RowNormalised: blocks whose rows have an absolute sum of at most one."""

import pytest
import torch

from slicekit import Exponential, Learned, RowNormalised, SLiCE


def _steps(structure: RowNormalised, *sizes: float) -> torch.Tensor:
    steps = torch.randn(len(sizes), 3) * torch.tensor(sizes).unsqueeze(-1)
    return structure.combine(structure.init(3), steps).euler().as_dense()


def test_rows_sum_to_at_most_one_and_are_the_identity_where_nothing_moves() -> None:
    matrices = _steps(RowNormalised(8, 4), 0.0, 0.1, 1.0, 1e3)
    assert torch.equal(matrices[0], torch.eye(8))
    assert (matrices.abs().sum(-1) <= 1 + 1e-6).all()


def test_products_and_exponentials_stay_inside() -> None:
    structure = RowNormalised(8, 4)
    steps = structure.combine(structure.init(3), torch.randn(2, 3)).euler()
    later, earlier = (steps.map(lambda x, i=i: x[i]) for i in range(2))
    assert (later.compose(earlier).as_dense().abs().sum(-1) <= 1 + 1e-6).all()
    flow = Exponential().transition(structure, structure.init(3), torch.randn(9, 3))
    assert (flow.as_dense().abs().sum(-1) <= 1 + 1e-5).all()


def test_states_stay_bounded_over_long_sequences() -> None:
    layer = SLiCE(3, RowNormalised(8, 2), initial=Learned())
    h = layer(10 * torch.randn(2, 3000, 3))
    assert h.abs().max() <= layer.start(torch.float32)["state"].abs().max() + 1e-4


def test_what_it_cannot_be_is_said() -> None:
    with pytest.raises(ValueError, match=r"^block=3 does not divide dim=8; choose one of 1, 2, 4"):
        RowNormalised(8, 3)
    with pytest.raises(ValueError, match="is not linear in its increments, so it has no brackets"):
        RowNormalised(8, 4).lift(2)
