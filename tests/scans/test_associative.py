"""The associative scan: any length, and a word about structures that are not closed."""

import warnings
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import slicekit.scans.associative
from slicekit import Associative, BlockDiagonal, Euler, Recurrent, solve
from tests.market import STRUCTURES, make_parameters
from tests.scans.problems import SETTINGS, Problem, assert_near, with_gradients


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.none() | st.integers(1, 41))
def test_any_length_and_chunk_agree_with_the_loop(length: int, chunk: int | None) -> None:
    structure = BlockDiagonal(blocks=[2, 1])
    call = (structure, make_parameters(structure), torch.randn(2, length, 3).double() * 0.3)
    state, inputs = torch.randn(2, 3).double(), torch.randn(2, length, 3).double()
    looped = solve(*call, state, scan=Recurrent(), inputs=inputs)
    scanned = solve(*call, state, scan=Associative(chunk), inputs=inputs)
    torch.testing.assert_close(scanned, looped)


@pytest.mark.filterwarnings("ignore:Associative.. composes")
@pytest.mark.parametrize("setting", ["affine-padded", "tokens-outer-padded"])
@pytest.mark.parametrize("name", ["diagonal", "ragged", "dplr"])
def test_chunks_have_the_values_and_gradients_of_the_dense_loop(name: str, setting: str) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting])
    looped = with_gradients(lambda x: problem.reference(x, Euler()), problem.leaves)
    for chunk in (1, 4):  # of nine steps: every step alone, and one that is left over
        scan = Associative(chunk)
        scanned = with_gradients(lambda x, s=scan: problem.solve(x, Euler(), s), problem.leaves)
        assert_near(scanned, looped, 1e-9)


@pytest.mark.parametrize(
    ("chunk", "error", "told"),
    [
        (0, ValueError, "^chunk=0; expected at least 1, or None$"),
        (2.0, TypeError, r"^chunk=2\.0 is a float; expected a whole number, or None$"),
    ],
)
def test_a_chunk_that_is_none_is_refused(chunk: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        Associative(chunk)


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
