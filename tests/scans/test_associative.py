"""The associative scan: any length, and a word about structures that are not closed."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import slicekit.scans.associative
from slicekit import Associative, BlockDiagonal, Recurrent, solve
from tests.market import STRUCTURES, make_parameters


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40))
def test_any_length_agrees_with_the_loop(length: int) -> None:
    structure = BlockDiagonal(blocks=[2, 1])
    call = (structure, make_parameters(structure), torch.randn(2, length, 3).double() * 0.3)
    state, inputs = torch.randn(2, 3).double(), torch.randn(2, length, 3).double()
    looped = solve(*call, state, scan=Recurrent(), inputs=inputs)
    torch.testing.assert_close(solve(*call, state, scan=Associative(), inputs=inputs), looped)


@pytest.mark.parametrize("name", ["dplr", "joint-dplr", "hadamard-8", "open-sum"])
def test_dense_composition_is_announced_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slicekit.scans.associative, "_announced", set())
    structure = STRUCTURES[name]
    call = (structure, make_parameters(structure), torch.randn(1, 4, 3).double())
    state = torch.randn(1, structure.dim).double()
    size = f"{structure.dim} x {structure.dim}"
    with pytest.warns(UserWarning, match=rf"^Associative\(\) composes .* as dense {size} matrices"):
        solve(*call, state, scan=Associative())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve(*call, state, scan=Associative())


@pytest.mark.parametrize("name", ["dense", "diagonal", "ragged", "orthogonal-sum", "circulant"])
def test_closed_structures_are_composed_in_silence(name: str) -> None:
    structure = STRUCTURES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve(
            structure,
            make_parameters(structure),
            torch.randn(1, 4, 3).double(),
            torch.randn(1, structure.dim).double(),
            scan=Associative(),
        )
