"""BlockDiagonal: equal and ragged blocks along the diagonal, nothing elsewhere."""

import pytest
import torch

from slicekit import BlockDiagonal
from slicekit.structures import BlockGenerator, BlockTransition, SumGenerator


def test_the_matrices_are_the_parameters_along_the_diagonal() -> None:
    structure = BlockDiagonal(6, 2)
    blocks = structure.init(3)["blocks"]
    assert blocks.shape == (3, 3, 2, 2)
    increments = torch.randn(4, 3)
    dense = structure.combine({"blocks": blocks}, increments).as_dense()
    for step, increment in enumerate(increments):
        expected = torch.block_diag(*torch.tensordot(increment, blocks, 1))
        torch.testing.assert_close(dense[step], expected)


def test_ragged_blocks_stand_in_the_order_they_were_given() -> None:
    structure = BlockDiagonal(blocks=[2, 3, 3, 1])
    assert structure.dim == 9
    parameters = structure.init(2)
    increment = torch.randn(2)
    dense = structure.combine(parameters, increment).as_dense()
    blocks = [b for x in parameters.values() for b in torch.tensordot(increment, x, 1)]
    assert [len(b) for b in blocks] == [2, 3, 3, 1]
    torch.testing.assert_close(dense, torch.block_diag(*blocks))


@pytest.mark.parametrize("block", [1, 4, 16])
def test_initial_entries_have_variance_one_over_block(block: int) -> None:
    blocks = BlockDiagonal(256, block).init(32)["blocks"]
    assert blocks.std().item() == pytest.approx(block**-0.5, rel=0.02)
    halved = BlockDiagonal(256, block, scale=0.5).init(32)["blocks"]
    assert halved.std().item() == pytest.approx(0.5 * block**-0.5, rel=0.02)


def test_ragged_blocks_start_each_with_their_own_variance() -> None:
    for blocks in BlockDiagonal(blocks=[16, 4, 1]).init(4000).values():
        assert blocks.std().item() == pytest.approx(blocks.shape[-1] ** -0.5, rel=0.03)


def test_one_block_is_dense_and_blocks_of_one_are_diagonal() -> None:
    increments = torch.randn(3, 2)
    whole = BlockDiagonal(4, 4).combine({"blocks": torch.ones(2, 1, 4, 4)}, increments).as_dense()
    torch.testing.assert_close(whole, increments.sum(-1)[:, None, None].expand(3, 4, 4))
    ones = BlockDiagonal(4, 1).combine({"blocks": torch.ones(2, 4, 1, 1)}, increments).as_dense()
    torch.testing.assert_close(
        ones, torch.diag_embed(increments.sum(-1, keepdim=True).expand(3, 4))
    )


def test_brackets_stay_inside_the_blocks() -> None:
    a, b = (BlockGenerator(torch.randn(5, 2, 3, 3)) for _ in range(2))
    bracket = a.bracket(b)
    assert isinstance(bracket, BlockGenerator)
    torch.testing.assert_close(bracket.blocks, b.blocks @ a.blocks - a.blocks @ b.blocks)


def test_brackets_of_ragged_blocks_stay_inside_them() -> None:
    structure = BlockDiagonal(blocks=[2, 1, 1])
    parameters = structure.init(2)
    a, b = (structure.combine(parameters, torch.randn(4, 2)) for _ in range(2))
    bracket = a.bracket(b)
    assert isinstance(bracket, SumGenerator)
    assert [part.dim for part in bracket.parts] == [2, 2]


def test_exponentials_and_products_stay_inside_the_blocks() -> None:
    exponential = BlockGenerator(torch.randn(5, 2, 3, 3)).exponential()
    assert isinstance(exponential, BlockTransition)
    assert exponential.blocks.shape == (5, 2, 3, 3)
    assert exponential.compose(exponential).blocks.shape == (5, 2, 3, 3)


def test_costs_are_those_of_the_comparison_table() -> None:
    ragged = BlockDiagonal(blocks=[4, 2, 2, 1])
    squares = 16 + 4 + 4 + 1
    assert ragged.parameter_count(3) == 3 * squares
    assert ragged.step_cost(3) == (3 + 1) * squares
    assert ragged.composition_cost() == 64 + 8 + 8 + 1


def test_blocks_that_do_not_fit_are_refused() -> None:
    message = r"^block=3 does not divide dim=8; choose one of 1, 2, 4, 8$"
    with pytest.raises(ValueError, match=message):
        BlockDiagonal(8, 3)
    with pytest.raises(ValueError, match=r"^block=-2 does not divide dim=8"):
        BlockDiagonal(8, -2)
    with pytest.raises(ValueError, match=r"^block=7 does not divide dim=360; .* 8, 9, \.\.\.$"):
        BlockDiagonal(360, 7)


def test_ragged_blocks_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^blocks=\[\]; expected a list of positive sizes$"):
        BlockDiagonal(blocks=[])
    with pytest.raises(ValueError, match=r"^blocks=\[2, 0\]; expected a list of positive sizes$"):
        BlockDiagonal(blocks=[2, 0])
    with pytest.raises(ValueError, match=r"takes either dim and block, or blocks, not both$"):
        BlockDiagonal(8, 2, blocks=[4, 4])
