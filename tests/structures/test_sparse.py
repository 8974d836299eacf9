"""Sparse: a pattern drawn once, and values at its places."""

import pytest
import torch

from slicekit import SLiCE, Sparse


def test_the_matrices_hold_the_values_at_their_places() -> None:
    structure = Sparse(5, density=0.4)
    parameters = structure.init(3)
    values, places = parameters["values"], parameters["places"]
    assert places.dtype == torch.int64
    full = torch.zeros(3, 5, 5)
    for value, place in zip(values.tolist(), places.tolist(), strict=True):
        full[place // 25, place % 25 // 5, place % 5] = value
    increments = torch.randn(2, 4, 3)
    dense = structure.combine(parameters, increments).as_dense()
    torch.testing.assert_close(dense, torch.tensordot(increments, full, 1))


def test_epsilon_is_that_of_the_paper() -> None:
    structure = Sparse(256, epsilon=0.5)
    assert structure.probability == pytest.approx(1 / 16)
    assert structure.parameter_count(2) == 2 * 256**1.5
    kept = structure.init(2)["values"].numel()
    assert kept == pytest.approx(2 * 256**1.5, rel=0.05)


@pytest.mark.parametrize("density", [0.05, 0.5, 1.0])
def test_kept_entries_start_with_variance_one_over_dim_times_density(density: float) -> None:
    values = Sparse(128, density=density).init(8)["values"]
    assert values.std().item() == pytest.approx((128 * density) ** -0.5, rel=0.03)
    halved = Sparse(128, density=density, scale=0.5).init(8)["values"]
    assert halved.std().item() == pytest.approx(0.5 * (128 * density) ** -0.5, rel=0.03)


def test_full_density_keeps_everything() -> None:
    parameters = Sparse(6, density=1).init(2)
    assert torch.equal(parameters["places"], torch.arange(72))


def test_a_pattern_without_any_entry_is_no_movement() -> None:
    structure = Sparse(4, density=0.5)
    nothing = {"values": torch.zeros(0), "places": torch.zeros(0, dtype=torch.int64)}
    assert (structure.combine(nothing, torch.randn(3, 2)).as_dense() == 0).all()


def test_without_a_choice_it_is_as_sparse_as_in_the_paper() -> None:
    assert Sparse(64) == Sparse(64, epsilon=3 / 7)
    assert Sparse(128).parameter_count(1) == 1024
    torch.manual_seed(0)
    h = SLiCE(3, Sparse(8))(torch.randn(2, 5, 3))
    assert h.shape == (2, 5, 8) and h.isfinite().all()


def test_density_and_epsilon_are_not_both_given() -> None:
    with pytest.raises(ValueError, match=r"^density=0.5, epsilon=0.5; expected at most one"):
        Sparse(4, density=0.5, epsilon=0.5)


@pytest.mark.parametrize("density", [0.0, -0.1, 1.5])
def test_densities_out_of_range_are_refused(density: float) -> None:
    with pytest.raises(
        ValueError, match=rf"^density={density}; expected a probability in \(0, 1\]"
    ):
        Sparse(4, density=density)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, -1.0])
def test_epsilons_out_of_range_are_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match=rf"^epsilon={epsilon}; expected a number in \(0, 1\)$"):
        Sparse(4, epsilon=epsilon)


def test_values_that_do_not_fit_their_places_are_refused() -> None:
    structure = Sparse(6, density=0.4)
    parameters = structure.init(2) | {"values": torch.ones(1)}
    with pytest.raises(ValueError, match="expected one place for each value"):
        structure.combine(parameters, torch.ones(3, 2))
