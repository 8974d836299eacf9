"""A run that was cut short goes on as if nothing had happened, bit for bit."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slicekit.training import DamagedCheckpoint, Settings, train
from slicekit.training.checkpoints import list_checkpoints
from tests.training import killable
from tests.training.small import (
    EVERYTHING,
    ROOT,
    Notes,
    Parity,
    StopAfter,
    assert_same_runs,
    assert_same_weights,
    records,
    small_model,
)

KILLS = 3


def start_and_kill(folder: Path, after: float) -> int:
    """The step that a process started from, which is then killed while it trains."""
    command = [sys.executable, "-m", "tests.training.killable", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        step = int(process.stdout.readline())
        time.sleep(after)
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    return step


def test_a_run_killed_at_any_moment_ends_like_one_that_was_not(tmp_path: Path) -> None:
    """With dropout, average, curriculum, consistency and an extra batch at each step."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    began = time.perf_counter()
    killable.run(str(whole))
    share = (time.perf_counter() - began) / KILLS
    starts = [start_and_kill(killed, random.uniform(0, 0.4 * share)) for _ in range(KILLS)]
    assert starts == sorted(starts) and starts[-1] < killable.SETTINGS.steps
    killable.run(str(killed))
    assert_same_runs(killed, whole)
    assert not [path for path in killed.rglob(".*")]


@pytest.mark.parametrize("step", [1, 5, 12, 37])
def test_a_run_interrupted_after_any_step_ends_like_one_that_was_not(
    tmp_path: Path, step: int
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    expected = train(small_model(dropout=0.2), Parity(), EVERYTHING, folder=whole)
    with pytest.raises(KeyboardInterrupt):
        train(small_model(dropout=0.2), Parity(), EVERYTHING, folder=parts, watch=StopAfter(step))
    notes = Notes()
    other = small_model(dropout=0.2, seed=9)
    found = train(other, Parity(), folder=parts, resume=True, watch=notes)
    assert notes.starts == [(40, step // 5 * 5 if step % 5 else max(0, step - 5))]
    assert_same_runs(parts, whole)
    assert_same_weights(found.model, expected.model)
    for name in ("steps", "best_accuracy", "best_step", "accuracy", "loss", "reason"):
        assert getattr(found, name) == getattr(expected, name)


def test_early_stopping_survives_a_resume(tmp_path: Path) -> None:
    settings = replace(EVERYTHING, steps=200, evaluate_every=2, patience=4, rate=1e-6)
    whole = train(small_model(), Parity(), settings, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(small_model(), Parity(), settings, folder=tmp_path / "parts", watch=StopAfter(8))
    parts = train(small_model(), Parity(), folder=tmp_path / "parts", resume=True)
    assert (whole.reason, parts.reason, parts.steps) == ("patience", "patience", whole.steps)
    assert_same_runs(tmp_path / "parts", tmp_path / "whole")


def test_a_finished_run_is_only_read_again(tmp_path: Path) -> None:
    first = train(small_model(), Parity(), EVERYTHING, folder=tmp_path / "run")
    before = records(tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    notes = Notes()
    again = train(small_model(seed=4), Parity(), folder=tmp_path / "run", resume=True, watch=notes)
    assert notes.steps == [] and notes.results == [again]
    assert_same_weights(again.model, first.model)
    assert (again.steps, again.reason) == (first.steps, first.reason)
    assert records(tmp_path / "run") == before
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_to_resume_where_nothing_is_starts_a_run(tmp_path: Path) -> None:
    result = train(small_model(), Parity(), EVERYTHING, folder=tmp_path / "run", resume=True)
    assert result.steps == 40


def test_a_run_killed_before_its_first_checkpoint_starts_again(tmp_path: Path) -> None:
    train(small_model(), Parity(), EVERYTHING, folder=tmp_path / "whole")
    train(small_model(), Parity(), EVERYTHING, folder=tmp_path / "early")
    for path in (tmp_path / "early").rglob("*.safetensors"):
        path.unlink()
    (tmp_path / "early" / "metrics.jsonl").unlink()
    (tmp_path / "early" / "checkpoints").rmdir()
    train(small_model(), Parity(), folder=tmp_path / "early", resume=True)
    assert_same_runs(tmp_path / "early", tmp_path / "whole")


def test_metrics_are_cut_back_also_in_the_middle_of_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(small_model(), Parity(), EVERYTHING, folder=folder, watch=StopAfter(18))
    whole = (folder / "metrics.jsonl").read_text()
    assert max(json.loads(line)["step"] for line in whole.splitlines()) == 16
    (folder / "metrics.jsonl").write_text(whole + '{"step": 17, "kind": "tra')
    train(small_model(), Parity(), folder=folder, resume=True)
    train(small_model(), Parity(), EVERYTHING, folder=tmp_path / "whole")
    assert records(folder) == records(tmp_path / "whole")


def interrupted(folder: Path) -> list[Path]:
    """The checkpoints of a run that was interrupted."""
    with pytest.raises(KeyboardInterrupt):
        train(small_model(), Parity(), EVERYTHING, folder=folder, watch=StopAfter(18))
    return list_checkpoints(folder / "checkpoints")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("damage", ["truncated", "changed"])
def test_a_damaged_checkpoint_is_named_and_nothing_is_touched(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "run"
    earlier, newest = interrupted(folder)
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content[:-99] if damage == "truncated" else content)
    before = contents(folder)
    with pytest.raises(DamagedCheckpoint, match=f"{newest}.*{earlier.name} is whole"):
        train(small_model(), Parity(), folder=folder, resume=True)
    assert contents(folder) == before
    newest.rename(newest.with_suffix(".damaged"))
    train(small_model(), Parity(), folder=folder, resume=True)
    train(small_model(), Parity(), EVERYTHING, folder=tmp_path / "whole")
    newest.with_suffix(".damaged").unlink()
    assert_same_runs(folder, tmp_path / "whole")


def test_a_folder_with_a_run_is_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    interrupted(tmp_path / "run")
    before = contents(tmp_path / "run")
    with pytest.raises(FileExistsError, match="already holds a run; resume it"):
        train(small_model(), Parity(), EVERYTHING, folder=tmp_path / "run")
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("settings", "describe", "width", "message"),
    [
        (replace(EVERYTHING, steps=41), None, 8, "steps=41, but .*config.toml has 40"),
        (None, {"task": "a5"}, 8, "task='a5', but .* has 'parity'"),
        (None, None, 12, "of another model"),
    ],
    ids=["settings", "description", "model"],
)
def test_a_run_is_resumed_as_it_was_started(
    tmp_path: Path,
    settings: Settings | None,
    describe: dict[str, str] | None,
    width: int,
    message: str,
) -> None:
    told = {"task": "parity"}
    with pytest.raises(KeyboardInterrupt):
        train(
            small_model(),
            Parity(),
            EVERYTHING,
            folder=tmp_path,
            watch=StopAfter(18),
            describe=told,
        )
    with pytest.raises(ValueError, match=message):
        train(
            small_model(width=width),
            Parity(),
            settings,
            folder=tmp_path,
            resume=True,
            describe=describe,
        )
    train(small_model(), Parity(), EVERYTHING, folder=tmp_path, resume=True, describe=told)


def test_a_checkpoint_of_another_dtype_is_refused(tmp_path: Path) -> None:
    interrupted(tmp_path / "run")
    import torch

    with pytest.raises(ValueError, match=r"in torch.float32, but the model in torch.float64"):
        train(small_model(dtype=torch.float64), Parity(), folder=tmp_path / "run", resume=True)
