"""DiagonalDense: the direct sum of a diagonal and one dense block."""

import pytest
import torch

from slicekit import Dense, Diagonal, DiagonalDense, DirectSum


def test_it_is_the_direct_sum() -> None:
    structure, same = DiagonalDense(7, 3), DirectSum(Diagonal(4), Dense(3))
    parameters = structure.init(2)
    assert {k: x.shape for k, x in parameters.items()} == {
        k: x.shape for k, x in same.init(2).items()
    }
    increments = torch.randn(5, 2)
    dense = structure.combine(parameters, increments).as_dense()
    torch.testing.assert_close(dense, same.combine(parameters, increments).as_dense())
    assert (dense[:, :4, 4:] == 0).all()
    assert (dense[:, 4:, :4] == 0).all()


def test_a_block_of_full_size_leaves_no_diagonal() -> None:
    assert DiagonalDense(3, 3).parameter_count(2) == Dense(3).parameter_count(2)


def test_the_scale_reaches_both_parts() -> None:
    diagonal, block = DiagonalDense(128, 64, scale=0.5).init(50).values()
    assert diagonal.std().item() == pytest.approx(0.5, rel=0.03)
    assert block.std().item() == pytest.approx(0.5 / 8, rel=0.03)


@pytest.mark.parametrize("block", [0, 5])
def test_blocks_that_do_not_fit_are_refused(block: int) -> None:
    with pytest.raises(ValueError, match=rf"^block={block}; expected 1 to dim=4$"):
        DiagonalDense(4, block)
