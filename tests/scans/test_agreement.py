"""Every structure, flow, scan, precision and setting against the dense loop."""

from functools import cache

import pytest
import torch

from tests.market import FLOWS, STRUCTURES, every_structure, every_structure_and_flow
from tests.scans.problems import (
    SCANS,
    SETTINGS,
    Answers,
    Problem,
    assert_near,
    with_gradients,
)

pytestmark = pytest.mark.filterwarnings("ignore:Associative.. composes")

EVERYWHERE = [
    (scan, setting)
    for scan in SCANS
    for setting in SETTINGS
    if not (scan == "associative" and SETTINGS[setting].projective)
]
IN_SINGLE_PRECISION = [
    (scan, setting)
    for scan, setting in EVERYWHERE
    if setting in ("affine-padded", "tokens-outer-padded", "projective")
]


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


@pytest.mark.parametrize(("scan", "setting"), EVERYWHERE)
@every_structure_and_flow
def test_values_and_gradients_are_those_of_the_dense_loop(
    name: str, flow_name: str, scan: str, setting: str
) -> None:
    compare(name, flow_name, scan, setting, torch.float64, 1e-9)


@pytest.mark.parametrize(("scan", "setting"), IN_SINGLE_PRECISION)
@every_structure_and_flow
def test_single_precision_is_near_the_dense_loop(
    name: str, flow_name: str, scan: str, setting: str
) -> None:
    compare(name, flow_name, scan, setting, torch.float32, 1e-4)


@pytest.mark.parametrize("scan", SCANS)
@every_structure
def test_without_a_flow_every_part_takes_its_own(name: str, scan: str) -> None:
    compare(name, "natural", scan, "affine", torch.float64, 1e-9)
