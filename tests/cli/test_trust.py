"""A folder or a file runs no code unless the user says so, by --trust or by naming the place."""

import shutil
from pathlib import Path

import pytest

from slicekit.training import RunFolder
from tests.cli.calls import TINY, invoke, refuse, same_run, succeed

OWN_TASK = """
from pathlib import Path
from slicekit.tasks import Parity

(Path(__file__).parent / "was-run").touch()


class Mine(Parity):
    name = "mine"
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The file of a task, which leaves a trace when it is run."""
    path = tmp_path / "mine.py"
    path.write_text(OWN_TASK)
    return path


@pytest.fixture
def run(finished_run: Path, mine: Path, tmp_path: Path) -> Path:
    """A finished run on that task, as another may have handed it over."""
    folder = Path(shutil.copytree(finished_run, tmp_path / "run"))
    return with_task(folder, f"{mine}:Mine")


def with_task(folder: Path, task: str, options: str = "") -> Path:
    config = folder / "config.toml"
    table = f"[task_options]\n{options}\n[training]" if options else "[training]"
    text = config.read_text().replace('task = "parity"', f'task = "{task}"')
    config.write_text(text.replace("[training]", table))
    return folder


def commands(folder: Path) -> list[tuple[str | Path, ...]]:
    """All that read a task from a file."""
    return [
        ("evaluate", folder, "--lengths", "4"),
        ("resume", folder),
        ("train", "--resume", "--out", folder),
        ("train", "--config", folder / "config.toml", "--out", folder.parent / "new"),
    ]


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_command_runs_the_code_that_a_folder_names(run: Path, mine: Path) -> None:
    before = contents(run.parent)
    for command in commands(run):
        line = refuse(*command)
        assert f"{run / 'config.toml'} names the task {mine}:Mine" in line
        assert f"runs the code of {mine}" in line and "--trust" in line
    assert contents(run.parent) == before, "not even a trace"


@pytest.mark.parametrize("task", ["os:system", "posix:system", "subprocess:getoutput", "os:popen"])
def test_no_command_calls_what_is_no_task(task: str, finished_run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished_run, tmp_path / "run"))
    option = "cmd" if task in ("subprocess:getoutput", "os:popen") else "command"
    with_task(folder, task, f'{option} = "touch {tmp_path}/was-run"')
    for command in commands(folder):
        assert f"names the task {task}" in refuse(*command)
    if task.endswith(":system"):
        assert "expected" in refuse("evaluate", folder, "--trust")
    assert not (tmp_path / "was-run").exists()


def test_a_file_can_not_trust_itself(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(f'task = "{mine}:Mine"\ntrust = true\n')
    assert "unknown key 'trust'" in refuse("train", "--config", tmp_path / "own.toml")
    assert not (tmp_path / "was-run").exists()


def test_code_runs_where_it_is_trusted_or_named(
    run: Path, mine: Path, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(mine.parent)
    for command in commands(run):
        succeed(*command, "--trust")
        assert (run.parent / "was-run").exists()
    (evaluation, resumption, *_) = commands(run)
    succeed(*evaluation, "--task", "mine.py:Mine")
    succeed(*resumption, "--task", "mine.py:Mine")
    succeed("train", "mine.py:Mine", "--resume", "--out", run)
    assert same_run(run, finished_run)
    succeed("train", "mine.py:Mine", "--config", run / "config.toml", "--out", run.parent / "other")
    assert same_run(run.parent / "other", finished_run)


def test_another_task_leaves_that_of_the_folder_alone(run: Path) -> None:
    config = run / "config.toml"
    config.write_text(config.read_text().replace("lengths = [3, 6]", 'lengths = "none"'))
    assert RunFolder(run).stored_settings().lengths is None
    assert "even-pairs" in succeed("evaluate", run, "--task", "even-pairs", "--lengths", "4")
    line = refuse("resume", run, "--task", "even-pairs")
    assert "task='even-pairs', but" in line
    assert not (run.parent / "was-run").exists()


def test_a_run_is_evaluated_and_resumed_from_any_folder_also_after_its_task_moved(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    shown = succeed("train", "mine.py:Mine", *TINY, "--out", "run")
    assert "slicekit evaluate run --task mine.py:Mine" in shown
    monkeypatch.chdir(tmp_path / "elsewhere")
    succeed("evaluate", tmp_path / "run", "--lengths", "4", "--trust")
    mine.rename(mine.parent / "elsewhere" / "mine.py")
    line = refuse("evaluate", tmp_path / "run", "--lengths", "4", "--trust")
    assert "there is no such file" in line and "--task path/to/mine.py:Mine" in line
    succeed("evaluate", tmp_path / "run", "--lengths", "4", "--task", "mine.py:Mine")
    assert "20 of 20" in succeed("resume", tmp_path / "run", "--task", "mine.py:Mine")


def test_the_sizes_of_a_function_can_be_given_to_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("draws.py").write_text(
        "import torch\n\n\ndef draw(batch, lengths, generator):\n"
        "    tokens = torch.randint(3, (batch, lengths[1]), generator=generator)\n"
        "    return tokens, tokens\n"
    )
    missing = "--task-option vocabulary=3 --task-option outputs=3"
    assert missing in refuse("train", "draws.py:draw")
    assert missing in refuse("models", "--task", "draws.py:draw")
    sizes = missing.split()
    assert "parameters" in succeed("models", "--task", "draws.py:draw", *sizes)
    succeed("train", "draws.py:draw", *TINY, *sizes, "--out", "run")
    succeed("evaluate", "run", "--task", "draws.py:draw", "--lengths", "4")
    Path("run/config.toml").write_text("[training]\n")
    succeed("evaluate", "run", "--task", "draws.py:draw", *sizes, "--lengths", "4")


@pytest.mark.parametrize("command", ["train", "resume", "evaluate"])
def test_help_says_that_a_place_runs_code(command: str) -> None:
    shown = " ".join(invoke(command, "--help").output.split())
    assert "file.py:name runs the code of that file" in shown and "--trust" in shown
