"""Threads, and what memory held before, change nothing."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from slicekit import (
    DPLR,
    BlockDiagonal,
    Dense,
    Diagonal,
    DirectSum,
    Exponential,
    JointDPLR,
    Native,
    Orthogonal,
    Recurrent,
    Sparse,
    WalshHadamard,
)
from slicekit.flows import Flow
from slicekit.structures import Structure
from tests.native.increment_scans import poisoned_memory, threads
from tests.scans.native.problems import (
    DRIVEN,
    PLAIN,
    TOKENS,
    answers,
    assert_same,
    each_setting,
    make,
    needs_library,
)
from tests.scans.problems import Answers, Setting, assert_near, with_gradients

SPLIT: dict[str, tuple[Structure, Flow | None]] = {
    "blocks": (BlockDiagonal(40, 5), None),
    "ragged": (BlockDiagonal(blocks=[17, 3, 3, 3, 1, 1, 1, 1]), None),
    "diagonal": (Diagonal(37), None),
    "exponential": (BlockDiagonal(36, 3), Exponential()),
    "orthogonal": (Orthogonal(40, 4), None),
    "joint-dplr": (JointDPLR(19, 2), None),
    "dplr": (DPLR(19, 2), None),
    "hadamard": (WalshHadamard(32), None),
    "sparse": (Sparse(19, density=0.3), None),
    "small-and-large": (BlockDiagonal(blocks=[2] * 60 + [17]), Exponential()),
    "dense-and-orthogonal": (DirectSum(Dense(16), Orthogonal(16, 4)), None),
}
each_split = pytest.mark.parametrize("name", SPLIT)


@needs_library
@pytest.mark.parametrize("setting", [PLAIN, DRIVEN, TOKENS], ids=["plain", "driven", "tokens"])
@pytest.mark.parametrize("batch", [1, 7])
@each_split
def test_threads_change_nothing_but_rounding(name: str, batch: int, setting: Setting) -> None:
    structure, flow = SPLIT[name]
    problem = make(structure, setting, batch=batch, length=60)
    looped = answers(problem, flow, Recurrent())
    for count in (2, 8):
        with threads(count):
            found, again = answers(problem, flow), answers(problem, flow)
        assert_near(found, looped, 1e-10)
        assert_same(again, found)


MANY = 530
"""Channels of which the parameters of a few blocks are more than one split may have."""

LARGE: dict[str, tuple[Structure, Flow | None]] = {
    "blocks": (BlockDiagonal(72, 4), None),
    "ragged": (BlockDiagonal(blocks=[17, 3, 3, 8, 1, 1, 4, 4]), None),
    "exponential": (BlockDiagonal(48, 3), Exponential()),
    "orthogonal": (Orthogonal(60, 6), None),
    "sum": (DirectSum(Diagonal(9), Dense(16), Orthogonal(16, 4)), None),
}


@needs_library
@each_setting
@pytest.mark.parametrize("name", LARGE)
def test_parameters_that_a_cache_does_not_hold_at_once_change_nothing(
    name: str, setting: Setting
) -> None:
    structure, flow = LARGE[name]
    problem = make(structure, setting, batch=9, length=25, channels=MANY)
    looped = answers(problem, flow, Recurrent())
    for count in (1, 2):
        with threads(count):
            found = answers(problem, flow)
            assert_same(answers(problem, flow), found)
            again = answers(problem, flow, Native(keep=0))
        assert_near(found, looped, 1e-10)
        assert_near(again, looped, 1e-10)


@needs_library
@pytest.mark.parametrize("channels", [3, MANY])
@each_split
def test_threads_may_change_between_the_passes(name: str, channels: int) -> None:
    structure, flow = SPLIT[name]
    problem = make(structure, batch=1, length=60, channels=channels)
    expected = answers(problem, flow)
    for before, after in ((1, 3), (3, 1)):

        def both(leaves: dict[str, Tensor], before: int = before, after: int = after) -> Answers:
            torch.set_num_threads(before)
            found = problem.solve(leaves, flow, Native())
            torch.set_num_threads(after)
            return found

        with threads(1):
            assert_near(with_gradients(both, problem.leaves), expected, 1e-12)


@needs_library
def test_calls_from_several_python_threads_do_not_meet() -> None:
    problems = [
        (make(structure, setting, batch=2 + i % 3, length=40 + i), flow)
        for i, (structure, flow) in enumerate(SPLIT.values())
        for setting in (PLAIN, DRIVEN, TOKENS)
    ]
    with threads(1):
        one_by_one = [answers(problem, flow) for problem, flow in problems]
    with threads(3), ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            together = list(pool.map(lambda pair: answers(*pair), problems))
            for found, expected in zip(together, one_by_one, strict=True):
                assert_near(found, expected, 1e-12)


@needs_library
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("keep", [True, False], ids=["kept", "again"])
@pytest.mark.parametrize("batch", [1, 3])
@each_setting
def test_nothing_depends_on_what_memory_held_before(
    setting: Setting, batch: int, keep: bool, count: int
) -> None:
    scan = Native(keep=None if keep else 0)
    for structure, flow in SPLIT.values():
        problem = make(structure, setting, batch=batch, length=20)
        with threads(count):
            expected = answers(problem, flow, scan)
            with poisoned_memory():
                assert torch.empty(3).isnan().all()
                found = answers(problem, flow, scan)
        assert_near(found, expected, 1e-12)
