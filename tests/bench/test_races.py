"""Contenders are checked against each other before they are timed."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from slicekit import native
from slicekit.bench import contenders as who
from slicekit.bench.contenders import (
    CHUNKED,
    ENTRANTS,
    KEPT,
    NATIVE,
    NO_KERNELS,
    NO_PEER,
    PEER_PARALLEL,
    PEER_RECURRENT,
    RECOMPUTED,
    RECURRENT,
    TOKENS,
    Contender,
    obstacle,
)
from slicekit.bench.problems import CASES, Problem, Setting, Shape
from slicekit.bench.races import FLOOR, Entrant, check, race, without_slower_peer
from slicekit.bench.timing import FULL, Effort
from slicekit.flows import Euler, Exponential
from slicekit.native.panels import Plan

TINY = Shape(2, 5, 32)
ONCE = Effort(1, 1, math.inf, math.inf)
needs_kernels = pytest.mark.skipif(not native.available(), reason="no C++ kernels")


@pytest.mark.parametrize("channels", [9, 33])
@pytest.mark.parametrize("structure", CASES)
def test_all_contenders_agree(structure: str, channels: int) -> None:
    setting = Setting(structure, TINY, inputs=channels)
    names = [name for name in ENTRANTS if not obstacle(name, setting)]
    found = check(setting, names, reference=RECURRENT)
    assert found.errors.keys() == set(names)
    assert max(found.errors.values()) < 1e-4


@pytest.mark.parametrize("wrong_by", [1.1, math.nan])
def test_a_wrong_contender_is_not_timed(wrong_by: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(problem: Problem) -> Contender:
        honest = who.scan_contender(problem, who.sk.Recurrent())
        return Contender(lambda: tuple(wrong_by * x for x in honest.run()), honest.common)

    monkeypatch.setitem(ENTRANTS, RECURRENT, wrong)
    with pytest.raises(ArithmeticError, match=RECURRENT):
        race([Entrant(Setting("diagonal", TINY), RECURRENT)], ONCE)


@needs_kernels
def test_recomputing_keeps_nothing_and_keeping_keeps_all(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, set[int]] = {RECOMPUTED: set(), KEPT: set()}
    keep = Plan.keep
    problem = Problem.of(Setting("block-diagonal-4", TINY))
    for name, sizes in seen.items():

        def spy(self: Plan, task: Any, kept: torch.Tensor | None, sizes: set[int] = sizes) -> None:
            sizes.add(0 if kept is None else kept.numel())
            keep(self, task, kept)

        monkeypatch.setattr(Plan, "keep", spy)
        who.enter(name, problem).run()
    assert seen[RECOMPUTED] == {0} and min(seen[KEPT]) >= 2 * 5 * 32 * 4


@needs_kernels
@pytest.mark.parametrize("structure", ["sparse-0.1", "dplr-4"])
def test_kernels_without_transitions_have_none_to_keep(structure: str) -> None:
    assert obstacle(KEPT, Setting(structure, TINY)) and not obstacle(
        RECOMPUTED, Setting(structure, TINY)
    )


def test_a_race_gives_times_of_all_that_can_run() -> None:
    setting = Setting("walsh-hadamard", TINY)
    able, unable = Entrant(setting, CHUNKED), Entrant(setting, PEER_PARALLEL)
    times = race([able, unable, Entrant(setting, FLOOR)], ONCE)
    assert times.processor.keys() == times.wall.keys() == {str(able), str(Entrant(setting, FLOOR))}


def test_entrants_with_other_flows_have_other_names() -> None:
    setting = Setting("block-diagonal-4", TINY)
    flows = (None, Euler(), Exponential())
    names = {str(Entrant(replace(setting, flow=flow), CHUNKED)) for flow in flows}
    assert len(names) == 3


def test_the_slower_mode_of_torch_slices_is_left_out_beyond_doubt() -> None:
    names = [CHUNKED, PEER_RECURRENT, PEER_PARALLEL]
    seconds = {CHUNKED: 9.0, PEER_RECURRENT: 1.0, PEER_PARALLEL: 1.4}
    assert without_slower_peer(names, seconds, FULL) == names
    sure = replace(FULL, doubt=1.0)
    assert without_slower_peer(names, seconds, sure) == [CHUNKED, PEER_RECURRENT]


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(who, "peer_installed", lambda: False)
    monkeypatch.setattr(native, "available", lambda: False)
    setting = Setting("diagonal", TINY)
    assert obstacle(PEER_PARALLEL, setting) == NO_PEER
    assert {obstacle(name, setting) for name in (NATIVE, KEPT, TOKENS)} == {NO_KERNELS}
    assert obstacle(CHUNKED, setting) == ""
