"""Costs of scans: what is asked for, one race at a tiny size, and how it is shown."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicekit.catalogue.series import STRUCTURES
from slicekit.studies import Choice, Outcome, Plan, make
from slicekit.studies.line_ups import SLICES
from slicekit.studies.one_run import finished, perform
from slicekit.studies.records import read_record
from slicekit.studies.scan_costs import CASES, behind, cells

TINY = {"length": 24, "dim": 8, "chunks": [4]}


def plans(*models: str) -> list[Plan]:
    return make("scan-costs").wanted(Choice(models=models), {})


def made_up(plan: Plan, **seconds: float) -> Outcome:
    found: dict[str, Any] = {
        name: {"seconds": s, "memory": 2**20, "obstacle": ""} for name, s in seconds.items()
    }
    return Outcome(plan, 100, 1, "measured", None, 0, (), 1.0, measured=found)


def test_every_structure_is_asked_for_at_the_papers_shapes() -> None:
    found = plans(*SLICES)
    assert len({plan.name for plan in found}) == len(CASES) * len(SLICES)
    shapes = {(p.options["batch"], p.options["window"], p.options["length"]) for p in found}
    assert shapes == {(1, 1, 17_984), (4, 1, 17_984), (4, 12, 17_984)}
    with pytest.raises(ValueError, match="did you mean 'bd-slice'"):
        plans("bd-slide")


@pytest.mark.parametrize("model", ["wh-slice", "d-slice"])
def test_all_scans_run_and_the_result_is_found_again(model: str, tmp_path: Path) -> None:
    plan = plans(model)[2]
    plan = replace(plan, options=plan.options | TINY, settings=replace(plan.settings, steps=1))
    outcome = perform(plan, tmp_path)
    assert set(cells(outcome)) == {"ours", "recurrence", "4", "whole"}
    assert all(cell.seconds > 0 and not cell.obstacle for cell in cells(outcome).values())
    assert finished(plan, tmp_path) == outcome


def test_a_scan_that_would_take_too_long_is_named_with_an_estimate(tmp_path: Path) -> None:
    plan = plans("bd-slice")[0]
    outcome = perform(replace(plan, options=plan.options | TINY | {"seconds": 0.0}), tmp_path)
    assert all(x.obstacle == "time" and x.seconds > 0 for x in cells(outcome).values())


def test_others_are_shown_as_multiples_of_ours(tmp_path: Path) -> None:
    study = make("scan-costs")
    first, *_ = plans("bd-slice")
    outcome = made_up(first, ours=0.002, recurrence=0.02, **{"4": 0.001, "whole": 0.004})
    outcome.measured["whole"]["obstacle"] = "memory"
    assert behind(outcome) == {"4": 0.5}
    time, memory, paper = study.tables(Choice(), [outcome])
    assert time.rows == (("batch 1", "bd-slice", "2", "10", "0.5", "~m 2", "0.5"),)
    assert memory.rows == (("batch 1", "bd-slice", "1", "1", "1", "~m 1"),)
    assert ("batch 4", "de-lncde") in {row[:2] for row in paper.rows}
    assert study.tables(Choice(), [])
    pytest.importorskip("matplotlib")
    study.plot(Choice(), [outcome], tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_on_record_ours_is_ahead_wherever_the_facts_say_that_kernels_run() -> None:
    record = read_record(make("scan-costs"), Path(__file__).parents[2] / "results")
    assert record is not None
    for outcome in record.outcomes:
        assert STRUCTURES[outcome.plan.model](128).facts.efficient == "yes"
        assert not behind(outcome), outcome.plan.name
