"""Sweeps: what a file may say, which trials are chosen, what comes of them, and what mattered."""

import json
import random
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicekit import sweeps
from slicekit.engines import Answer, Engine, Job, Order
from slicekit.studies.grid import GridWatcher, Standing
from slicekit.studies.one_run import RESULTS, perform, write
from slicekit.studies.plans import Outcome, Plan
from slicekit.sweeps import Sweep, conduct_sweep, read_sweep
from slicekit.sweeps.effects import share
from slicekit.sweeps.searches import Search
from slicekit.sweeps.sweep import DEFAULTS
from slicekit.training import Diverged

TABLE: dict[str, Any] = {
    "task": "parity",
    "model": "bd-slice",
    "task_options": {"validation_lengths": [10, 20]},
    "training": {"steps": 4, "batch": 4, "lengths": [3, 8]},
    "space": {
        "training": {"rate": {"low": 1e-3, "high": 1e-1, "log": True, "count": 3}},
        "sizes": {"dim": [8, 12], "block": [4, 8]},
    },
}


def made(**changes: Any) -> Sweep:
    return Sweep(DEFAULTS | TABLE | changes)


class Imagined(Engine):
    """An engine that trains nothing: accuracies are a function of the plan."""

    shared, at_once = False, 2

    def __init__(self, accuracy: Any) -> None:
        self.accuracy, self.done = accuracy, list[str]()

    def open(self, folder: Path) -> None: ...

    def start(self, order: Order) -> Job:
        plan = Plan.from_dict(order["plan"])
        self.done.append(plan.name)
        found = self.accuracy(plan)
        if isinstance(found, str):
            return Ended(Answer(found))
        outcome = Outcome(plan, 100, plan.settings.steps, "steps", found, 2, (), 1.0)
        if found is None:
            outcome = replace(outcome, reason="diverged", steps=1)
        Path(order["folder"]).mkdir(parents=True, exist_ok=True)
        write(outcome, Path(order["folder"]))
        return Ended(Answer())

    def close(self) -> None: ...


class Ended(Job):
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def answer(self) -> Answer:
        return self._answer


def by_rate(plan: Plan) -> float:
    """Best at a rate of 0.01, whatever else."""
    return 1 - abs(plan.settings.rate - 0.01) - 0.001 * plan.settings.seed


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slicekit.studies.grid.PAUSE", 0.0)


def test_a_grid_is_every_combination_and_what_does_not_fit_is_said(tmp_path: Path) -> None:
    found = conduct_sweep(made(), tmp_path, engine=Imagined(by_rate))
    assert len(found.trials) == 3 * 2 * 2
    assert {trial.draw["training.rate"] for trial in found.trials} == {0.001, 0.01, 0.1}
    unfit = [trial for trial in found.trials if trial.fault is not None]
    assert {(x.draw["sizes.dim"], x.draw["sizes.block"]) for x in unfit} == {(12, 8)}
    assert all("block=8 does not divide dim=12" in (x.fault or "") for x in unfit)
    assert found.best is not None and found.best.draw["training.rate"] == 0.01


def test_results_are_a_table_a_picture_and_a_configuration(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = conduct_sweep(made(seeds=[0, 1]), tmp_path, engine=Imagined(by_rate))
    assert found.written and found.best is not None
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["best"] == found.best.number
    assert results["trials"][found.best.number]["score"] == pytest.approx(0.9995)
    assert results["mattered"]["training.rate"]["explains"] > 0.9
    assert results["mattered"]["sizes.dim"]["explains"] == 0
    text = (tmp_path / "results.md").read_text()
    for expected in ("What mattered", "| rate ", "0.01: 99.95", "mean over 2 seeds", "why"):
        assert expected in text
    assert (tmp_path / "results.png").read_bytes().startswith(b"\x89PNG")
    best = tomllib.loads((tmp_path / "best.toml").read_text())
    assert best["task"] == "parity" and best["training"]["rate"] == 0.01
    assert best["model"].startswith("bd-slice:dim=") and best["training"]["steps"] == 4


def test_done_again_it_keeps_what_is_finished_and_more_seeds_add_to_it(tmp_path: Path) -> None:
    first, again, more = (Imagined(by_rate) for _ in range(3))
    conduct_sweep(made(), tmp_path, engine=first)
    before = (tmp_path / "results.json").read_bytes()
    conduct_sweep(made(), tmp_path, engine=again)
    assert not again.done and (tmp_path / "results.json").read_bytes() == before
    conduct_sweep(made(seeds=[0, 3]), tmp_path, engine=more)
    assert {name.rpartition("/")[2] for name in more.done} == {"seed-3"}


def test_another_sweep_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    conduct_sweep(made(), tmp_path, engine=Imagined(by_rate))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    other = made(training=TABLE["training"] | {"steps": 5})
    with pytest.raises(ValueError, match=f"{tmp_path} holds a sweep with training = .*--out"):
        conduct_sweep(other, tmp_path, engine=Imagined(by_rate))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    (tmp_path / "sweep.json").unlink()
    with pytest.raises(ValueError, match="holds something, but no sweep"):
        conduct_sweep(made(), tmp_path, engine=Imagined(by_rate))


def test_damaged_trials_are_named_and_left_as_they_are(tmp_path: Path) -> None:
    conduct_sweep(made(), tmp_path, engine=Imagined(by_rate))
    for content in ('[{"training.rate"', "{}", '[{"training.rate": 1}]', "[" * 100_000):
        (tmp_path / "trials.json").write_text(content)
        with pytest.raises(ValueError, match=r"trials.json is damaged"):
            conduct_sweep(made(), tmp_path, engine=Imagined(by_rate))
        assert (tmp_path / "trials.json").read_text() == content


def test_a_trial_that_diverges_or_fails_never_wins(tmp_path: Path) -> None:
    def accuracy(plan: Plan) -> float | str | None:
        if plan.settings.rate == 0.01:
            return None if plan.model.endswith("block=4") else "OSError: the disk is full"
        return by_rate(plan)

    found = conduct_sweep(made(), tmp_path, engine=Imagined(accuracy))
    assert found.best is not None and found.best.draw["training.rate"] == 0.001
    faults = {trial.fault for trial in found.trials if trial.draw["training.rate"] == 0.01}
    assert {"diverged after 1 steps, seed 0", "OSError: the disk is full"} <= faults
    assert set(found.standing.failures.values()) == {"OSError: the disk is full"}


def test_random_trials_are_the_same_each_time_and_more_of_them_add_to_these() -> None:
    few, many = (Search(made(search="random", trials=n)) for n in (5, 50))
    draws = [many.propose(n, []) for n in range(50)]
    assert [few.propose(n, []) for n in range(5)] == draws[:5]
    rates = [draw["training.rate"] for draw in draws]
    assert all(1e-3 <= rate <= 1e-1 for rate in rates) and len(set(rates)) > 40
    assert 10 < sum(rate < 1e-2 for rate in rates) < 40, "as many below the middle as above"
    other = Search(made(search="random", trials=5, seed=1))
    assert other.propose(0, []) != draws[0]


class Interrupt(GridWatcher):
    """As Ctrl-C does, after so many runs."""

    def __init__(self, after: int) -> None:
        self.left = after

    def finished(self, outcome: Outcome, kept: bool) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_optuna_finds_what_is_best_and_goes_on_as_if_not_interrupted(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    space = {
        "training": {
            "rate": {"low": 1e-4, "high": 1.0, "log": True},
            "betas": [[0.9, 0.999], [0.8, 0.9]],
        },
        "layers": {"low": 1, "high": 8},
    }
    sweep = made(search="tpe", trials=25, space=space)
    engine = Imagined(by_rate)
    engine.at_once = 1
    whole = conduct_sweep(sweep, tmp_path / "whole", engine=engine)
    assert len(whole.trials) == 25 and whole.best is not None
    assert abs(whole.best.draw["training.rate"] - 0.01) < 0.01
    late = [trial.draw["training.rate"] for trial in whole.trials[15:]]
    assert sum(1e-3 < rate < 1e-1 for rate in late) >= 6, "it looks where it was good"

    parted = tmp_path / "parted"
    with pytest.raises(KeyboardInterrupt):
        conduct_sweep(sweep, parted, engine=engine, watch=Interrupt(13))
    conduct_sweep(sweep, parted, engine=engine)
    assert (parted / "results.json").read_bytes() == (
        tmp_path / "whole" / "results.json"
    ).read_bytes()


def test_optuna_chooses_no_more_than_run_at_a_time_and_failures_do_not_stop_it(
    tmp_path: Path,
) -> None:
    pytest.importorskip("optuna")
    most = 0

    class Count(GridWatcher):
        def moved(self, standing: Standing) -> None:
            nonlocal most
            most = max(most, len(standing.plans) - len(standing.outcomes) - len(standing.failures))

    engine = Imagined(lambda plan: "OSError: no" if plan.settings.rate < 0.02 else 0.5)
    found = conduct_sweep(made(search="tpe", trials=8), tmp_path, engine=engine, watch=Count())
    assert len(found.trials) == 8 and most <= engine.at_once
    assert found.standing.failures


def test_a_missing_optuna_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(ImportError, match=r"optuna.*pip install 'slicekit\[sweep\]'"):
        conduct_sweep(made(search="tpe", trials=2), tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_a_trial_is_trained_and_no_test_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a test set was looked at")

    monkeypatch.setattr("slicekit.studies.one_run._drawn", refuse)
    monkeypatch.setattr("slicekit.studies.one_run._whole", refuse)
    (plan,) = made().plans(0, {"training.rate": 0.01, "sizes.dim": 8, "sizes.block": 4})
    outcome = perform(plan, tmp_path)
    assert outcome.steps == 4 and outcome.tested == () and outcome.best_accuracy is not None
    assert Outcome.from_dict(json.loads((tmp_path / RESULTS).read_text())["study"]) == outcome


def test_numbers_that_are_no_longer_finite_are_an_outcome_of_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan,) = made().plans(0, {"training.rate": 0.01, "sizes.dim": 8, "sizes.block": 4})
    perform(plan, tmp_path)

    def diverge(*_: Any, **__: Any) -> None:
        raise Diverged(3, "the loss is nan")

    monkeypatch.setattr("slicekit.studies.one_run.train", diverge)
    outcome = perform(plan, tmp_path)
    assert (outcome.reason, outcome.steps) == ("diverged", 2)
    with pytest.raises(Diverged):
        perform(replace(plan, trial=False), tmp_path / "study")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("task = 1", "task = 1; expected text"),
        ("", "task = None; expected text"),
        ('task = "partiy"', "did you mean 'parity'"),
        ('task = "own.py:make"', "is a place in code, which a sweep does not run"),
        ('task = "a5"', r"\[space\] is empty"),
        ('task = "a5"\nmodle = "x"', "unknown key 'modle', did you mean 'model'"),
        ('task = "a5"\nrate = 1', r"rate is a setting, so it belongs below \[training\]"),
        ('task = "a5"\nsearch = "tpe"', "search = 'tpe' needs a number of trials"),
        ('task = "a5"\ntrials = 3', "search = 'grid' tries all; expected no trials"),
        ('task = "a5"\nsearch = "rand"', "did you mean 'random'"),
        ('task = "a5"\nseeds = []', r"seeds = \[\]; expected a list"),
        ('task = "a5"\nseeds = [1, 1]', r"seeds = \[1, 1\]; expected none twice"),
        ('task = "a5"\n[space]\nsizes = {dim=[1,2]}\nmodel = 3', "model = 3; expected a list"),
        ('task = "a5"\n[training]\nstep = 1', "unknown setting 'step', did you mean 'steps'"),
        ('task = "a5"\n[training]\nsteps = 0', "steps=0; expected at least 1"),
        ('task = "a5"\n[training]\nseed = 0', "seed is what `seeds` says"),
        ('task = "a5"\n[space]\nrate = [1, 2]', r"belongs below \[space.training\]"),
        ('task = "a5"\n[space]\nmodel = ["x", "y"]', "unknown model 'x'"),
        ('task = "a5"\n[space]\nrecipe = ["fast", "slow"]', "unknown recipe 'slow'"),
        ('task = "a5"\n[space]\nlayers = 2', "layers = 2; expected a list of values or a table"),
        ('task = "a5"\n[space]\nlayers = [2]', "expected two or more different values"),
        ('task = "a5"\n[space]\nlayers = [2, 2]', "expected two or more different values"),
        ('task = "a5"\n[space.sizes]\ndmi = [1, 2]', "did you mean 'dim'"),
        ('task = "a5"\n[space.training]\nrate = [0, 1]', "expected a number in"),
        ('task = "a5"\n[space.training]\nrate = {low=2,high=1}', "expected low < high"),
        ('task = "a5"\n[space.training]\nrate = {low=1}', "high = None; expected a number"),
        ('task = "a5"\n[space.training]\nrate = {low=1,hihg=2}', "has 'hihg'; expected low, high"),
        (
            'task = "a5"\n[space.training]\ndecay = {low=0,high=1,log=true}',
            "expected more than 0 with log",
        ),
        (
            'task = "a5"\n[space.training]\nrate = {low=0.1,high=1,step=2}',
            "step is for ranges of integers",
        ),
        (
            'task = "a5"\n[training]\nrate = 1\n[space.training]\nrate = [1, 2]',
            r"stands in \[training\] too",
        ),
        ("task = ", "is no TOML"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_that_names_it(
    text: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=expected) as raised:
        read_sweep(path)
    assert str(raised.value).startswith(str(path)) and "\n" not in str(raised.value)


def test_a_grid_needs_counts_and_has_an_end(tmp_path: Path) -> None:
    rates = {"training": {"rate": {"low": 0.1, "high": 1.0}}}
    with pytest.raises(ValueError, match=r"training\.rate: a grid needs to know how many points"):
        conduct_sweep(made(space=rates), tmp_path / "sweep")
    sizes = {"layers": {"low": 1, "high": 200, "count": 200}}
    large = sizes | {"training": {"steps": {"low": 1, "high": 200, "count": 200}}}
    with pytest.raises(ValueError, match="the grid has 40,000 points; expected at most 10,000"):
        conduct_sweep(made(space=large, training={}), tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_a_setting_that_does_nothing_explains_nothing_on_average() -> None:
    source, shares = random.Random(0), list[float]()
    for _ in range(300):
        groups = [n % 4 for n in range(24)]
        shares.append(share(groups, [source.gauss(0, 1) for _ in groups]))
    assert sum(shares) / len(shares) < 0.06
    scores = [(n % 4) + source.gauss(0, 1) for n in range(4000)]
    expected = 1.25 / (1.25 + 1)  # the variance of 0, 1, 2, 3 beside that of the noise
    assert share([n % 4 for n in range(4000)], scores) == pytest.approx(expected, abs=0.03)


def test_the_room_s_names_are_these() -> None:
    assert sorted(sweeps.__all__) == [
        "Found",
        "Sweep",
        "Trial",
        "conduct_sweep",
        "read_sweep",
        "tables",
    ]
