"""Every kernel of consecutive steps against the plain loop, forwards and backwards in time."""

import pytest
import torch
from torch import Tensor

from slicekit import Chunked, Recurrent, propagate
from slicekit.scans.chunked.kernels import CHUNK, low_rank_in_chunks, low_rank_loop, run
from slicekit.structures import (
    BlockTransition,
    DiagonalTransition,
    LowRankTransition,
    SumTransition,
    Transition,
)
from tests.market import CHANNELS, STRUCTURES, every_structure, make_parameters

both_ways = pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
driven_or_not = pytest.mark.parametrize("driven", [False, True], ids=["linear", "affine"])


def plain_loop(
    transition: Transition, state: Tensor, inputs: Tensor | None, reverse: bool
) -> Tensor:
    """x_{t+1} = M_t x_t + u_t with dense matrices."""
    matrices = transition.as_dense()
    out = torch.empty(len(matrices), *state.shape, dtype=state.dtype)
    order = range(len(matrices))
    for t in reversed(order) if reverse else order:
        state = matrices[t] @ state
        if inputs is not None:
            state = state + inputs[t]
        out[t] = state
    return out


def check(transition: Transition, columns: int, driven: bool, reverse: bool) -> None:
    count, batch = transition.tensors()[0].shape[:2]
    dtype = transition.tensors()[0].dtype
    state = torch.randn(batch, transition.dim, columns, dtype=dtype)
    inputs = torch.randn(count, batch, transition.dim, columns, dtype=dtype) if driven else None
    out = torch.full((count, *state.shape), torch.nan, dtype=dtype)
    run(transition, state, inputs, out, reverse=reverse)
    expected = plain_loop(transition, state, inputs, reverse)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9 * float(expected.abs().max()))


@both_ways
@driven_or_not
@pytest.mark.parametrize("columns", [1, 3])
@every_structure
def test_a_run_is_the_plain_loop(name: str, columns: int, driven: bool, reverse: bool) -> None:
    structure = STRUCTURES[name]
    increments = torch.randn(37, 2, CHANNELS).double() * 0.1
    transition = structure.combine(make_parameters(structure), increments).natural()
    check(transition, columns, driven, reverse)
    star = transition.adjoint()
    assert isinstance(star, Transition)
    check(star, columns, driven, reverse)


@both_ways
@driven_or_not
@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 100])
def test_long_runs_of_diagonals_are_the_plain_loop(count: int, driven: bool, reverse: bool) -> None:
    values = torch.randn(count, 2, 3, dtype=torch.complex128) * 0.7
    values[::7, 0] = 0
    values[::5, 1, 2] = 1
    check(DiagonalTransition(values), 2, driven, reverse)
    check(DiagonalTransition(values.real.contiguous()), 1, driven, reverse)


@both_ways
@driven_or_not
def test_wide_diagonals_are_the_plain_loop(driven: bool, reverse: bool) -> None:
    check(DiagonalTransition(torch.rand(40, 2, 300).double()), 8, driven, reverse)


@both_ways
@driven_or_not
def test_runs_of_sums_are_the_plain_loop(driven: bool, reverse: bool) -> None:
    diagonal = DiagonalTransition(torch.randn(40, 2, 3).double())
    blocks = BlockTransition(torch.randn(40, 2, 2, 2, 2).double() * 0.5)
    thin = torch.randn(2, 40, 2, 3, 1).double() * 0.5
    low_rank = LowRankTransition(torch.rand(40, 2, 3).double(), *thin)
    inner = SumTransition((blocks, low_rank))
    check(SumTransition((diagonal, inner)), 2, driven, reverse)


@both_ways
@driven_or_not
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("count", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 5])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["real", "complex"])
def test_low_rank_chunks_are_the_loop(
    count: int, rank: int, driven: bool, reverse: bool, dtype: torch.dtype
) -> None:
    """Diagonals that are exactly 0, 1 and negative among them: nothing is ever divided by them."""
    dim, batch, columns = 5, 2, 16
    diagonal = torch.randn(count, batch, dim, dtype=dtype) * 0.8
    diagonal[..., 0], diagonal[..., 1], diagonal[::3, :, 2] = 0, 1, 0
    diagonal[..., 3] = -0.9
    left, right = torch.randn(2, count, batch, dim, rank, dtype=dtype) * 0.3
    transition = LowRankTransition(diagonal, left, right)
    state = torch.randn(batch, dim, columns, dtype=dtype)
    inputs = torch.randn(count, batch, dim, columns, dtype=dtype) if driven else None
    expected = plain_loop(transition, state, inputs, reverse)
    for kernel in (low_rank_loop, low_rank_in_chunks):
        out = torch.full_like(expected, torch.nan)
        kernel(transition, state, inputs, out, reverse)
        torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_low_rank_chunks_of_any_size_agree(size: int) -> None:
    transition = LowRankTransition(
        torch.randn(23, 2, 4).double() * 0.8, *torch.randn(2, 23, 2, 4, 2).double() * 0.4
    )
    state = torch.randn(2, 4, 3).double()
    expected = plain_loop(transition, state, None, False)
    out = torch.full_like(expected, torch.nan)
    low_rank_in_chunks(transition, state, None, out, False, size)
    torch.testing.assert_close(out, expected)


def test_a_product_that_overflows_leaves_states_that_do_not_alone() -> None:
    growing = DiagonalTransition(torch.full((1, 200, 2), 3.0))
    start = torch.tensor([[0.0, 1e-30]])
    states, _ = propagate(growing, start, scan=Chunked())
    obvious, _ = propagate(growing, start, scan=Recurrent())
    assert not states[..., 0].any()
    torch.testing.assert_close(states, obvious)
