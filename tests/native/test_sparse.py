"""The native sparse scan against a plain loop, in values and gradients."""

import pytest
import torch

import slicekit as sk
from slicekit.native import available, reason
from slicekit.native.kernel import fill
from slicekit.native.recurrences import SPARSE, Steps
from tests.native.increment_scans import (
    BAD_INDEX,
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

WIDE_AND_NARROW = [(37, 50), (2, 70)]  # sequences in lanes, and steps in lanes


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("dim", DIMS)
def test_values_and_gradients_equal_those_of_the_loop(dim: int, channels: int) -> None:
    for batch, length, columns, inputs in SHAPES:
        given = problem(sk.Sparse(dim, 0.3), channels, batch, length, columns, inputs=inputs)
        assert_near(native(SPARSE, given), plain(given), 1e-11)


@pytest.mark.parametrize("rescale", [1, 8])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("batch, length", WIDE_AND_NARROW)
def test_rescaled_states_keep_their_factors(
    batch: int, length: int, columns: int, rescale: int
) -> None:
    given = problem(sk.Sparse(7, 0.5), 3, batch, length, columns, rescale=rescale)
    if batch > 2:
        given.state[1] = 0
    assert_near(native(SPARSE, given), plain(given), 1e-10)


@pytest.mark.parametrize("kept", ["nothing", "everything", "one matrix"])
@pytest.mark.parametrize("batch, length", WIDE_AND_NARROW)
def test_masks_may_be_empty_or_full(batch: int, length: int, kept: str) -> None:
    dim, channels = 9, 4
    numbers = {
        "nothing": torch.arange(0),
        "everything": torch.arange(channels * dim**2),
        "one matrix": torch.arange(dim**2, 2 * dim**2),
    }
    places = numbers[kept]
    parameters = {"values": torch.randn(places.numel()), "places": places}
    given = problem(sk.Sparse(dim, 0.5), channels, batch, length, parameters=parameters)
    assert_near(native(SPARSE, given), plain(given), 1e-11)


@pytest.mark.parametrize("batch, length", WIDE_AND_NARROW)
def test_float32_is_right_to_its_precision(batch: int, length: int) -> None:
    given = problem(sk.Sparse(64, 0.2), 17, batch, length, inputs=True)
    assert_near(native(SPARSE, given.to(torch.float32)), plain(given), 2e-5)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("batch, length", WIDE_AND_NARROW)
def test_two_runs_are_equal_to_the_last_bit(batch: int, length: int, count: int) -> None:
    given = problem(sk.Sparse(31, 0.2), 17, batch, length, inputs=True).to(torch.float32)
    with threads(count):
        assert_equal(native(SPARSE, given), native(SPARSE, given))


@pytest.mark.parametrize("batch, length", WIDE_AND_NARROW)
def test_threads_change_nothing_but_rounding(batch: int, length: int) -> None:
    given = problem(sk.Sparse(31, 0.2), 17, batch, length, 3, inputs=True)
    alone = native(SPARSE, given)
    for count in (2, 3, 64):
        with threads(count):
            assert_near(native(SPARSE, given), alone, 1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch, length", WIDE_AND_NARROW)
def test_nothing_depends_on_what_memory_held_before(
    batch: int, length: int, dtype: torch.dtype
) -> None:
    for rescale in (0, 8):
        given = problem(sk.Sparse(31, 0.05), 3, batch, length, 2, rescale=rescale).to(dtype)
        expected = native(SPARSE, given)
        with poisoned_memory():
            assert_equal(native(SPARSE, given), expected)


def test_sequences_and_steps_may_be_missing() -> None:
    for batch, length in ((0, 5), (3, 0)):
        given = problem(sk.Sparse(5, 0.5), 3, batch, length)
        found = native(SPARSE, given)
        assert torch.equal(found["last"], given.state)
        assert torch.equal(found["gradient of state"], given.in_last)
        assert not found["gradient of values"].any()


def test_bad_arguments_are_named_before_anything_is_touched() -> None:
    given = problem(sk.Sparse(5, 0.5), 3, 2, 4)
    c, held = SPARSE.problem(*plan(given))
    states, last = (torch.full(c.shapes(c)[x], 7.0).to(given.state) for x in ("states", "last"))
    fill(c, c.expected(), held | {"states": states, "last": last})
    space = torch.empty(10**6, dtype=torch.uint8)
    c.work, c.work_bytes = space.data_ptr(), space.numel()

    for name in ("batch", "length"):
        assert status("slicekit_sparse_forward", c, **{name: -1}) == BAD_SIZE
    for name in ("channels", "dim", "columns", "threads"):
        assert status("slicekit_sparse_forward", c, **{name: 0}) == BAD_SIZE
    assert status("slicekit_sparse_forward", c, length=2**62) == BAD_SIZE
    assert status("slicekit_sparse_forward", c, kept=3 * 25 + 1) == BAD_SIZE
    for name in ("values", "places", "increments", "state", "states", "last", "work"):
        assert status("slicekit_sparse_forward", c, **{name: None}) == BAD_POINTER
    assert status("slicekit_sparse_forward", c, real=2) == BAD_OPTION
    assert status("slicekit_sparse_forward", c, rescale=-1) == BAD_OPTION
    assert status("slicekit_sparse_forward", c, rescale=1) == BAD_POINTER
    both = {"rescale": 1, "inputs": states.data_ptr()}
    assert status("slicekit_sparse_forward", c, **both) == BAD_OPTION
    assert status("slicekit_sparse_forward", c, work_bytes=64) == BAD_WORKSPACE
    assert status("slicekit_sparse_backward", c) == BAD_POINTER
    for bad in ([0, 75], [-1, 3], [4, 3], [4, 4]):
        places = torch.tensor(bad)
        wrong = {"places": places.data_ptr(), "kept": 2}
        assert status("slicekit_sparse_forward", c, **wrong) == BAD_INDEX
    assert (states == 7).all() and (last == 7).all()
    assert status("slicekit_sparse_forward", c) == OK
    assert not (states == 7).any()


def test_the_door_names_what_the_kernel_refused() -> None:
    given = problem(sk.Sparse(5, 0.5), 3, 2, 4)
    values, places = given.parameters.values()
    with pytest.raises(RuntimeError, match="sparse_forward was given an index outside its table"):
        SPARSE.forward(Steps(), [given.increments, values, places.flip(0), given.state, None, None])
