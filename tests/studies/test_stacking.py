"""Layers stacked path to path, against one layer."""

from pathlib import Path

import pytest

from slicekit import catalogue, tasks
from slicekit.studies import Choice, make
from slicekit.studies.records import commands
from slicekit.studies.stacking import CASES
from tests.studies.outcomes import made_up

STUDY = make("stacking")


def test_wide_layers_are_as_large_as_the_stacks_that_they_stand_beside() -> None:
    sizes = {}
    for plan in STUDY.wanted(Choice(seeds=(0,)), {}):
        task = tasks.make(plan.task, **plan.options)
        model = catalogue.build(plan.model, task, layers=plan.layers)
        sizes[plan.name.split("/")[1]] = sum(x.numel() for x in model.parameters())
        layers = CASES[plan.name.split("/")[1]].layers
        assert len(model.blocks) == (layers or 1)
    assert list(sizes) == list(CASES)
    assert sizes["wide-64"] == pytest.approx(sizes["layers-2"], rel=0.15)
    assert sizes["wide-96"] == pytest.approx(sizes["layers-3"], rel=0.15)


def test_a_row_and_a_bar_for_each_case_and_a_command(tmp_path: Path) -> None:
    choice = Choice(seeds=(0, 1))
    outcomes = [made_up(plan) for plan in STUDY.wanted(choice, {})]
    (table,) = STUDY.tables(choice, outcomes)
    assert [row[1] for row in table.rows] == [case.what for case in CASES.values()]
    assert table.rows[0][3:5] == ("50.00 ± 0.00", "50.00 50.00")
    assert commands(STUDY, outcomes) == [
        "slicekit study stacking --models bd-slice --seeds 0,1 --steps 800 --batch 64"
    ]
    with pytest.raises(ValueError, match="has sizes, but those of this study are its own"):
        STUDY.wanted(Choice(models=("bd-slice:dim=8",)), {})
    pytest.importorskip("matplotlib")
    STUDY.plot(choice, outcomes, tmp_path / "it.png")
    assert (tmp_path / "it.png").read_bytes().startswith(b"\x89PNG")
