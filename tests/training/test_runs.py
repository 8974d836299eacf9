"""Runs on disk: read, listed, and never a reason to fail."""

import json
from pathlib import Path

import pytest

from slicekit.training import Report, RunFolder, Settings, list_runs, read_run, train
from tests.training.small import EVERYTHING, Parity, StopAfter, small_model


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, one that was interrupted, one that is damaged, and a folder without one."""
    root = tmp_path_factory.mktemp("runs")
    train(small_model(), Parity(), EVERYTHING, folder=root / "b", describe={"task": "parity"})
    with pytest.raises(KeyboardInterrupt):
        train(small_model(), Parity(), EVERYTHING, folder=root / "in" / "a", watch=StopAfter(13))
    (root / "damaged").mkdir()
    (root / "damaged" / "config.toml").write_text("training = [")
    (root / "else").mkdir()
    return root


def test_runs_are_listed_also_those_that_cannot_be_read(root: Path) -> None:
    runs = {str(run.folder.relative_to(root)): run for run in list_runs(root)}
    assert list(runs) == ["b", "damaged", "in/a"]
    assert runs["damaged"].fault is not None and "config.toml is no TOML" in runs["damaged"].fault
    assert [run.finished for run in runs.values()] == [True, False, False]
    assert (runs["b"].step, runs["in/a"].step) == (40, 12)


def test_a_run_tells_its_configuration_and_its_figures(root: Path) -> None:
    run = read_run(root / "b")
    assert run.config["task"] == "parity"
    assert Settings.from_table(run.config["training"]) == EVERYTHING
    assert [x["step"] for x in run.validations] == [7, 14, 21, 28, 35, 40]
    assert run.seconds > 0 and len(run.training) + len(run.validations) == len(run.records)
    best = max(x["accuracy"] for x in run.validations)
    last = max(x["step"] for x in run.validations if x["accuracy"] == best)
    assert run.best is not None and (run.best["accuracy"], run.best["step"]) == (best, last)


def test_a_run_without_a_record_has_none(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").open(Settings(), None)
    run = read_run(tmp_path / "run")
    assert (run.step, run.seconds, run.best, run.records) == (0, 0.0, None, ())


def test_a_line_that_is_being_written_is_left_out(root: Path, tmp_path: Path) -> None:
    RunFolder(tmp_path).open(Settings(), None)
    line = (root / "b" / "metrics.jsonl").read_text().splitlines()[0]
    (tmp_path / "metrics.jsonl").write_text(f"{line}\n{line[:20]}")
    assert len(read_run(tmp_path).records) == 1


RECORD = Report(5, "train", 0.5, 0.5, 1e-3, 20, 1.5, 1e4).as_record()
NO_RECORDS: dict[str, object] = {
    "a list": [1],
    "nothing": {},
    "a step alone": {"step": 1},
    **{f"step {x!r}": RECORD | {"step": x} for x in ("5", True, 1.5, -1, 10**30, None)},
    **{f"loss {x!r:.9}": RECORD | {"loss": x} for x in ("x", [0.5], 10**400)},
    **{f"kind {x!r}": RECORD | {"kind": x} for x in ("other", ["train"], None)},
}


@pytest.mark.parametrize("name", ["nonsense", *NO_RECORDS])
def test_a_damaged_line_is_named(tmp_path: Path, name: str) -> None:
    RunFolder(tmp_path).open(Settings(), None)
    line = json.dumps(NO_RECORDS[name]) if name in NO_RECORDS else name
    (tmp_path / "metrics.jsonl").write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"metrics.jsonl, line 1 is no record"):
        read_run(tmp_path)


def test_what_is_no_run_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder"):
        read_run(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="no folder"):
        list_runs(tmp_path / "none")
    with pytest.raises(ValueError, match=r"holds no run: there is no config.toml"):
        read_run(tmp_path)
    assert list_runs(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("training = [", "is no TOML"),
        ("task = 'a5'", r"has no table \[training\]"),
        ("training = 3", r"has no table \[training\]"),
        ("[training]\nstpes = 3", "unknown setting 'stpes', did you mean 'steps'"),
        ("[training]\nsteps = 'many'", "steps='many' is a str"),
    ],
)
def test_a_damaged_configuration_is_named_when_resumed(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "config.toml").write_text(content)
    with pytest.raises(ValueError, match=rf"config\.toml.*{message}"):
        train(small_model(), Parity(), folder=tmp_path, resume=True)
    assert (tmp_path / "config.toml").read_text() == content


def test_the_settings_have_a_table_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the settings' own table"):
        train(small_model(), Parity(), folder=tmp_path / "run", describe={"training": {}})
    assert not (tmp_path / "run").exists()


def test_a_folder_with_other_files_may_take_a_run(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    settings = Settings(steps=2, batch=4, validation_batches=1)
    train(small_model(), Parity(), settings, folder=tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert read_run(tmp_path).finished


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(OSError, match=f"could not write {tmp_path / 'run'}"):
        train(small_model(), Parity(), folder=tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"


def test_numbers_that_were_not_finite_are_no_best(tmp_path: Path) -> None:
    RunFolder(tmp_path).open(Settings(), None)
    lines = [RECORD | {"kind": "validation", "accuracy": x} for x in (None, 0.25, None)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(x)}\n" for x in lines))
    best = read_run(tmp_path).best
    assert best is not None and best["accuracy"] == 0.25
