"""`slicekit train`: what it trains, what it leaves behind, and how it fails."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from slicekit import catalogue, tasks
from slicekit.training import RunFolder, Settings
from tests.cli.calls import TINY, invoke, metrics, refuse, same_run, succeed

OWN_TASK = """
import torch
from slicekit.tasks import Batch, Task, draw_lengths


class LastBit(Task):
    name, vocabulary, outputs = "last-bit", 2, 2

    def __init__(self, flip=False, **ranges):
        super().__init__(**ranges)
        self.flip = flip

    def sample(self, batch, lengths, generator, split="train"):
        tokens = torch.randint(2, (batch, lengths[1]), generator=generator)
        wanted = 1 - tokens if self.flip else tokens
        return Batch.every_position(tokens, wanted, draw_lengths(batch, lengths, generator))


def drawn(batch, lengths, generator):
    tokens = torch.randint(2, (batch, lengths[1]), generator=generator)
    return tokens, tokens
"""


def config(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "config.toml").read_text())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_defaults_are_the_best_recipe_for_the_task(here: Path) -> None:
    short = ("--steps", "2", "--batch", "2", "--validation-batches", "1")
    succeed("train", "a5", *short)
    task = tasks.make("a5")
    name = catalogue.default(task)
    folder = here / "runs" / f"a5-{name}-0"
    recipe = catalogue.settings(name, task).as_table()
    told = config(folder)
    assert told["task"] == "a5" and told["model"] == name
    changed = {"steps": 2, "batch": 2, "validation_batches": 1}
    assert told["training"] == recipe | changed


def test_a_folder_of_its_own_for_every_run(here: Path) -> None:
    for expected in ("parity-de-lncde-3", "parity-de-lncde-3-2", "parity-de-lncde-3-3"):
        shown = succeed("train", "parity", *TINY, "--steps", "1", "--seed", "3", "--quiet")
        assert Path(shown.strip()) == Path("runs") / expected
        assert (here / "runs" / expected / "model.safetensors").is_file()
    width = ("--model", "bd-slice:width=8", "--steps", "1")
    assert "width=8" in refuse("train", "parity", *width)
    assert not (here / "runs" / "parity-bd-slice-0").exists(), "a run that could not start"


def test_the_configuration_in_the_folder_repeats_the_run(
    finished_run: Path, tmp_path: Path
) -> None:
    again, other = tmp_path / "again", tmp_path / "other"
    file = finished_run / "config.toml"
    succeed("train", "--config", file, "--out", again)
    assert same_run(finished_run, again)
    assert config(finished_run) == config(again)
    succeed("train", "--config", file, "--out", other, "--seed", "1")
    assert not same_run(finished_run, other)


def test_options_beat_the_file_which_beats_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        'task = "even-pairs"\nmodel = "d-slice"\nlength = 7\nlayers = 1\nquiet = true\n'
        f'out = "{tmp_path.as_posix()}/run"\n[task_options]\ntest_lengths = [5, 6]\n'
        "[training]\nsteps = 2\nbatch = 4\nrate = 0.5\nclip = 3\nvalidation_lengths = [4, 5]\n"
        'stop_at = "none"\n'
    )
    options = ("--config", file, "--model", "de-lncde", "--rate", "0.25", "--clip", "none")
    assert succeed("train", *options).strip() == (tmp_path / "run").as_posix()
    told = config(tmp_path / "run")
    assert (told["task"], told["model"], told["layers"]) == ("even-pairs", "de-lncde", 1)
    assert told["task_options"] == {"test_lengths": [5, 6]}
    recipe = catalogue.settings("de-lncde", tasks.make("even-pairs")).as_table()
    assert told["training"] == recipe | {
        "steps": 2,
        "batch": 4,
        "rate": 0.25,
        "clip": "none",
        "lengths": [3, 7],
        "validation_lengths": [4, 5],
        "stop_at": "none",
    }
    assert "out" not in told and "quiet" not in told


@pytest.mark.parametrize(
    ("given", "expected"),
    [(("--length", "9"), [4, 9]), (("--length", "2"), [2, 2]), (("--lengths", "5:8"), [5, 8])],
)
def test_length_is_the_longest_and_lengths_are_both_ends(
    given: tuple[str, str], expected: list[int], tmp_path: Path
) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        'task = "parity"\nmodel = "de-lncde"\n'
        "[training]\nsteps = 1\nbatch = 2\nlengths = [4, 30]\nvalidation_lengths = [4, 4]\n"
    )
    succeed("train", "--config", file, *given, "--out", tmp_path / "run")
    assert config(tmp_path / "run")["training"]["lengths"] == expected


def test_length_of_a_task_with_one_length_is_an_option_of_the_task(tmp_path: Path) -> None:
    small = ("--steps", "1", "--batch", "2", "--task-option", "sequences=50")
    succeed(
        "train", "a5-fixed", "--model", "de-lncde", *small, "--length", "5", "--out", tmp_path / "a"
    )
    told = config(tmp_path / "a")
    assert told["task_options"] == {"sequences": 50, "length": 5}
    assert told["training"]["lengths"] == "none"
    succeed("train", "--config", tmp_path / "a" / "config.toml", "--out", tmp_path / "b")
    assert same_run(tmp_path / "a", tmp_path / "b")


def test_every_setting_is_an_option() -> None:
    shown = succeed("train", "--help")
    for field in fields(Settings):
        assert re.search(rf"--{field.name.replace('_', '-')}\s", shown), field.name


def test_every_kind_of_setting_can_be_given(tmp_path: Path) -> None:
    kinds = ("--betas", "0.8:0.9", "--no-mixed-lengths", "--average", "0.9", "--patience", "none")
    succeed("train", "parity", *TINY, *kinds, "--steps", "1", "--out", tmp_path / "run")
    settings = RunFolder(tmp_path / "run").stored_settings()
    assert settings.betas == (0.8, 0.9) and settings.mixed_lengths is False
    assert settings.average == 0.9 and settings.patience is None


def test_a_task_of_ones_own(here: Path) -> None:
    (here / "mine.py").write_text(OWN_TASK)
    options = ("--task-option", "flip=true", "--task-option", "validation_lengths=8:9")
    succeed("train", "mine.py:LastBit", *TINY, *options, "--quiet")
    folder = here / "runs" / "LastBit-de-lncde-0"
    assert config(folder)["task"] == f"{here / 'mine.py'}:LastBit"
    assert config(folder)["task_options"] == {"flip": True, "validation_lengths": [8, 9]}
    assert "last-bit" in succeed("evaluate", folder, "--lengths", "5", "--task", "mine.py:LastBit")
    sizes = ("--task-option", "vocabulary=2", "--task-option", "outputs=2")
    succeed("train", "mine:drawn", *TINY, *sizes, "--steps", "1", "--out", here / "function")
    assert metrics(here / "function")


def test_output_away_from_a_terminal_is_plain_lines(finished_run: Path, tmp_path: Path) -> None:
    shown = succeed("train", "parity", *TINY, "--out", tmp_path / "run")
    assert "\x1b" not in shown and "\r" not in shown
    lines = [line for line in shown.splitlines() if line.startswith("step ")]
    assert [line.split()[1] for line in lines] == ["10/20", "20/20"]
    accuracy = metrics(finished_run)[-1]["accuracy"]
    assert f"{100 * accuracy:.2f}%" in lines[-1]
    assert f"slicekit evaluate {tmp_path / 'run'}" in shown
    assert "20 of 20" in shown


def test_quiet_prints_the_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert succeed("train", "parity", *TINY, "--quiet", "--out", folder) == f"{folder}\n"


def test_the_summary_says_why_it_stopped(tmp_path: Path) -> None:
    stop = ("--stop-at", "0.01", "--evaluate-every", "5")
    shown = succeed("train", "parity", *TINY, *stop, "--out", tmp_path / "run")
    assert "5 of 20: the validation accuracy reached stop_at" in shown


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("partiy",), "unknown task 'partiy', did you mean 'parity'?"),
        (("parity", "--model", "bd-slise"), "unknown model 'bd-slise', did you mean 'bd-slice'?"),
        ((), "no task given"),
        (("parity", "--steps", "many"), "steps='many'"),
        (("parity", "--rate", "-1"), "rate=-1"),
        (("parity", "--lengths", "9:3"), "expected the lower end first"),
        (("parity", "--lengths", "9"), "expected two values"),
        (("parity", "--length", "5", "--lengths", "3:5"), "give one"),
        (("parity", "--step", "5"), "--step"),
        (("parity", "--task-option", "states"), "expected KEY=VALUE"),
        (("cycle-navigation", "--task-option", "state=7"), "cycle-navigation"),
        (("parity", "--grow-from", "9", "--length", "6"), "grow_from=9"),
        (("parity", "--layers", "100000000"), "layers=100000000; expected at most 1000"),
        (("a5-fixed", "--lengths", "3:24"), "expected at most (20, 20)"),
        (("nowhere.py:task",), "no file nowhere.py"),
        (("parity", "--resume"), "--out FOLDER"),
        (("parity", "--config", "nowhere.toml"), "nowhere.toml can't be read"),
    ],
)
def test_bad_usage_is_told_in_one_line_and_leaves_nothing(
    arguments: tuple[str, ...], expected: str, here: Path
) -> None:
    line = refuse("train", *arguments)
    assert expected in line
    assert line.startswith("slicekit train: ") and line.endswith("See: slicekit train --help")
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import nothing_of_that_name\n", "mine.py, line 1"),
        ("def task(:\n", "line 1"),
        ("x = 1\ny = int('one')\n", "mine.py, line 2"),
    ],
)
def test_an_error_in_ones_own_task_is_told_with_its_place(
    code: str, expected: str, here: Path
) -> None:
    (here / "mine.py").write_text(code)
    assert expected in refuse("train", "mine.py:task")


@pytest.mark.parametrize("kind", [MemoryError, RuntimeError])
def test_what_does_not_fit_into_memory_is_told_in_one_line(
    kind: type[Exception], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise kind("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    monkeypatch.setattr("slicekit.catalogue.build", refused)
    assert "there is not enough memory" in refuse("train", "parity", *TINY, code=1)
    assert list(here.iterdir()) == []


def test_a_folder_that_holds_a_run_is_not_overwritten(finished_run: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in finished_run.rglob("*") if path.is_file()}
    line = refuse("train", "parity", *TINY, "--out", finished_run)
    assert f"{finished_run} already holds a run" in line and "--resume" in line
    assert before == {path: path.read_bytes() for path in before}
    (tmp_path / "file").write_text("mine")
    assert "is a file" in refuse("train", "parity", *TINY, "--out", tmp_path / "file")


@pytest.mark.filterwarnings("ignore:the state of a SLiCE:RuntimeWarning")
def test_a_diverged_run_says_what_to_try_and_keeps_its_checkpoint(tmp_path: Path) -> None:
    wild = ("--rate", "1e30", "--clip", "none", "--warmup", "0")
    line = refuse("train", "parity", *TINY, *wild, "--out", tmp_path / "run", code=1)
    assert line.startswith("slicekit train: training diverged at step ")
    assert "step-00000000.safetensors" in line and "Try a lower rate" in line


def test_a_full_disk_is_told_with_the_way_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = RunFolder.keep

    def full(self: RunFolder, checkpoint: Any, number: int) -> None:
        if checkpoint.step > 10:
            raise OSError("could not write it: No space left on device")
        keep(self, checkpoint, number)

    folder = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "keep", full)
        line = refuse("train", "parity", *TINY, "--out", folder, code=1)
    assert "No space left on device" in line and "step-00000010.safetensors" in line
    assert f"slicekit resume {folder}" in line
    assert invoke("resume", folder).exit_code == 0


def test_the_sizes_of_a_name_and_its_recipe_are_kept_resumed_and_evaluated(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    model = ["--model", "s6:width=8", "--recipe", "paper"]
    options = [*TINY[2:], *model, "--layers", "1", "--out", folder]
    succeed("train", "parity", *options)
    kept = config(folder)
    assert (kept["model"], kept["recipe"], kept["layers"]) == ("s6:width=8", "paper", 1)
    assert kept["training"]["decay"] == 0.01  # the paper's
    (folder / "model.safetensors").unlink()
    (folder / "best.safetensors").unlink()
    assert "8" in succeed("evaluate", folder, "--lengths", "8")  # from the last checkpoint
    succeed("train", "parity", *options, "--resume")
    contrary = refuse("train", "parity", "--out", folder, "--resume", "--model", "s6:width=16")
    assert "model='s6:width=16'" in contrary
    contrary = refuse("train", "parity", "--out", folder, "--resume", "--recipe", "fast")
    assert "recipe='fast'" in contrary
    for model, told in (
        ("bd-slice:width=8", "has no size 'width'; its sizes are dim, block"),
        ("bd-slice:dim=10", "block=4 does not divide dim=10"),
    ):
        options = ["--model", model, "--steps", "1", "--out", tmp_path / "other"]
        assert told in refuse("train", "parity", *options)
