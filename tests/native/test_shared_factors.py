"""The native scan with shared factors against a plain loop, in values and gradients."""

import pytest
import torch

import slicekit as sk
from slicekit.native import available, reason
from slicekit.native.kernel import fill
from slicekit.native.recurrences import SHARED_FACTORS
from tests.native.increment_scans import (
    BAD_OPTION,
    BAD_POINTER,
    BAD_SIZE,
    BAD_WORKSPACE,
    CHANNELS,
    DIMS,
    OK,
    SHAPES,
    assert_equal,
    assert_near,
    native,
    plain,
    plan,
    poisoned_memory,
    problem,
    status,
    threads,
)

pytestmark = pytest.mark.skipif(not available(), reason=f"no native library: {reason()}")

SEVERAL_TEAMS, ONE_SEQUENCE = (60, 9), (1, 200)


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("dim", DIMS)
def test_values_and_gradients_equal_those_of_the_loop(dim: int, channels: int) -> None:
    for batch, length, columns, inputs in SHAPES:
        structure = sk.DPLR(dim, min(dim, 3))
        given = problem(structure, channels, batch, length, columns, inputs=inputs)
        assert_near(native(SHARED_FACTORS, given), plain(given), 1e-11)


@pytest.mark.parametrize("rank", [1, 4, 7])
@pytest.mark.parametrize("batch, length", [SEVERAL_TEAMS, ONE_SEQUENCE])
def test_ranks_and_chunks_make_no_difference(batch: int, length: int, rank: int) -> None:
    given = problem(sk.DPLR(19, rank), 5, batch, length, inputs=True)
    assert_near(native(SHARED_FACTORS, given), plain(given), 1e-11)


def test_more_columns_than_a_team_has_rows() -> None:
    given = problem(sk.DPLR(7, 2), 3, 3, 5, 70, inputs=True)
    assert_near(native(SHARED_FACTORS, given), plain(given), 1e-11)


@pytest.mark.parametrize("rescale", [1, 8])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("batch, length", [(37, 20), (1, 70)])
def test_rescaled_states_keep_their_factors(
    batch: int, length: int, columns: int, rescale: int
) -> None:
    given = problem(sk.DPLR(7, 2), 3, batch, length, columns, rescale=rescale)
    if batch > 1:
        given.state[1] = 0
    assert_near(native(SHARED_FACTORS, given), plain(given), 1e-10)


@pytest.mark.parametrize("batch, length", [SEVERAL_TEAMS, ONE_SEQUENCE])
def test_float32_is_right_to_its_precision(batch: int, length: int) -> None:
    given = problem(sk.DPLR(31, 4, scale=0.5), 17, batch, length, inputs=True)
    assert_near(native(SHARED_FACTORS, given.to(torch.float32)), plain(given), 5e-5)


@pytest.mark.parametrize("count", [1, 2])
def test_two_runs_are_equal_to_the_last_bit(count: int) -> None:
    given = problem(sk.DPLR(31, 4), 17, 60, 9, inputs=True).to(torch.float32)
    with threads(count):
        assert_equal(native(SHARED_FACTORS, given), native(SHARED_FACTORS, given))


def test_threads_change_nothing_but_rounding() -> None:
    given = problem(sk.DPLR(31, 2), 17, 60, 9, 3, inputs=True)
    alone = native(SHARED_FACTORS, given)
    for count in (2, 3, 64):
        with threads(count):
            assert_near(native(SHARED_FACTORS, given), alone, 1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch, length", [SEVERAL_TEAMS, ONE_SEQUENCE])
def test_nothing_depends_on_what_memory_held_before(
    batch: int, length: int, dtype: torch.dtype
) -> None:
    for rescale in (0, 8):
        given = problem(sk.DPLR(31, 3), 5, batch, length, 2, rescale=rescale).to(dtype)
        expected = native(SHARED_FACTORS, given)
        with poisoned_memory():
            assert_equal(native(SHARED_FACTORS, given), expected)


def test_sequences_and_steps_may_be_missing() -> None:
    for batch, length in ((0, 5), (3, 0)):
        given = problem(sk.DPLR(5, 2), 3, batch, length)
        found = native(SHARED_FACTORS, given)
        assert torch.equal(found["last"], given.state)
        assert torch.equal(found["gradient of state"], given.in_last)
        assert not any(found[f"gradient of {name}"].any() for name in given.parameters)


def test_bad_arguments_are_named_before_anything_is_touched() -> None:
    given = problem(sk.DPLR(5, 2), 3, 2, 4)
    c, held = SHARED_FACTORS.problem(*plan(given))
    states, last = (torch.full(c.shapes(c)[x], 7.0).to(given.state) for x in ("states", "last"))
    fill(c, c.expected(), held | {"states": states, "last": last})
    space = torch.empty(10**6, dtype=torch.uint8)
    c.work, c.work_bytes = space.data_ptr(), space.numel()
    forward = "slicekit_shared_factors_forward"

    for name in ("batch", "length"):
        assert status(forward, c, **{name: -1}) == BAD_SIZE
    for name in ("channels", "dim", "columns", "threads", "rank"):
        assert status(forward, c, **{name: 0}) == BAD_SIZE
    assert status(forward, c, rank=6) == BAD_SIZE
    assert status(forward, c, length=2**62) == BAD_SIZE
    for name in (*given.parameters, "increments", "state", "states", "last", "work"):
        assert status(forward, c, **{name: None}) == BAD_POINTER
    assert status(forward, c, real=2) == BAD_OPTION
    assert status(forward, c, rescale=-1) == BAD_OPTION
    both = {"rescale": 1, "inputs": states.data_ptr()}
    assert status(forward, c, **both) == BAD_OPTION
    assert status(forward, c, work_bytes=64) == BAD_WORKSPACE
    assert status("slicekit_shared_factors_backward", c) == BAD_POINTER
    assert (states == 7).all() and (last == 7).all()
    assert status(forward, c) == OK
    assert not (states == 7).any()
