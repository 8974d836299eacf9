"""Two writers of one run folder: one of them works, the other is told, and nothing is spoilt."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slicekit.training import InUse, train
from tests.training import killable
from tests.training.small import (
    EVERYTHING,
    ROOT,
    Notes,
    Parity,
    StopAfter,
    assert_same_runs,
    small_model,
)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def start(folder: Path) -> subprocess.Popen[str]:
    """A process that trains, or resumes, what `killable` does."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.killable", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one writer alone leaves behind."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    killable.run(str(folder))
    return folder


@pytest.mark.parametrize("begun", [False, True], ids=["fresh", "resumed"])
def test_of_two_processes_at_once_one_trains_and_one_is_told(
    whole: Path, tmp_path: Path, begun: bool
) -> None:
    folder = tmp_path / "run"
    if begun:
        shutil.copytree(whole, folder)
        (folder / "model.safetensors").unlink()
        for path in list((folder / "checkpoints").iterdir())[1:]:
            path.unlink()
    both = [start(folder) for _ in range(2)]
    told = [process.communicate()[1] for process in both]
    codes = [process.returncode for process in both]
    refused = [text for text, code in zip(told, codes, strict=True) if code]
    assert 0 in codes and all(f"InUse: {folder} is in use: process" in text for text in refused)
    assert_same_runs(folder, whole)
    assert not list(folder.rglob(".*"))


def test_a_folder_is_refused_while_it_is_written_and_free_afterwards(tmp_path: Path) -> None:
    folder, told = tmp_path / "run", []

    class Intruder(Notes):
        def stepped(self, report) -> None:
            if report.step == 10:
                before = contents(folder)
                for resume in (True, False):
                    with pytest.raises((InUse, FileExistsError)) as caught:
                        train(small_model(), Parity(), EVERYTHING, folder=folder, resume=resume)
                    told.append(str(caught.value))
                assert contents(folder) == before

    train(small_model(), Parity(), EVERYTHING, folder=folder, watch=Intruder())
    assert f"{folder} is in use: process {os.getpid()}" in told[0]
    assert f"{folder} already holds a run" in told[1]
    assert train(small_model(), Parity(), folder=folder, resume=True).steps == 40


def test_a_run_started_in_the_last_moment_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first look at the folder and the lock, another process does its whole run."""
    folder = tmp_path / "run"
    from slicekit.training import loop

    class Late(loop.Trainer):
        def __init__(self, *arguments) -> None:
            super().__init__(*arguments)
            monkeypatch.undo()
            train(small_model(), Parity(), EVERYTHING, folder=folder)
            self.before = contents(folder)

    monkeypatch.setattr(loop, "Trainer", Late)
    with pytest.raises(FileExistsError, match=f"{folder} already holds a run"):
        train(small_model(seed=5), Parity(), EVERYTHING, folder=folder)
    train(small_model(), Parity(), EVERYTHING, folder=tmp_path / "whole")
    assert_same_runs(folder, tmp_path / "whole")


def test_lines_of_an_earlier_second_writer_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(small_model(), Parity(), EVERYTHING, folder=folder, watch=StopAfter(18))
    metrics = folder / "metrics.jsonl"
    lines = metrics.read_text().splitlines()
    never = 1e6
    later = json.dumps(json.loads(lines[2]) | {"seconds": never})
    metrics.write_text("\n".join([*lines[:3], later, *lines[1:], *lines, ""]))
    train(small_model(), Parity(), folder=folder, resume=True)
    train(small_model(), Parity(), EVERYTHING, folder=tmp_path / "whole")
    assert_same_runs(folder, tmp_path / "whole")
    left = [json.loads(line)["seconds"] for line in metrics.read_text().splitlines()]
    assert never not in left


@pytest.mark.parametrize("left", ["records", "model.safetensors", "best.safetensors"])
def test_a_run_with_results_but_no_checkpoint_is_refused(left: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(small_model(), Parity(), EVERYTHING, folder=folder)
    shutil.rmtree(folder / "checkpoints")
    for name in ("metrics.jsonl", "model.safetensors", "best.safetensors"):
        if name != left and not (left == "records" and name == "metrics.jsonl"):
            (folder / name).unlink()
    before = contents(folder)
    told = "metrics.jsonl up to step 40" if left == "records" else left
    with pytest.raises(ValueError, match=f"{folder} holds {told}, but no checkpoint to go on"):
        train(small_model(), Parity(), folder=folder, resume=True)
    assert contents(folder) == before and not (folder / "checkpoints").exists()


def test_a_model_alone_is_not_overwritten_by_a_new_run(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("mine")
    with pytest.raises(FileExistsError, match="already holds a run"):
        train(small_model(), Parity(), EVERYTHING, folder=tmp_path)
    assert (tmp_path / "model.safetensors").read_text() == "mine"
