"""The command `slicekit sweep`, from outside."""

import json
from pathlib import Path

import pytest

pytest.importorskip("typer")

from tests.cli.calls import refuse, succeed

FILE = """
task = "parity"
model = "bd-slice:dim=8"
[task_options]
validation_lengths = [10, 20]
[training]
steps = 4
batch = 4
lengths = [3, 8]
[space.training]
rate = [1e-3, 1e-2]
"""


def test_a_sweep_is_done_shown_and_its_best_trial_can_be_trained(tmp_path: Path) -> None:
    file, out = tmp_path / "rates.toml", tmp_path / "sweep"
    file.write_text(FILE)
    shown = succeed("sweep", file, "--out", out)
    for expected in ("trial-0000/seed-0: 4 steps", "What mattered", "Every trial", "best.toml"):
        assert expected in shown
    best = json.loads((out / "results.json").read_text())["best"]
    assert f"slicekit evaluate {out}/runs/trial-{best:04d}/seed-0" in shown
    again = succeed("sweep", file, "--out", out)
    assert again.count("(kept)") == 2
    succeed("train", "--config", out / "best.toml", "--out", tmp_path / "run", "--quiet")
    own, stored = tmp_path / "run", out / "runs" / f"trial-{best:04d}" / "seed-0"
    names = ("model.safetensors", "best.safetensors")
    assert all((own / x).read_bytes() == (stored / x).read_bytes() for x in names)


def test_bad_usage_is_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    file, out = tmp_path / "rates.toml", tmp_path / "sweep"
    file.write_text(FILE)
    assert "can't be read" in refuse("sweep", tmp_path / "none.toml", "--out", out)
    assert "unknown engine 'slrm'" in refuse("sweep", file, "--out", out, "--engine", "slrm")
    told = refuse("sweep", file, "--out", out, "--engine", "dask")
    assert "engine dask needs an address" in told
    told = refuse("sweep", file, "--out", out, "--engine", "slurm", "--option", "gpus")
    assert "--option gpus; expected NAME=VALUE" in told
    assert not out.exists()
