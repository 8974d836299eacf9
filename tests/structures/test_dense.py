"""Dense: A^i is what the parameters say, entry by entry."""

import pytest
import torch

from slicekit import Dense


def test_the_matrices_are_the_parameters() -> None:
    structure = Dense(6)
    blocks = structure.init(3)["blocks"]
    assert blocks.shape == (3, 1, 6, 6)
    increments = torch.randn(2, 4, 3)
    expected = torch.einsum("blc,cij->blij", increments, blocks.squeeze(1))
    dense = structure.combine({"blocks": blocks}, increments).as_dense()
    torch.testing.assert_close(dense, expected)


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_initial_entries_have_variance_one_over_dim(scale: float) -> None:
    blocks = Dense(64, scale=scale).init(16)["blocks"]
    assert blocks.std().item() == pytest.approx(scale / 64**0.5, rel=0.02)
    assert blocks.mean().abs() < 0.01 * scale


def test_costs_are_those_of_the_comparison_table() -> None:
    assert Dense(8).parameter_count(3) == 3 * 8**2
    assert Dense(8).step_cost(3) == (3 + 1) * 8**2
    assert Dense(8).composition_cost() == 8**3


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match=r"dim=0; expected at least 1"):
        Dense(0)
