"""Every structure, flow, scan, precision and setting against the dense loop.

Every structure and flow meets every setting, in kernels and in one of the other scans, which take
turns; the whole product runs with SLICEKIT_EVERY=1.
"""

import os
from collections.abc import Iterable
from functools import cache

import pytest
import torch

from tests.market import FLOWS, FLOWS_OF, STRUCTURES, every_structure
from tests.scans.problems import (
    SCANS,
    SETTINGS,
    Answers,
    Problem,
    assert_near,
    with_gradients,
)

pytestmark = pytest.mark.filterwarnings("ignore:Associative.. composes")

EVERY = os.environ.get("SLICEKIT_EVERY") == "1"


def in_turn(settings: Iterable[str]) -> list[tuple[str, str, str, str]]:
    """Structures and flows in settings: by the kernels, and by one scan of the others."""
    found = []
    for i, (structure, flow) in enumerate(FLOWS_OF):
        for j, setting in enumerate(settings):
            others = [x for x in SCANS if x != "native"]
            if SETTINGS[setting].projective:
                others.remove("associative")
            own = others if EVERY else [others[(i + j) % len(others)]]
            found += [(structure, flow, scan, setting) for scan in ("native", *own)]
    return found


CASES = in_turn(SETTINGS)
IN_SINGLE_PRECISION = in_turn(["affine-padded", "tokens-outer-padded", "projective"])


def test_the_cases_cover_every_structure_and_flow_by_every_scan_and_in_every_setting() -> None:
    scans = {(*case[:2], scan) for case in FLOWS_OF for scan in SCANS}
    assert {case[:3] for case in CASES} == scans
    assert {(*case[:2], case[3]) for case in CASES} == {(*x, s) for x in FLOWS_OF for s in SETTINGS}
    assert {case[2:] for case in CASES} == {
        (scan, name)
        for scan in SCANS
        for name, setting in SETTINGS.items()
        if not (scan == "associative" and setting.projective)
    }


@cache
def reference(name: str, flow_name: str, setting: str) -> Answers:
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting])
    flow = FLOWS[flow_name]
    return with_gradients(lambda leaves: problem.reference(leaves, flow), problem.leaves)


def compare(
    name: str, flow_name: str, scan: str, setting: str, dtype: torch.dtype, tolerance: float
) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting]).to(dtype)
    flow = FLOWS[flow_name]
    actual = with_gradients(lambda x: problem.solve(x, flow, SCANS[scan]), problem.leaves)
    assert all(x.dtype == dtype for x in actual.values())
    assert_near(actual, reference(name, flow_name, setting), tolerance)


@pytest.mark.parametrize(("name", "flow_name", "scan", "setting"), CASES)
def test_values_and_gradients_are_those_of_the_dense_loop(
    name: str, flow_name: str, scan: str, setting: str
) -> None:
    compare(name, flow_name, scan, setting, torch.float64, 1e-9)


@pytest.mark.parametrize(("name", "flow_name", "scan", "setting"), IN_SINGLE_PRECISION)
def test_single_precision_is_near_the_dense_loop(
    name: str, flow_name: str, scan: str, setting: str
) -> None:
    compare(name, flow_name, scan, setting, torch.float32, 1e-4)


@pytest.mark.parametrize("scan", SCANS)
@every_structure
def test_without_a_flow_every_part_takes_its_own(name: str, scan: str) -> None:
    compare(name, "natural", scan, "affine", torch.float64, 1e-9)
