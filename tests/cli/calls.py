"""Calls of the command line in this process, on runs that take a moment."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner, Result

from slicekit.cli.app import app
from tests.training.small import assert_same_runs

SOURCE = Path(__file__).parents[2] / "src"
TINY = (
    *("--model", "de-lncde"),
    *("--steps", "20", "--batch", "8", "--length", "6", "--record-every", "5"),
    *("--validation-lengths", "8:12", "--validation-batches", "1"),
    *("--evaluate-every", "10", "--checkpoint-every", "10"),
)
"""Options of a run of less than a second; its model has dropout, a penalty and two layers."""


def invoke(*arguments: str | Path, columns: int = 120) -> Result:
    """Run a command."""
    words = [str(word) for word in arguments]
    return CliRunner().invoke(app, words, env={"COLUMNS": str(columns)})


def succeed(*arguments: str | Path) -> str:
    """What a command that must succeed prints."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refuse(*arguments: str | Path, code: int = 2) -> str:
    """The one line of a command that must fail."""
    result = invoke(*arguments)
    assert result.exit_code == code, result.output
    (line,) = result.stderr.splitlines()
    return line


def python(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run python in a process of its own, which finds slicekit."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"} | environment,
    )


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The records of a run without their times."""
    records = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    timed = ("seconds", "tokens_per_second")
    return [{k: x for k, x in record.items() if k not in timed} for record in records]


def same_run(one: Path, other: Path) -> bool:
    """Whether two runs are the same, bit for bit, but for the time that they took."""
    try:
        assert_same_runs(one, other)
    except AssertionError:
        return False
    files = ("model.safetensors", "best.safetensors")
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in files)
