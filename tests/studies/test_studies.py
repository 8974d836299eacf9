"""What each study wants to be run, and how it shows what came of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slicekit import catalogue, tasks
from slicekit.studies import STUDIES, Choice, Outcome, Plan, Study, make
from slicekit.studies.a5_layers import A5Layers
from slicekit.studies.languages import LANGUAGES, PAPER, Languages
from slicekit.studies.line_ups import SIZES, SLICES
from slicekit.studies.tables import Table
from tests.studies.outcomes import made_up

ELSEWHERE = {
    *("uea", "scan-costs", "expressivity", "over-sampling", "stacking", "estimator-settings"),
}
"""Studies that need data, train nothing or choose sizes: each has a file of tests of its own."""

every_study = pytest.mark.parametrize(
    "study",
    [study for study in STUDIES.values() if study.name not in ELSEWHERE],
    ids=lambda study: study.name,
)


@every_study
def test_plans_are_what_the_catalogue_and_the_tasks_know(study: Study) -> None:
    plans = study.wanted(Choice(), {})
    assert len({plan.name for plan in plans}) == len(plans)
    for plan in plans:
        task = tasks.make(plan.task, **plan.options)
        own = catalogue.settings(plan.model, task)
        assert (plan.settings.steps, plan.settings.batch) == (own.steps, own.batch)
        assert plan.tests


@every_study
def test_a_plan_and_its_outcome_survive_json(study: Study) -> None:
    for plan in study.wanted(Choice(quick=True), {}):
        assert Plan.from_dict(json.loads(json.dumps(plan.as_dict()))) == plan
        outcome = made_up(plan)
        assert Outcome.from_dict(json.loads(json.dumps(outcome.as_dict()))) == outcome


@every_study
def test_steps_seeds_batch_and_models_can_be_chosen(study: Study) -> None:
    choice = Choice(models=("d-slice",), seeds=(7, 8), steps=100, batch=5)
    plans = study.wanted(choice, {})
    assert {plan.model for plan in plans} == {"d-slice"}
    assert {plan.settings.seed for plan in plans} == {7, 8}
    assert {(plan.settings.steps, plan.settings.batch) for plan in plans} == {(100, 5)}
    assert all(plan.settings.evaluate_every == 5 for plan in plans), "twenty times in a short run"


@every_study
def test_an_unknown_model_is_refused_with_a_suggestion(study: Study) -> None:
    with pytest.raises(ValueError, match="did you mean 'bd-slice'"):
        study.wanted(Choice(models=("bd-slide",)), {})


@every_study
def test_every_seed_and_the_mean_are_shown_and_drawn(study: Study, tmp_path: Path) -> None:
    choice = Choice(seeds=(3, 4), models=("bd-slice",))
    outcomes = [made_up(plan, best=0.95) for plan in study.wanted(choice, {})]
    shown = study.tables(choice, outcomes)[0]
    own = [row for row in shown.rows if row[0] == "bd-slice"]
    seeds = {row[shown.columns.index("seed")] for row in own}
    assert seeds >= {"3", "4"}
    assert all(len(row) == len(shown.columns) for row in shown.rows)
    pytest.importorskip("matplotlib")
    study.plot(choice, outcomes, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@every_study
def test_tables_can_be_made_before_anything_is_finished(study: Study) -> None:
    assert study.tables(Choice(), [])


def test_layers_are_added_until_they_are_enough() -> None:
    study, choice = A5Layers(), Choice(models=("d-slice",), lengths=(5,), max_layers=3)

    def layers(outcomes: dict[str, Outcome]) -> list[int | None]:
        return [plan.layers for plan in study.wanted(choice, outcomes)]

    (first,) = study.wanted(choice, {})
    assert layers({}) == [1]
    assert layers({first.name: made_up(first, best=0.901)}) == [1]
    poor = {first.name: made_up(first, best=0.9)}
    assert layers(poor) == [1, 2], "exactly 90% is not more than 90%"
    second = study.wanted(choice, poor)[-1]
    poor[second.name] = made_up(second, best=0.5)
    last = study.wanted(choice, poor)[-1]
    poor[last.name] = made_up(last, best=0.5)
    assert layers(poor) == [1, 2, 3], "no more than max_layers"
    assert study.needed(choice, list(poor.values())) == {("d-slice", 0, 5): ">3"}
    enough = poor | {last.name: made_up(last, best=0.95)}
    assert study.needed(choice, list(enough.values())) == {("d-slice", 0, 5): "3"}


def test_the_paper_stands_beside_our_layers() -> None:
    (table,) = A5Layers().tables(Choice(), [])
    said = {row[0]: row[-1] for row in table.rows}
    assert said["bd-slice"] == "1 at every length"
    assert said["d-slice"] == said["mamba"] == "more as the length grows"
    assert said["rwkv7"] == "-"


def test_word_problems_take_one_recipe_for_all_groups() -> None:
    plans = make("word-problems").wanted(Choice(seeds=(0,)), {})
    assert [plan.task for plan in plans] == ["a5", "s5", "a4xz5", "z60"]
    assert len({plan.settings for plan in plans}) == 1


def test_lengths_of_the_paper_are_tested_and_more() -> None:
    tests = make("a5-lengths").wanted(Choice(), {})[0].tests
    assert [x.low for x in tests] == [20, 40, 80, 160, 320, 640, 1280, 2560, 5120]
    (first, *rest) = make("languages").wanted(Choice(), {})[0].tests
    assert (first.low, first.high) == (40, 256) and [x.low for x in rest] == [1024, 4096]
    chosen = make("a5-lengths").wanted(Choice(lengths=(30, 60)), {})[0].tests
    assert [(x.low, x.high) for x in chosen] == [(30, 30), (60, 60)]


def test_languages_are_averaged_for_each_seed_and_over_seeds() -> None:
    choice, study = Choice(models=("projective-slice",), seeds=(0, 1)), Languages()
    outcomes = [
        made_up(plan, accuracy=lambda _, plan=plan: _accuracy(plan))
        for plan in study.wanted(choice, {})
    ]
    table, steps = study.tables(choice, outcomes)[0], f"{outcomes[0].steps:,}"
    rows = [row[1:] for row in table.rows if row[0] == "projective-slice"]
    assert rows == [
        ("0", steps, "100", "90.00", "90.00", "90.00", "92.50"),
        ("1", steps, "80.00", "90.00", "90.00", "90.00", "87.50"),
        ("mean", steps, "90.00 ± 14.14", *["90.00 ± 0.00"] * 3, "90.00 ± 3.54"),
    ]
    assert [row[0] for row in table.rows][3:] == [f"paper: {name}" for name in PAPER]


def _accuracy(plan: Plan) -> float:
    if plan.task != "cycle-navigation":
        return 0.9
    return 1.0 if plan.settings.seed == 0 else 0.8


def test_the_sixteen_sizes_stand_beside_those_of_the_paper() -> None:
    choice, study = Choice(models=("sizes",), seeds=(0,)), Languages()
    plans = study.wanted(choice, {})
    assert len(plans) == 16 * 4
    table = study.tables(choice, [made_up(plan) for plan in plans])[0]
    papers = {row[0]: row[-1] for row in table.rows}
    assert papers["paper: dplr-slice:dim=57,rank=4"] == "85.1"
    assert {f"paper: {model}" for model in SIZES} < set(papers)


def test_groups_of_models_stand_for_their_models() -> None:
    found = make("a5-lengths").chosen_models(Choice(models=("orthogonal-slice", "slices", "mamba")))
    assert found == ("orthogonal-slice", *SLICES, "mamba")
    with pytest.raises(ValueError, match="unknown model 'slice'"):
        make("a5-lengths").chosen_models(Choice(models=("slice",)))


def test_an_average_needs_all_languages() -> None:
    choice, study = Choice(seeds=(0,)), Languages()
    outcomes = [made_up(plan) for plan in study.wanted(choice, {})[:3]]
    rows = study.tables(choice, outcomes)[0].rows
    assert rows[0][-2:] == ("-", "-") and rows[1][-2:] == ("-", "-")


def test_batches_that_differ_are_told() -> None:
    study = Languages()
    ours = study.wanted(Choice(models=("bd-slice",), seeds=(0,)), {})
    theirs = study.wanted(Choice(models=("lstm", "mamba"), seeds=(0,), batch=64), {})
    choice = Choice(models=("bd-slice", "lstm", "mamba"), seeds=(0,))
    (table, *_) = study.tables(choice, [made_up(plan) for plan in ours])
    assert "Batches" not in table.note
    (table, *_) = study.tables(choice, [made_up(plan) for plan in (*ours, *theirs)])
    assert table.note.endswith("Batches differ: of 64 lstm, mamba; of 256 bd-slice.")


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_averages_are_those_of_its_columns(name: str) -> None:
    *columns, average = (float(figure.split(" ± ")[0]) for figure in PAPER[name])
    assert len(columns) == len(LANGUAGES)
    assert sum(columns) / 4 == pytest.approx(average, abs=0.06)


def test_tables_as_markdown() -> None:
    text = Table("t", ("a", "bb"), (("ccc", "d"),), note="A note.").as_markdown()
    assert text.splitlines() == [
        "### t",
        "",
        "| a   | bb |",
        "| --- | -- |",
        "| ccc | d  |",
        "",
        "A note.",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps=0"),
        ({"seeds": (0, -1)}, "seeds=-1"),
        ({"lengths": ()}, "lengths is empty"),
        ({"max_layers": 0}, "max_layers=0"),
    ],
)
def test_bad_choices_are_named(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Choice(**options)


def test_an_outcome_says_where_it_was_not_tested() -> None:
    (plan, *_) = make("languages").wanted(Choice(quick=True), {})
    found = made_up(replace(plan)).at(40, 256)
    assert found is not None and found.sequences == 8
    assert made_up(plan).at(12) is None
