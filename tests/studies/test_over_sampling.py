"""Accuracy and time as series are sampled more finely."""

from dataclasses import replace
from pathlib import Path

import pytest

from slicekit import catalogue, tasks
from slicekit.studies import Choice, Outcome, make
from slicekit.studies.one_run import perform
from slicekit.studies.over_sampling import LOG, SINGLE
from slicekit.studies.records import commands
from tests.studies.outcomes import made_up

STUDY = make("over-sampling")


def outcomes(choice: Choice) -> list[Outcome]:
    return [replace(made_up(x), processor_seconds=3.0) for x in STUDY.wanted(choice, {})]


def test_windows_grow_with_the_resolution_so_that_their_number_stays() -> None:
    plans = STUDY.wanted(Choice(models=("bd-slice",), seeds=(0,)), {})
    assert len(plans) == 8
    for plan in plans:
        task = tasks.make(plan.task, **plan.options)
        (layer,) = catalogue.build(plan.model, task).blocks
        (test,) = plan.tests
        steps = 16 if LOG.lower() in plan.name else test.low
        assert test.low == test.high == plan.options["samples"]
        assert test.low // layer.flow.window == steps  # type: ignore[union-attr]


def test_a_table_for_accuracy_and_one_for_time(tmp_path: Path) -> None:
    choice = Choice(seeds=(0, 1), lengths=(32, 64))
    accuracy, time = STUDY.tables(choice, outcomes(choice))
    assert accuracy.rows[0] == ("bd-slice", SINGLE, "2", *["50.00 ± 0.00"] * 2)
    assert accuracy.rows[1][1] == LOG and len(accuracy.rows) == 4
    assert time.rows[0][3:] == ("10.0", "10.0")
    pytest.importorskip("matplotlib")
    STUDY.plot(choice, outcomes(choice), tmp_path / "it.png")
    assert (tmp_path / "it.png").read_bytes().startswith(b"\x89PNG")


def test_its_command_has_the_models_name_without_windows() -> None:
    found = outcomes(Choice(models=("bd-slice",), seeds=(0,), lengths=(64,)))
    assert commands(STUDY, found) == [
        "slicekit study over-sampling --models bd-slice --seeds 0 --lengths 64 --steps 300 "
        "--batch 64"
    ]
    with pytest.raises(ValueError, match="has sizes, but those of this study are its own"):
        STUDY.wanted(Choice(models=("bd-slice:window=2",)), {})


def test_a_tiny_run_is_trained_tested_and_timed(tmp_path: Path) -> None:
    plan = STUDY.wanted(Choice(quick=True, steps=2, batch=4, seeds=(0,)), {})[1]
    outcome = perform(plan, tmp_path / "run")
    assert outcome.tested[0].low == 32 and outcome.steps == 2
    assert outcome.processor_seconds is not None and outcome.pace is not None
    again = perform(replace(plan, tests=()), tmp_path / "run")
    assert again.processor_seconds == outcome.processor_seconds
