"""The study of the UEA archive: what it wants, what it shows, and a tiny one from end to end."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

from slicekit import figures
from slicekit.studies import (
    Choice,
    Outcome,
    Plan,
    Study,
    classifiers,
    conduct,
    make,
    uea_paper,
    uea_robustness,
)
from slicekit.studies.classifiers import (
    BOTH,
    HYDRA,
    NAMES,
    OURS,
    ROCKET,
    WARPING,
    _Sample,
    warping_cost,
)
from slicekit.studies.line_ups import FIELDS
from slicekit.studies.one_run import finished, perform
from slicekit.studies.plans import Tested
from slicekit.studies.ranks import mean_ranks
from slicekit.studies.tables import runs_table
from slicekit.studies.uea_paper import PAPER, PAPERS_COSTS, PUBLISHED, SIZES
from slicekit.tasks.archive_task import on_disk
from slicekit.tasks.archives import Series
from slicekit.tasks.archives.places import load
from tests.tasks.archives_on_disk import TEST, write_archive

pytest.importorskip("sklearn")

NAME = "SelfRegulationSCP1"
PAPERS_AVERAGES = {"bd-slice": 64.0, "log-ncde": 64.3, "d-slice": 61.7, "s5": 61.8, "mamba": 58.6}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("data")
    write_archive(found)
    write_archive(found, "BasicMotions", range(12, 21))
    return found


@pytest.fixture
def choice(folder: Path) -> Choice:
    return Choice(data=str(folder))


def study() -> Study:
    return make("uea")


def done(plan: Plan, accuracy: float = 0.5) -> Outcome:
    """What would have come of a plan."""
    if plan.model == WARPING and plan.task == NAME:
        return Outcome(plan, 0, 0, "skipped", None, 0, (), 0.0)
    tested = (Tested(20, 20, TEST, accuracy, accuracy),)
    best = 0.75 if plan.model not in NAMES else None
    return Outcome(plan, 10, 1, "steps", best, 1, tested, 2.0, memory=300_000_000)


def test_the_papers_part_has_every_model_generator_and_seed(folder: Path) -> None:
    plans = study().wanted(Choice(parts=("paper",), data=str(folder)), {})
    assert len({plan.name for plan in plans}) == len(plans) == (11 * 2 + 3) * 5
    assert {plan.task for plan in plans} == {NAME}, "the only one of the paper's that is there"
    assert {plan.options["seed"] for plan in plans} == {2345, 3456, 4567, 5678, 6789}
    assert {plan.options["splits"] for plan in plans} == {"legacy", "partitionable"}
    fields = {plan.options["splits"] for plan in plans if plan.model in FIELDS}
    assert fields == {"legacy"}, "their steps take seconds"


@pytest.mark.usefixtures("aeon")
def test_all_parts_are_wanted_unless_some_are_named(choice: Choice) -> None:
    plans = study().wanted(choice, {})
    assert {plan.name.split("/")[0] for plan in plans} == {"paper", "default", "robustness"}
    sets = {plan.task for plan in plans if plan.name.startswith("default/")}
    assert sets == {NAME, "BasicMotions"}
    shares = {plan.options.get("dropped") for plan in plans if plan.name.startswith("robust")}
    assert shares == {0.0, 0.3, 0.5, 0.7}
    for plan in plans:
        assert Plan.from_dict(json.loads(json.dumps(plan.as_dict()))) == plan


def test_sets_models_seeds_and_steps_can_be_chosen(folder: Path) -> None:
    chosen = Choice(sets=("BasicMotions",), models=(OURS,), seeds=(7,), steps=30, data=str(folder))
    plans = study().wanted(chosen, {})
    assert {(plan.task, plan.model) for plan in plans} == {("BasicMotions", OURS)}
    assert {plan.settings.seed for plan in plans} == {7}
    paper = Choice(parts=("paper",), models=("d-slice",), steps=100, seeds=(4,), data=str(folder))
    plans = study().wanted(paper, {})
    assert {(x.options["seed"], x.settings.seed, x.settings.steps) for x in plans} == {
        (6789, 4, 100)
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": ("papers",)}, "unknown part 'papers', did you mean 'paper'"),
        ({"models": ("bd-slide",)}, "unknown model 'bd-slide', did you mean 'bd-slice'"),
        ({"sets": ("Heartbeat",)}, "no data set Heartbeat on the disk"),
        ({"parts": ("paper",), "seeds": (5,)}, "the paper has splits for 0 to 4 only"),
        ({"sets": ()}, "sets is empty"),
    ],
)
def test_bad_choices_are_named(options: dict, message: str, folder: Path) -> None:
    with pytest.raises(ValueError, match=message):
        study().wanted(Choice(**options, data=str(folder)), {})


def test_without_data_it_says_where_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"slicekit data"):
        study().wanted(Choice(data=str(tmp_path)), {})


@pytest.mark.usefixtures("aeon")
def test_tables_show_the_paper_beside_ours_and_what_was_skipped(choice: Choice) -> None:
    outcomes = [done(plan) for plan in study().wanted(choice, {})]
    tables = {table.title: table for table in study().tables(choice, outcomes)}
    means, seeds, default, dropped = tables.values()
    rows = {row[:2]: row[2:] for row in means.rows}
    rank = f"{(1 + len(rows) - len(PAPER) - len(PUBLISHED)) / 2:.1f}"  # all are alike
    assert means.columns[3:9] == tuple(SIZES)
    missing = ("-",) * 4
    costs = ("-", "2,000", "300")
    ours = ("1", *missing, "50.00 ± 0.00", "-", "50.00", rank, *costs)
    assert rows["bd-slice", "legacy"] == ours
    said = ("100,000", *PAPER["bd-slice"], "85.00", "2.5", "64.0", "68", "2,344")
    assert rows["paper: bd-slice", "-"] == said
    assert rows["published: LinOSS", "-"][-3:] == ("67.8", "-", "-")
    assert "no run on EigenWorms, EthanolConcentration, Heartbeat, MotorImagery" in means.note
    assert len(seeds.rows) == (11 * 2 + 3) * 5 and seeds.rows[0][2:] == (
        "2345",
        "1",
        "50.00 (75.00)",
    )
    rows = {row[0]: row[1:] for row in default.rows}
    assert rows[NAME][4] == "skipped" and rows["BasicMotions"][4] == "50.00"
    assert rows["mean of 1"][:5] == ("50.00",) * 5
    assert rows["mean rank of 1"][:5] == ("3.00",) * 5
    assert rows["mean of 2"][:5] == ("50.00",) * 4 + ("-",)
    assert rows["time of 2"][5:] == ("x 1.00",) * 4 + ("-",)
    assert dropped.columns[2:5] == ("0%", "30%", "50%")
    assert dropped.rows[-1] == ("mean of 2", NAMES[HYDRA], *("50.00",) * 4)
    for table in tables.values():
        assert all(len(row) == len(table.columns) for row in table.rows)


def test_ranks_are_shared_by_equals_and_drawn(tmp_path: Path) -> None:
    scores = {"a": {"x": 0.9, "y": 0.9, "z": 0.1}, "b": {"x": 0.5, "y": 0.4, "z": 0.6}}
    ranks = mean_ranks(scores)
    assert ranks is not None
    assert ranks.means == {"x": 1.75, "y": 2.25, "z": 2.0}
    assert ranks.critical == pytest.approx(2.343 * (3 * 4 / 12) ** 0.5)
    pytest.importorskip("matplotlib")
    made, axes = figures.figure(1, 5, 3)
    ranks.plot(axes[0])
    figures.write(made, tmp_path / "ranks.png")
    assert mean_ranks({}) is None


def test_tables_can_be_made_before_anything_is_finished(choice: Choice) -> None:
    assert study().tables(choice, [])


def test_a_picture_has_a_panel_for_each_part(choice: Choice, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    outcomes = [done(plan) for plan in study().wanted(choice, {})]
    study().plot(choice, outcomes, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_names_what_was_run_and_nothing_else(choice: Choice) -> None:
    pytest.importorskip("matplotlib")
    outcomes = [done(x) for x in study().wanted(choice, {}) if x.model == OURS]
    _, (axis,) = figures.figure(1, 6, 4)
    uea_robustness.plot(axis, [x for x in outcomes if x.plan.name.startswith("robustness/")])
    names = axis.get_legend_handles_labels()[1]
    assert names == [NAMES[OURS]] and "Rocket" not in axis.get_title()


@pytest.mark.parametrize(("name", "average"), PAPERS_AVERAGES.items())
def test_the_papers_averages_are_those_of_its_columns(name: str, average: float) -> None:
    own = [float(figure.split(" ± ")[0]) for figure in PAPER[name]]
    assert len(own) == len(SIZES) and sum(own) / 6 == pytest.approx(average, abs=0.6)


def test_circles_of_the_papers_figure_have_memory_as_area_and_time_as_place(choice: Choice) -> None:
    pytest.importorskip("matplotlib")
    plans = study().wanted(replace(choice, parts=("paper",), models=("bd-slice", "ncde")), {})
    _, (axis,) = figures.figure(1, 6, 4)
    uea_paper.plot_costs(axis, [done(plan, 0.25) for plan in plans])
    *papers, ours, field = axis.collections
    assert len(papers) == len(PAPERS_COSTS)
    assert ours.get_offsets().tolist() == field.get_offsets().tolist() == [[2000.0, 25.0]]
    assert ours.get_sizes()[0] / papers[0].get_sizes()[0] == pytest.approx(300 / 2344)


def test_a_model_without_runs_of_every_set_is_left_out_of_the_papers_figure(choice: Choice) -> None:
    pytest.importorskip("matplotlib")
    plans = study().wanted(replace(choice, parts=("paper",), models=("bd-slice", "d-slice")), {})
    elsewhere = [replace(x, task="Heartbeat") for x in plans if x.model == "bd-slice"]
    _, (axis,) = figures.figure(1, 6, 4)
    uea_paper.plot_costs(axis, [done(plan, 0.25) for plan in (*plans, *elsewhere)])
    named = [text.get_text() for text in axis.texts if text.get_color() != "grey"]
    assert named == ["bd-slice"] and "over 2 of the six" in axis.get_title()


def test_a_command_repeats_the_part_and_the_set_of_a_run(choice: Choice) -> None:
    plans = study().wanted(replace(choice, models=("bd-slice", OURS), seeds=(1,)), {})
    told = {plan.name.split("/")[0]: study().words(done(plan)) for plan in plans}
    assert told["paper"][:4] == ("--parts", "paper", "--sets", NAME)
    assert told["paper"][4:] == ("--steps", "500", "--batch", "32")
    assert told["default"][:3] == ("--parts", "default", "--sets") and len(told["default"]) == 4


def test_what_is_left_at_a_larger_share_is_left_at_a_smaller(folder: Path) -> None:
    series = load("BasicMotions", folder).train
    whole, some, few = (_Sample(series, dropped, seed=0) for dropped in (0.0, 0.3, 0.7))
    for case, length in enumerate(series.lengths.tolist()):
        assert whole.times[case].tolist() == list(range(length))
        assert set(few.times[case]) < set(some.times[case]) < set(whole.times[case])
        assert len(few.times[case]) == max(2, round(0.3 * length))
        kept = some.times[case]
        np.testing.assert_array_equal(some.observed()[case], whole.whole[case][:, kept])
        np.testing.assert_allclose(some.interpolated()[case][:, kept], some.observed()[case])
    again, other = (_Sample(series, 0.3, seed) for seed in (0, 1))
    assert all((a == b).all() for a, b in zip(again.times, some.times, strict=True))
    assert any((a != b).any() for a, b in zip(other.times, some.times, strict=True))


def test_series_with_time_stamps_keep_them() -> None:
    cases = [np.arange(4.0)[:, None], np.ones((2, 1))]
    stamps = [np.array([0.0, 1.0, 2.0, 9.0]), np.array([5.0, 7.0])]
    sample = _Sample(Series.of(cases, [0, 1], ("a", "b"), times=stamps), 0.0, seed=0)
    assert sample.stamped
    assert [x.tolist() for x in sample.clocks()] == [x.tolist() for x in stamps]
    np.testing.assert_allclose(sample.interpolated()[0], [[0, 2 + 1 / 7, 2 + 4 / 7, 3]], atol=1e-6)


def test_sets_of_the_users_own_are_found_and_those_of_numbers_left_out(tmp_path: Path) -> None:
    write_archive(tmp_path)
    head = "@problemName {}\n@univariate true\n{}\n@data\n"
    kinds = {
        "Mine": ("@classLabel true left right", ("left", "right")),
        "Prices": ("@targetLabel true", ("0.5", "1.5")),
    }
    for name, (line, answers) in kinds.items():
        (tmp_path / name).mkdir()
        rows = "".join(f"{i},{i * i % 7},{-i}:{answers[i % 2]}\n" for i in range(8))
        for part in ("TRAIN", "TEST"):
            (tmp_path / name / f"{name}_{part}.ts").write_text(head.format(name, line) + rows)
    (tmp_path / "Half_TRAIN.ts").write_text("cut off")
    np.savez(tmp_path / "one.npz", X=np.zeros((2, 3, 1)))
    (tmp_path / "text.npz").write_text("no arrays")
    assert on_disk(tmp_path) == [NAME, "Mine", "Prices"]
    chosen = Choice(parts=("default",), models=(OURS,), quick=True, data=str(tmp_path))
    plans = study().wanted(chosen, {})
    assert [plan.task for plan in plans] == [NAME, "Mine"]
    assert perform(plans[1], tmp_path / "unit").on_test_set is not None
    with pytest.raises(ValueError, match="Prices asks for numbers"):
        study().wanted(replace(chosen, sets=("Prices",)), {})


def test_warping_costs_pairs_times_cells_times_channels() -> None:
    one, two = [np.zeros((3, 100))] * 4, [np.zeros((3, 100))] * 5
    assert warping_cost(one, two) == 4 * 5 * 100 * 21 * 3


def test_a_fit_is_judged_by_the_archives_test_set_and_kept(folder: Path, tmp_path: Path) -> None:
    chosen = Choice(
        parts=("robustness",), sets=("BasicMotions",), models=(OURS,), quick=True, data=str(folder)
    )
    plan = study().wanted(chosen, {})[-1]
    assert plan.options["dropped"] == 0.7
    outcome = perform(plan, tmp_path / "unit")
    assert outcome.tested[0].sequences == TEST and outcome.parameters > 0
    assert finished(plan, tmp_path / "unit") == outcome
    opened = str(outcome.opened)
    assert datetime.fromisoformat(opened) <= datetime.now(UTC)
    assert opened in runs_table([outcome]).as_markdown()


class Nearest:
    """Stands for aeon's classifiers, which take minutes to compile: the nearest training series."""

    made: ClassVar[list["Nearest"]] = []

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.made.append(self)

    def fit(self, X: Any, y: np.ndarray) -> None:
        self.X, self.y = X, y

    def predict(self, X: Any) -> np.ndarray:
        distances = np.array([[self._distance(x, own) for own in self.X] for x in X])
        return self.y[distances.argmin(1)]

    def _distance(self, x: np.ndarray, own: np.ndarray) -> float:
        shared = min(x.shape[1], own.shape[1])
        return float(np.square(x[:, :shared] - own[:, :shared]).mean())


@pytest.fixture
def aeon(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Nearest]]:
    """aeon without its compiler."""
    names = {
        "convolution_based": ("MiniRocketClassifier", "MultiRocketHydraClassifier"),
        "distance_based": ("KNeighborsTimeSeriesClassifier",),
    }
    for package, kinds in names.items():
        module = ModuleType(f"aeon.classification.{package}")
        for kind in kinds:
            setattr(module, kind, Nearest)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for package in ("aeon", "aeon.classification"):
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    monkeypatch.setattr(classifiers, "installed", lambda model: True)
    classifiers._compile.cache_clear()
    monkeypatch.setattr(Nearest, "made", [])
    yield Nearest.made
    classifiers._compile.cache_clear()


@pytest.mark.parametrize("model", [ROCKET, BOTH, WARPING])
def test_references_are_fitted_and_judged(
    model: str, folder: Path, tmp_path: Path, aeon: list[Nearest]
) -> None:
    chosen = Choice(parts=("default",), models=(model,), seeds=(3,), data=str(folder))
    for plan in study().wanted(chosen, {}):
        outcome = perform(plan, tmp_path / plan.name)
        assert outcome.on_test_set is not None and outcome.on_test_set > 0.8
        last = aeon[-1]
        if model != WARPING:
            assert last.options == {"random_state": 3}
            assert isinstance(last.X, np.ndarray) and np.isfinite(last.X).all()
            assert last.X.shape[2] >= 9 + (model == BOTH), "filters of nine, of differences too"
        else:
            assert last.options["distance_params"] == {"window": 0.1}
            assert isinstance(last.X, list) == (plan.task == "BasicMotions"), "unequal lengths"
    assert len(aeon) == 3, "one of them to have it compiled, and one for each data set"


@pytest.mark.usefixtures("aeon")
def test_warping_that_costs_too_much_is_skipped(folder: Path, tmp_path: Path) -> None:
    chosen = Choice(parts=("default",), models=(WARPING,), sets=(NAME,), data=str(folder))
    (plan,) = study().wanted(chosen, {})
    plan.options["limit"] = 10.0
    outcome = perform(plan, tmp_path / "unit")
    assert outcome.reason == "skipped" and outcome.on_test_set is None
    assert finished(plan, tmp_path / "unit") == outcome


def test_a_study_is_done_and_kept(folder: Path, tmp_path: Path) -> None:
    chosen = Choice(
        models=("d-slice", OURS), sets=(NAME,), steps=4, batch=8, quick=True, data=str(folder)
    )
    standing = conduct(study(), chosen, tmp_path)
    assert not standing.failures and len(standing.outcomes) == 1 + 1 + 2
    before = (tmp_path / "results.json").read_bytes()
    text = (tmp_path / "results.md").read_text()
    for expected in ("| d-slice", "paper: mamba", "The default classifier", "dropped at random"):
        assert expected in text
    conduct(study(), chosen, tmp_path)
    assert (tmp_path / "results.json").read_bytes() == before
