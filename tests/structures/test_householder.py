"""Householder: products of generalised reflections, M(Δω) = H_k ... H_1."""

import pytest
import torch

from slicekit import Householder


@pytest.mark.parametrize("count", [1, 2, 5])
def test_steps_are_products_of_reflections_the_first_acting_first(count: int) -> None:
    structure = Householder(4, count)
    parameters = {k: 20 * x.double() for k, x in structure.init(2).items()}
    increment = torch.randn(2).double()
    expected = torch.eye(4).double()
    for v in torch.tensordot(increment, parameters["vectors"], 1):
        expected = (torch.eye(4) - 2 * torch.outer(v, v) / (1 + v @ v)) @ expected
    found = structure.combine(parameters, increment).euler().as_dense()
    torch.testing.assert_close(found, expected)


def test_no_state_grows_and_where_nothing_moves_none_changes() -> None:
    structure = Householder(6, 3)
    parameters = structure.init(4)
    steps = torch.cat([torch.zeros(1, 4), torch.randn(50, 4) * torch.logspace(-2, 3, 50)[:, None]])
    matrices = structure.combine(parameters, steps).euler().as_dense()
    assert torch.equal(matrices[0], torch.eye(6))
    assert (torch.linalg.matrix_norm(matrices, 2) <= 1 + 1e-5).all()


def test_the_length_of_a_vector_says_whether_its_direction_is_kept_forgotten_or_reflected() -> None:
    structure, v = Householder(3, 1), torch.tensor([0.0, 0.6, 0.8])
    for length, scale in ((0.0, 1.0), (1.0, 0.0), (1e4, -1.0)):
        step = structure.combine({"vectors": (length * v).view(1, 1, 3)}, torch.ones(1)).euler()
        torch.testing.assert_close(step.mv(v), scale * v)
        torch.testing.assert_close(step.mv(torch.tensor([1.0, 0, 0])), torch.tensor([1.0, 0, 0]))


def test_a_step_starts_half_way_whatever_the_size_of_the_increments() -> None:
    for increment in (1.0, 0.02):
        made = Householder(64, 2).init(200, increment=increment)["vectors"]
        lengths = torch.tensordot(torch.randn(100, 200) * increment, made, 1).norm(dim=-1)
        assert lengths.mean() == pytest.approx(1, rel=0.1)


def test_what_it_cannot_be_is_said() -> None:
    with pytest.raises(ValueError, match=r"^count=0; expected at least 1$"):
        Householder(4, 0)
    with pytest.raises(ValueError, match="is not linear in its increments, so it has no brackets"):
        Householder(4, 1).lift(2)
