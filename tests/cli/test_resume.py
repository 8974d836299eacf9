"""`slicekit resume` and `slicekit train --resume`: the same numbers, or a clear refusal."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slicekit.locks import writing
from slicekit.training import RunFolder
from tests.cli.calls import TINY, invoke, python, refuse, same_run, succeed

INTERRUPTING_TASK = """
import os, signal
from slicekit.tasks import Parity


class Interrupting(Parity):
    drawn = 0

    def sample(self, batch, lengths, generator, split="train"):
        type(self).drawn += split == "train"
        if self.drawn == int(os.environ.get("AT", -1)):
            os.kill(os.getpid(), getattr(signal, os.environ.get("BY", "SIGINT")))
        return super().sample(batch, lengths, generator, split)
"""


@pytest.fixture
def task(tmp_path: Path) -> str:
    """A parity that interrupts its process when it draws the batch AT."""
    (tmp_path / "mine.py").write_text(INTERRUPTING_TASK)
    return f"{tmp_path / 'mine.py'}:Interrupting"


@pytest.fixture
def listening() -> Iterator[None]:
    """A process that hears Ctrl-C, which one that was started in the background does not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_ctrl_c_says_where_the_checkpoint_is_and_resume_goes_on_from_it(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    with monkeypatch.context() as patched:
        patched.setenv("AT", "15")
        line = refuse("train", task, *TINY, "--out", parted, code=130)
    assert str(parted / "checkpoints" / "step-00000010.safetensors") in line
    assert f"slicekit resume {parted} --task {task}" in line
    assert "goes on from step 10 of 20" in succeed("resume", parted, "--task", task)
    succeed("train", task, *TINY, "--out", whole)
    assert same_run(whole, parted)


def test_a_killed_process_resumes_to_the_same_numbers(task: str, tmp_path: Path) -> None:
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    killed = python("-m", "slicekit", "train", task, *TINY, "--out", parted, AT="18", BY="SIGKILL")
    assert killed.returncode == -9
    assert killed.stdout.splitlines()[-1].startswith("step 10/20") and "\x1b" not in killed.stdout
    assert killed.stderr == ""
    assert not (parted / "model.safetensors").exists()
    succeed("train", task, *TINY, "--out", parted, "--resume")
    succeed("train", task, *TINY, "--out", whole)
    assert same_run(whole, parted)


def test_a_run_that_is_finished_stays_as_it_is(finished_run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished_run, copy)
    assert "20 of 20" in succeed("resume", copy)
    assert same_run(finished_run, copy)


def test_options_that_agree_with_the_run_may_be_given_again(
    finished_run: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished_run, copy)
    again = ("--resume", "--out", copy, "--quiet")
    for asked in (("parity", *TINY), (), ("--config", copy / "config.toml")):
        assert succeed("train", *asked, *again).strip() == str(copy)
        assert same_run(finished_run, copy)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("parity", "--steps", "30"), "steps=30, but"),
        (("even-pairs",), "task='even-pairs', but"),
        (("--model", "d-slice"), "model='d-slice', but"),
        (("--layers", "1"), "layers=1, but"),
        (("--seed", "7"), "seed=7, but"),
    ],
)
def test_options_that_contradict_the_run_are_refused(
    given: tuple[str, ...], expected: str, finished_run: Path
) -> None:
    line = refuse("train", *given, "--resume", "--out", finished_run)
    assert expected in line and "config.toml" in line


def test_a_folder_that_another_process_writes_is_refused(
    finished_run: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(finished_run, tmp_path / "copy"))
    for folder, command in ((copy, ("resume",)), (tmp_path / "new", ("train", "parity", "--out"))):
        with writing(folder):
            line = refuse(*command, folder, code=1)
            assert f"{folder} is in use: process " in line and "Nothing was changed" in line
            assert "checkpoint" not in line, "it is not this process that left one behind"
    assert same_run(finished_run, copy) and not (tmp_path / "new").exists()


def test_a_finished_run_without_its_checkpoints_is_left_as_it_is(
    finished_run: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(finished_run, tmp_path / "copy"))
    shutil.rmtree(copy / "checkpoints")
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    line = refuse("resume", copy)
    assert f"{copy} holds model.safetensors and best.safetensors and metrics.jsonl up to" in line
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("command", [("resume",), ("train", "parity", "--resume", "--out")])
def test_nothing_to_resume_is_bad_usage(command: tuple[str, ...], tmp_path: Path) -> None:
    line = refuse(*command, tmp_path / "nowhere")
    assert "nowhere holds no run to resume" in line


def test_a_run_of_a_program_is_left_to_the_program(finished_run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished_run, copy)
    config = (copy / "config.toml").read_text()
    (copy / "config.toml").write_text(config.replace('model = "de-lncde"\n', ""))
    assert "names no task and model" in refuse("resume", copy)


def test_a_damaged_checkpoint_is_named_and_nothing_is_lost(
    finished_run: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished_run, copy)
    (copy / "model.safetensors").unlink()
    newest = RunFolder(copy).last_checkpoint()
    assert newest is not None
    newest.write_bytes(newest.read_bytes()[:-100])
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    line = refuse("resume", copy, code=1)
    assert str(newest) in line and "step-00000010.safetensors is whole" in line
    assert before == {path: path.read_bytes() for path in before}
    newest.rename(newest.with_suffix(".damaged"))
    assert invoke("resume", copy).exit_code == 0
    assert same_run(finished_run, copy)
