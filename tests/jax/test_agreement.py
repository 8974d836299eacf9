"""torch = JAX: every structure and flow, every scan and setting, values and gradients.

Every structure and flow is met, and every pair of a scan and a setting; the whole product takes
about twenty minutes, and runs with SLICEKIT_EVERY=1.
"""

import os

import pytest

from slicekit.jax import Associative
from tests.jax.twins import (
    EVERY_FLOW,
    JAX_SCANS,
    has_kernel,
    in_torch,
    need,
    solve_in_jax,
    twin,
    with_gradients_in_jax,
)
from tests.market import FLOWS, FLOWS_OF, NONLINEAR, STRUCTURES
from tests.scans.problems import SETTINGS, Problem, assert_near

PAIRS = [
    (scan, setting)
    for setting in SETTINGS
    for scan in JAX_SCANS
    if not (scan == "associative" and SETTINGS[setting].projective)
]


WINDOWED = [name for name in STRUCTURES if name not in (*NONLINEAR, "circulant")]
"""Structures that have brackets."""

ALONE = [pair for pair in PAIRS if SETTINGS[pair[1]].inputs == "none"]
"""Scans and settings for windows, where affine inputs have no place."""


def in_turn() -> list[tuple[str, str, str, str]]:
    """Cases that meet every structure and flow, and every pair, kernels also each of theirs."""
    found = []
    for pairs in ([p for p in PAIRS if p[0] == "native"], [p for p in PAIRS if p[0] != "native"]):
        flows = [f for f in FLOWS_OF if pairs[0][0] != "native" or has_kernel(*f)]
        turns = range(max(len(flows), len(pairs)))
        found += [(*flows[i % len(flows)], *pairs[i % len(pairs)]) for i in turns]
    turns = range(max(len(WINDOWED), len(ALONE)))
    return found + [(WINDOWED[i % len(WINDOWED)], "windows", *ALONE[i % len(ALONE)]) for i in turns]


if os.environ.get("SLICEKIT_EVERY") == "1":
    CASES = [
        (*flow, *pair)
        for flow in FLOWS_OF
        for pair in PAIRS
        if pair[0] != "native" or has_kernel(*flow)
    ] + [(name, "windows", *pair) for name in WINDOWED for pair in ALONE]
else:
    CASES = in_turn()


def test_the_cases_cover_every_structure_and_flow_and_every_scan_and_setting() -> None:
    windows = [case for case in CASES if case[1] == "windows"]
    others = [case for case in CASES if case[1] != "windows"]
    assert {case[:2] for case in others} == set(FLOWS_OF)
    assert {case[2:] for case in others} == set(PAIRS)
    assert {case[0] for case in windows} == set(WINDOWED)
    assert {case[2:] for case in windows} == set(ALONE)


@pytest.mark.filterwarnings("ignore:Associative.. composes", "ignore:LogODE")
@pytest.mark.parametrize(("name", "flow", "scan", "setting"), CASES)
def test_values_and_gradients_are_those_of_torch(
    name: str, flow: str, scan: str, setting: str
) -> None:
    need(scan)
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting])
    own = twin(EVERY_FLOW[flow])
    actual = with_gradients_in_jax(
        lambda leaves: solve_in_jax(problem, leaves, own, JAX_SCANS[scan]), problem.leaves
    )
    assert_near(actual, in_torch(name, flow, setting), 1e-10)


@pytest.mark.parametrize("chunk", [1, 4])
def test_an_associative_scan_in_chunks_is_that_of_torch(chunk: int) -> None:
    problem = Problem.make(STRUCTURES["ragged"], SETTINGS["affine-padded"])
    scan = Associative(chunk)
    actual = with_gradients_in_jax(
        lambda leaves: solve_in_jax(problem, leaves, twin(FLOWS["euler"]), scan), problem.leaves
    )
    assert_near(actual, in_torch("ragged", "euler", "affine-padded"), 1e-10)
