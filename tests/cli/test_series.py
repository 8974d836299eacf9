"""The commands on an archive's data set: train, evaluate, resume and models."""

import json
import shutil
from pathlib import Path

import pytest

import slicekit
from slicekit import catalogue, tasks
from slicekit.training import RunFolder, evaluate
from tests.cli.calls import refuse, same_run, succeed
from tests.tasks.archives_on_disk import TEST, write_archive

NAME = "SelfRegulationSCP1"
TINY = ("--steps", "20", "--batch", "8", "--evaluate-every", "5", "--checkpoint-every", "10")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_archive(folder)
    return folder


@pytest.fixture(autouse=True)
def _data_folder(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEKIT_DATA", str(data))


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLICEKIT_DATA", str(data))
        shown = succeed("train", NAME, "--model", "bd-slice", *TINY, "--out", folder)
    assert "on 4 validation series" in shown
    return folder


def test_the_best_model_is_reported_on_the_whole_test_set(run: Path) -> None:
    shown = succeed("evaluate", run)
    assert "test accuracy" in shown and str(TEST) in shown and "best.safetensors" in shown
    stored = json.loads((run / "evaluation.json").read_text())
    expected = evaluate(slicekit.load(run / "best.safetensors"), tasks.make(NAME))
    assert [(x["sequences"], x["overall"]) for x in stored["scores"]] == [
        (TEST, expected[0].overall)
    ]
    last = json.loads(succeed("evaluate", run, "--checkpoint", "last", "--json"))
    assert last["model"] == "model.safetensors"


def test_a_finite_test_set_has_no_lengths_and_no_diagnosis(run: Path) -> None:
    for option in (("--lengths", "5"), ("--diagnose",)):
        line = refuse("evaluate", run, *option)
        assert f"{option[0]} is for tasks of any length, but {NAME} has a test set" in line


def test_a_run_with_the_papers_split_is_resumed_to_the_same_numbers(tmp_path: Path) -> None:
    options = ("--task-option", "splits=legacy", "--task-option", "seed=3456")
    whole = tmp_path / "whole"
    succeed("train", NAME, *TINY, *options, "--out", whole)
    parts = Path(shutil.copytree(whole, tmp_path / "parts"))
    (parts / "model.safetensors").unlink()
    (parts / "checkpoints" / "step-00000020.safetensors").unlink()
    assert "goes on from step 10 of 20" in succeed("resume", parts)
    assert same_run(whole, parts)
    stored = RunFolder(parts).read_config()
    assert stored["task_options"] == {"splits": "legacy", "seed": 3456}


def test_archives_on_the_disk_are_listed() -> None:
    assert f"Archives on the disk: {NAME}" in succeed("tasks")


def test_models_are_those_for_series() -> None:
    found = {x["name"]: x for x in json.loads(succeed("models", "--task", NAME, "--json"))}
    task = tasks.make(NAME)
    assert list(found) == catalogue.names(task)
    assert [name for name, x in found.items() if x["default"]] == ["bd-slice"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("Heartbeat",), "Heartbeat is not on disk"),
        ((NAME, "--model", "projective-slice"), "is for tokens"),
        ((NAME, "--task-option", "splits=paper"), "unknown splits 'paper'"),
        ((NAME, "--lengths", "50:60"), "have 20 to 20 observations"),
    ],
)
def test_errors_come_before_there_is_a_run(
    arguments: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    assert expected in refuse("train", *arguments, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
