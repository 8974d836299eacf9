"""Grids of runs: killed and started again, damaged, failing, and kept."""

import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slicekit.engines import Answer, Engine, Local, Order, local
from slicekit.engines.base import Job
from slicekit.engines.workers import Worker, command
from slicekit.locks import InUse, writing
from slicekit.studies import Choice, GridWatcher, Outcome, Standing, conduct, make
from slicekit.studies.budgets import Budget, seconds_of
from slicekit.studies.one_run import RESULTS, finished, perform
from slicekit.studies.plans import Test
from slicekit.studies.worker import LOCK, LOG, _do
from slicekit.training import RunFolder
from slicekit.training.checkpoints import list_checkpoints

STUDY = make("a5-lengths")
CHOICE = Choice(models=("orthogonal-slice", "de-lncde"), steps=10, batch=8, quick=True)
FIRST, SECOND = (plan.name for plan in STUDY.wanted(CHOICE, {}))


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Notes(GridWatcher):
    def __init__(self) -> None:
        self.kept: list[str] = []
        self.done: list[str] = []
        self.faults: dict[str, str] = {}

    def finished(self, outcome: Outcome, kept: bool) -> None:
        (self.kept if kept else self.done).append(outcome.plan.name)

    def failed(self, name: str, why: str) -> None:
        self.faults[name] = why


class Written(Notes):
    """Also notes which runs the results hold, whenever time has passed."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path, self.seen = folder / "results.json", [[]]

    def moved(self, standing: Standing) -> None:
        if self.path.exists():
            runs = json.loads(self.path.read_text())["runs"]
            names = [run["plan"]["name"] for run in runs]
            self.seen += [names] if names != self.seen[-1] else []


class InterruptSecond(GridWatcher):
    """As Ctrl-C does, in the middle of the second run."""

    def moved(self, standing: Standing) -> None:
        if standing.steps.get(SECOND, 0) > 2:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    notes = Written(folder)
    standing = conduct(STUDY, CHOICE, folder, watch=notes)
    assert notes.done == [FIRST, SECOND] and not notes.kept and not notes.faults
    assert notes.seen == [[], [FIRST]], "written after the first run, before the second ends"
    assert not standing.unfinished
    assert standing.share() == 1 and standing.seconds_left() == 0
    return folder


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "study"))


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(local, "Worker", refuse)


def test_results_hold_every_run_and_nothing_that_differs_from_time_to_time(whole: Path) -> None:
    results = json.loads((whole / "results.json").read_text())
    assert results["study"] == "a5-lengths" and results["failures"] == {}
    assert [run["plan"]["name"] for run in results["runs"]] == [FIRST, SECOND]
    assert [run["steps"] for run in results["runs"]] == [10, 10]
    assert [x["low"] for x in results["runs"][0]["tested"]] == [20, 40, 80]
    assert not results["runs"][0].keys() & {"seconds", "memory", "processor", "version"}
    told = json.loads((whole / "runs" / FIRST / RESULTS).read_text())["study"]
    assert told["processor"] and told["version"] and told["seconds"] > 0
    if sys.platform == "linux":
        assert told["memory"] > 2**26, "torch alone is larger"
    table = (whole / "results.md").read_text()
    every = "### Quick look, no result: Every run"
    for expected in ("| orthogonal-slice", "| mean", "paper: lstm", every, "seconds"):
        assert expected in table


def test_interrupted_and_resumed_it_comes_to_the_same_results(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        conduct(STUDY, CHOICE, tmp_path, watch=InterruptSecond())
    assert not (tmp_path / "runs" / SECOND / RESULTS).exists()
    notes = Notes()
    conduct(STUDY, CHOICE, tmp_path, processes=2, watch=notes)
    assert notes.kept == [FIRST] and notes.done == [SECOND]
    assert (tmp_path / "results.json").read_bytes() == (whole / "results.json").read_bytes()


@pytest.mark.usefixtures("no_workers")
def test_finished_runs_are_kept(whole: Path, copy: Path) -> None:
    (copy / "results.json").unlink()
    notes = Notes()
    conduct(STUDY, CHOICE, copy, watch=notes)
    assert notes.kept == [FIRST, SECOND]
    assert (copy / "results.json").read_bytes() == (whole / "results.json").read_bytes()


@pytest.mark.usefixtures("no_workers")
def test_damaged_results_are_named_and_left_as_they_are(copy: Path) -> None:
    path = copy / "runs" / FIRST / RESULTS
    path.write_text('{"study": {"plan"')
    for name in ("results.json", "results.md"):
        (copy / name).unlink()
    standing = conduct(STUDY, CHOICE, copy)
    assert list(standing.failures) == [FIRST] and list(standing.outcomes) == [SECOND]
    assert str(path) in standing.failures[FIRST] and "damaged" in standing.failures[FIRST]
    assert path.read_text() == '{"study": {"plan"'
    assert f"{FIRST} failed" in (copy / "results.md").read_text()


@pytest.mark.usefixtures("no_workers")
def test_other_settings_in_the_same_folder_are_refused(copy: Path) -> None:
    before = contents(copy)
    standing = conduct(STUDY, replace(CHOICE, steps=40), copy)
    assert list(standing.failures) == [FIRST, SECOND] and not standing.written
    for why in standing.failures.values():
        assert "=" in why and "choose another folder" in why
    assert contents(copy) == before, "a study that failed touches nothing that was there"


@pytest.mark.usefixtures("no_workers")
def test_a_quick_look_and_a_study_and_two_studies_have_folders_of_their_own(copy: Path) -> None:
    before = contents(copy)
    for other, choice in ((STUDY, replace(CHOICE, quick=False)), (make("languages"), CHOICE)):
        with pytest.raises(ValueError, match=f"{copy} holds a quick look at a5-lengths; expected"):
            conduct(other, choice, copy)
    assert contents(copy) == before
    (copy / "study.json").unlink()  # a study of before there was that file
    with pytest.raises(ValueError, match=f"{copy} holds a quick look at a5-lengths; expected"):
        conduct(STUDY, replace(CHOICE, quick=False), copy)


@pytest.mark.usefixtures("no_workers")
def test_another_choice_of_models_leaves_every_row_where_it_was(copy: Path) -> None:
    whole = {name: (copy / name).read_bytes() for name in ("results.json", "results.md")}
    for model in ("de-lncde", "orthogonal-slice"):
        conduct(STUDY, replace(CHOICE, models=(model,)), copy)
        assert whole == {name: (copy / name).read_bytes() for name in whole}
    shutil.rmtree(copy / "runs" / FIRST)
    conduct(STUDY, replace(CHOICE, models=("de-lncde",)), copy)
    assert (copy / "results.json").read_bytes() == whole["results.json"]
    assert "| orthogonal-slice/seed-0 | " in (copy / "results.md").read_text()


def test_other_lengths_and_models_add_to_the_tables(copy: Path) -> None:
    more = replace(CHOICE, models=("bd-slice", "de-lncde"), lengths=(10, 20))
    conduct(STUDY, more, copy)
    text = (copy / "results.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    cells = {(row[1].strip(), row[2].strip()): [x.strip() for x in row[3:8]] for row in rows}
    assert cells["model", "seed"] == ["steps", "10", "20", "40", "80"]
    assert cells["orthogonal-slice", "0"][1] == "-" and "/" in cells["orthogonal-slice", "0"][3]
    assert all("/" in cell for cell in cells["de-lncde", "0"][1:]), "tested before, and now"
    assert "/" in cells["bd-slice", "0"][1] and cells["bd-slice", "0"][3] == "-"
    assert cells["de-lncde", "0"][0] == "10" and cells["paper: mamba", "-"][0] == "100,000"
    assert "Quick look, no result" in text


@pytest.mark.usefixtures("no_workers")
def test_damaged_results_of_the_study_are_named_before_anything_is_done(copy: Path) -> None:
    (copy / "results.json").write_text("[")
    with pytest.raises(ValueError, match=f"{copy / 'results.json'} is damaged"):
        conduct(STUDY, CHOICE, copy)
    assert (copy / "results.json").read_text() == "["


def test_a_run_that_fails_is_reported_and_loses_no_other(copy: Path) -> None:
    folder = RunFolder(copy / "runs" / FIRST)
    (folder.path / RESULTS).unlink()
    (copy / "runs" / SECOND / RESULTS).unlink()
    newest = list_checkpoints(folder.checkpoints)[-1]
    newest.write_bytes(newest.read_bytes()[:100])
    standing = conduct(STUDY, CHOICE, copy)
    assert list(standing.outcomes) == [SECOND]
    assert newest.name in standing.failures[FIRST]
    assert "damaged or truncated" in standing.failures[FIRST]
    assert "Traceback" in (folder.path / "study.log").read_text()


def test_other_tests_of_a_finished_run_need_no_training(copy: Path) -> None:
    (plan, _) = STUDY.wanted(CHOICE, {})
    more = replace(plan, tests=(*plan.tests, Test(10, 20, 4)))
    folder = copy / "runs" / FIRST
    before = finished(plan, folder)
    assert before is not None and finished(more, folder) is None
    after = perform(more, folder)
    assert after.tested[:-1] == before.tested
    assert (after.steps, after.best_accuracy) == (before.steps, before.best_accuracy)
    assert finished(more, folder) == after


def test_results_of_the_command_evaluate_do_not_count_as_a_study_s(copy: Path) -> None:
    (plan, _) = STUDY.wanted(CHOICE, {})
    path = copy / "runs" / FIRST / RESULTS
    stored = json.loads(path.read_text())
    assert [score["length"] for score in stored["scores"]] == [20, 40, 80]
    del stored["study"]
    path.write_text(json.dumps(stored))
    assert finished(plan, path.parent) is None


def test_a_process_that_dies_is_a_failure_of_its_run(tmp_path: Path) -> None:
    (plan, _) = STUDY.wanted(CHOICE, {})
    worker = Worker()
    worker.stop()
    order = {"plan": plan.as_dict(), "folder": str(tmp_path)}
    assert worker.do(order) == Answer("its process ended by signal 9", lost=True)
    assert not worker.alive() and Local().tries == 1


@pytest.mark.parametrize("own", [None, "ACTIVE"])
def test_threads_of_a_worker_sleep_while_they_wait_unless_the_user_has_chosen(
    own: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if own is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", own)
    given: dict[str, str] = {}
    monkeypatch.setattr(subprocess, "Popen", lambda *_, env, **__: given.update(env))
    Worker()
    assert (given["OMP_WAIT_POLICY"], given["OMP_NUM_THREADS"]) == (own or "PASSIVE", "1")


def test_a_worker_ends_with_the_study_in_the_middle_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And until then it imports nothing from the folder it is started in, whoever filled that."""
    for name in ("json", "queue", "torch", "slicekit"):
        (tmp_path / f"{name}.py").write_text("open('was-run', 'w')")
    monkeypatch.chdir(tmp_path)
    (plan, _) = STUDY.wanted(replace(CHOICE, steps=100_000), {})
    folder = RunFolder(tmp_path / "run")
    process = subprocess.Popen(
        command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    print(json.dumps({"plan": plan.as_dict(), "folder": str(folder.path)}), file=process.stdin)
    process.stdin.flush()
    while not folder.metrics.exists() and process.poll() is None:
        time.sleep(0.05)
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    assert process.stdout.read() == "" and not folder.model.exists()
    assert not (tmp_path / "was-run").exists()


STUDY_PROCESS = """
import subprocess, sys
from slicekit.engines import workers
worker = subprocess.Popen(workers.command(), stdin=sys.stdin)
print(worker.pid, flush=True)
worker.wait()
"""


def running(process: int) -> bool:
    """Whether a process is there, and no mere entry that its parent has yet to read."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="others notice the end of their input")
def test_a_worker_ends_with_a_killed_study_while_it_is_still_importing() -> None:
    """Its input stays open, as this process holds it: only the system can tell it."""
    with subprocess.Popen(
        [sys.executable, "-c", STUDY_PROCESS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert running(worker)
        parent.kill()
        parent.wait()
        for _ in range(400):
            if not running(worker):
                break
            time.sleep(0.05)
        assert not running(worker)


def test_a_run_that_another_worker_is_doing_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan, _) = STUDY.wanted(CHOICE, {})
    monkeypatch.setattr("slicekit.studies.worker.PATIENCE", 0.1)
    with writing(tmp_path, LOCK):
        (tmp_path / LOG).write_text("of the other")
        fault, lost = _do({"plan": plan.as_dict(), "folder": str(tmp_path)})
        assert lost and fault is not None and f"InUse: {tmp_path} is in use: process " in fault
        assert {path.name for path in tmp_path.iterdir()} == {LOCK, LOG}
        assert (tmp_path / LOG).read_text() == "of the other"


def test_a_folder_in_which_a_study_is_going_on_is_refused(copy: Path) -> None:
    with writing(copy), pytest.raises(InUse, match=f"{copy} is in use: process "):
        conduct(STUDY, CHOICE, copy)


def test_time_left_is_told_by_the_same_model() -> None:
    first, second = STUDY.wanted(replace(CHOICE, steps=100), {})
    others = [replace(plan, name=f"{plan.name}-again") for plan in (first, second)]
    standing = Standing({plan.name: plan for plan in (first, second, *others)})
    assert standing.seconds_left() is None and standing.share() == 0
    standing.running = [first.name, second.name]
    standing.steps, standing.seconds = {first.name: 50, second.name: 10}, {}
    standing.seconds = {first.name: 5.0, second.name: 10.0}
    assert standing.seconds_left() == pytest.approx(50 * 0.1 + 90 * 1 + 100 * 0.1 + 100 * 1)
    standing.processes = 2
    assert standing.seconds_left() == pytest.approx((5 + 90 + 10 + 100) / 2)
    assert standing.share() == pytest.approx(60 / 400)


def test_a_run_that_ended_early_tells_that_others_will() -> None:
    first, second = STUDY.wanted(replace(CHOICE, steps=100), {})
    alike, other = (replace(plan, name=f"{plan.name}-again") for plan in (first, second))
    standing = Standing({plan.name: plan for plan in (first, alike, other)})
    assert standing.expected(alike) is None
    early = Outcome(first, 1, 10, "stop_at", 1.0, 10, (), 30.0)
    standing.outcomes[first.name] = early
    assert standing.expected(alike) == pytest.approx(30)
    assert standing.expected(other) == pytest.approx(30), "of another model nothing better is known"
    standing.note(alike.name, 75, 3.0)
    assert standing.expected(alike) == pytest.approx(25 * (0.3 + 0.04) / 2), "what is left of it"
    standing.outcomes = {first.name: replace(early, seconds=float("nan"))}
    assert standing.expected(alike) == pytest.approx(25 * 0.04), "not by times that no one knows"


@pytest.mark.usefixtures("no_workers")
def test_no_run_is_begun_that_would_pass_the_budget(copy: Path) -> None:
    (copy / "runs" / SECOND / RESULTS).unlink()
    RunFolder(copy / "runs" / SECOND).metrics.unlink()
    standing = conduct(STUDY, CHOICE, copy, budget=0)
    assert list(standing.outcomes) == [FIRST] and not standing.running and standing.written
    assert [plan.name for plan in standing.unfinished] == [SECOND]
    path = copy / "runs" / FIRST / RESULTS
    stored = json.loads(path.read_text())
    stored["study"]["seconds"] = 1e6
    path.write_text(json.dumps(stored))
    standing = conduct(STUDY, CHOICE, copy, budget=1e5)
    assert [plan.name for plan in standing.unfinished] == [SECOND] and not standing.failures


class Endless(Engine):
    """Runs go on for ever, and end with it."""

    shared, at_once = False, 1

    def __init__(self) -> None:
        self.orders: list[Order] = []

    def open(self, folder: Path) -> None:
        pass

    def start(self, order: Order) -> Job:
        self.orders.append(order)
        return Going()

    def close(self) -> None:
        self.orders.clear()


class Going(Job):
    def answer(self) -> None:
        return None


def test_runs_that_pass_the_budget_are_stopped_and_left_for_another_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Endless()
    monkeypatch.setattr(Budget, "over", property(lambda self: len(engine.orders) > 0))
    standing = conduct(STUDY, CHOICE, tmp_path / "study", engine=engine, budget=1e6)
    assert standing.running == [FIRST] and not engine.orders
    assert [plan.name for plan in standing.waiting] == [SECOND]
    assert not standing.outcomes and not standing.failures and not standing.written


@pytest.mark.parametrize("budget", ["", "8", "h", "-1h", "8 h", "1s2m"])
def test_a_budget_that_is_no_time_is_refused(budget: str) -> None:
    with pytest.raises(ValueError, match=f"budget='{budget}'; expected hours, minutes or seconds"):
        seconds_of(budget)
