"""Where there is a kernel, who chooses it, and what is said where there is none."""

import os
import shutil
import subprocess
import sys
from importlib import metadata

import pytest

from slicekit import BlockDiagonal, Euler, Exponential, JointDPLR, Native, Recurrent
from slicekit.flows import Flow
from slicekit.native import available, reason
from slicekit.structures import Structure
from tests.market import FLOWS, NO_KERNEL, STRUCTURES, every_structure_and_flow
from tests.scans.native.problems import answers, assert_is_the_loop, make, missing, needs_library
from tests.scans.problems import SETTINGS, Problem, assert_near, with_gradients


@pytest.mark.skipif(os.environ.get("SLICEKIT_NATIVE") == "off", reason="switched off")
@pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
def test_where_there_is_a_compiler_there_is_a_library() -> None:
    """Without a library all other tests of kernels would pass by being skipped."""
    if "SLICEKIT_NATIVE" not in os.environ:
        try:
            metadata.distribution("slicekit")
        except metadata.PackageNotFoundError:
            pytest.skip("slicekit is not installed, and SLICEKIT_NATIVE names no library")
    assert available(), reason()


@needs_library
@pytest.mark.parametrize(
    "setting", ["affine-padded", "tokens", "projective", "projective-matrix-tokens-padded"]
)
@every_structure_and_flow
def test_where_there_is_no_kernel_it_says_so_and_another_scan_is_chosen(
    name: str, flow_name: str, setting: str
) -> None:
    problem, flow = Problem.make(STRUCTURES[name], SETTINGS[setting]), FLOWS[flow_name]
    lacking = missing(name, flow_name)
    if not lacking:
        problem.solve(problem.leaves, flow, Native())
        return
    with pytest.raises(ValueError, match=rf"^scan=Native\(\): .*{lacking}.*leave scan=None"):
        problem.solve(problem.leaves, flow, Native())
    chosen = with_gradients(lambda x: problem.solve(x, flow, None), problem.leaves)
    dense = with_gradients(lambda x: problem.reference(x, flow), problem.leaves)
    assert_near(chosen, dense, 1e-9)


@needs_library
@pytest.mark.parametrize(
    ("structure", "flow", "lacking"),
    [
        (BlockDiagonal(130, 65), Exponential(), "blocks of 65 rows.*at most 64"),
        (JointDPLR(257, 257), Euler(), "rank=257.*at most 256"),
        (BlockDiagonal(blocks=[1, 2] * 129), Euler(), "more than 256 parts"),
    ],
    ids=["block", "rank", "parts"],
)
def test_sizes_beyond_the_kernels_are_refused_and_left_to_another_scan(
    structure: Structure, flow: Flow, lacking: str
) -> None:
    problem = make(structure, length=2)
    with pytest.raises(ValueError, match=rf"^scan=Native\(\): .*{lacking}"):
        problem.solve(problem.leaves, flow, Native())
    chosen = with_gradients(lambda x: problem.solve(x, flow, None), problem.leaves)
    assert_near(chosen, answers(problem, flow, Recurrent()), 1e-9)


@needs_library
def test_blocks_and_ranks_at_the_limit_are_taken() -> None:
    assert_is_the_loop(make(BlockDiagonal(64, 64), length=2), Exponential())
    assert_is_the_loop(make(JointDPLR(256, 256), length=2))
    assert_is_the_loop(make(BlockDiagonal(blocks=[1, 2] * 128), length=2))


@needs_library
@pytest.mark.parametrize("setting", ["plain", "tokens-outer-padded", "projective"])
@every_structure_and_flow
def test_solve_chooses_the_kernels_wherever_there_are_some(
    name: str, flow_name: str, setting: str, engines: list[str]
) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting])
    problem.solve(problem.leaves, FLOWS[flow_name], None)
    lacking = missing(name, flow_name)
    if name in NO_KERNEL and SETTINGS[setting].tokens:  # whose transitions are blocks or low rank
        lacking = (name, flow_name) == ("householder", "exponential")
    assert engines == ["chunked" if lacking else "native"]


WITHOUT = """
import warnings
import torch
import slicekit.scans.chunked.policy
from slicekit import Dense, Native, propagate, solve
from slicekit.structures import DiagonalTransition

engines, run = [], slicekit.scans.chunked.policy.run_opaque
def spy(passes, *arguments):
    engines.append(passes.__name__)
    return run(passes, *arguments)
slicekit.scans.chunked.policy.run_opaque = spy

structure = Dense(4)
parameters, path, state = structure.init(3), torch.randn(2, 5, 3), torch.randn(2, 4)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        solve(structure, parameters, path, state)
        propagate(DiagonalTransition(torch.rand(2, 5, 4)), state)
try:
    solve(structure, parameters, path, state, scan=Native())
except ValueError as error:
    print(error)
print(*engines)
print(*(f"{w.category.__name__}: {w.message}" for w in caught), sep="\\n")
"""


def run_without(wish: str) -> tuple[str, str, list[str]]:
    """What Native() says, the engines and the warnings of a process that has no library."""
    shown = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        env=os.environ | {"SLICEKIT_NATIVE": wish},
        capture_output=True,
        text=True,
        check=True,
    )
    refusal, engines, *warned = shown.stdout.splitlines()
    return refusal, engines, [line for line in warned if line]


ADVICE = "leave scan=None or use Chunked()"


def test_switched_off_it_gives_way_in_silence() -> None:
    refusal, engines, warned = run_without("off")
    assert refusal == f"scan=Native(): switched off by SLICEKIT_NATIVE=off; {ADVICE}"
    assert engines.split() == ["StepPasses"] * 6
    assert warned == []


def test_without_a_library_it_gives_way_with_one_warning() -> None:
    refusal, engines, warned = run_without("/nonexistent/library.so")
    reason = "SLICEKIT_NATIVE=/nonexistent/library.so is no file"
    assert refusal == f"scan=Native(): {reason}; {ADVICE}"
    assert engines.split() == ["StepPasses"] * 6
    assert len(warned) == 1
    assert warned[0].startswith("RuntimeWarning: slicekit runs without its C++ kernels")
