"""DirectSum: its parts side by side, each with its own flow."""

import pytest
import torch

from slicekit import DPLR, Dense, Diagonal, DirectSum, Orthogonal, WalshHadamard
from slicekit.structures import SumGenerator, SumTransition


def test_the_matrices_are_the_parts_along_the_diagonal() -> None:
    parts = (Diagonal(2), DPLR(3, 1), Dense(2))
    structure = DirectSum(*parts)
    parameters = structure.init(2)
    increment = torch.randn(2)
    blocks = []
    for i, part in enumerate(parts):
        head = f"part{i}_"
        own = {k.removeprefix(head): x for k, x in parameters.items() if k.startswith(head)}
        blocks.append(part.combine(own, increment).as_dense())
    dense = structure.combine(parameters, increment).as_dense()
    torch.testing.assert_close(dense, torch.block_diag(*blocks))


def test_nested_sums_are_flat_sums() -> None:
    nested = DirectSum(Diagonal(2), DirectSum(Dense(2), Diagonal(1)))
    flat = DirectSum(Diagonal(2), Dense(2), Diagonal(1))
    increments = torch.randn(4, 3)
    parameters = nested.init(3)
    renamed = dict(zip(flat.init(3), parameters.values(), strict=True))
    a, b = nested.combine(parameters, increments), flat.combine(renamed, increments)
    torch.testing.assert_close(a.as_dense(), b.as_dense())


def test_more_than_ten_parts_keep_their_own_parameters() -> None:
    structure = DirectSum(*(Diagonal(1) for _ in range(12)))
    parameters = {f"part{i}_values": torch.full((1, 1), float(i)) for i in range(12)}
    dense = structure.combine(parameters, torch.ones(1)).as_dense()
    assert torch.equal(dense.diagonal(), torch.arange(12.0))


def test_a_sum_of_one_behaves_as_its_part() -> None:
    single = DirectSum(Dense(3))
    assert single.init(2).keys() == Dense(3).init(2).keys()
    assert single.bilinear
    assert single.parameter_count(2) == Dense(3).parameter_count(2)


def test_a_sum_is_closed_if_its_parts_are() -> None:
    increments = torch.randn(2, 3)
    for other, closed in ((Dense(2), True), (WalshHadamard(2), False)):
        structure = DirectSum(Diagonal(2), DirectSum(Diagonal(1), other))
        transition = structure.combine(structure.init(3), increments).euler()
        assert isinstance(transition, SumTransition)
        assert transition.closed is closed


def test_every_part_takes_its_own_flow() -> None:
    structure = DirectSum(Dense(2), Orthogonal(2, 2))
    assert structure.exponential_only
    generator = structure.combine(structure.init(3), torch.randn(4, 3))
    dense, a = generator.natural().as_dense(), generator.as_dense()
    torch.testing.assert_close(dense[..., :2, :2], torch.eye(2) + a[..., :2, :2])
    torch.testing.assert_close(dense[..., 2:, 2:], torch.matrix_exp(a[..., 2:, 2:]))


def test_brackets_stay_inside_the_parts() -> None:
    structure = DirectSum(Diagonal(2), Orthogonal(4, 2))
    parameters = structure.init(3)
    a, b = (structure.combine(parameters, torch.randn(4, 3)) for _ in range(2))
    bracket = a.bracket(b)
    assert isinstance(bracket, SumGenerator)
    assert (bracket.parts[0].as_dense() == 0).all()
    skew = bracket.parts[1].as_dense()
    torch.testing.assert_close(skew, -skew.mT)


def test_costs_add_up() -> None:
    parts = (Diagonal(8), Dense(3), DPLR(4, 2))
    structure = DirectSum(*parts)
    for cost in ("parameter_count", "step_cost"):
        total = sum(getattr(part, cost)(5) for part in parts)
        assert getattr(structure, cost)(5) == total
    assert structure.composition_cost() == sum(part.composition_cost() for part in parts)


def test_what_is_no_structure_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^DirectSum\(\) needs at least one structure$"):
        DirectSum()
    with pytest.raises(TypeError, match=r"^DirectSum takes structures; got 3$"):
        DirectSum(Diagonal(2), 3)  # pyright: ignore[reportArgumentType]
