"""A data-parallel run: the first process alone prints and writes."""

from pathlib import Path

import pytest

from tests.cli.calls import TINY, invoke, metrics, python, refuse, succeed

torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def test_two_processes_print_and_write_as_one(tmp_path: Path) -> None:
    exact = ("--model", "orthogonal-slice", "--grow-from", "none", "--grow-at", "none")
    together, alone = tmp_path / "together", tmp_path / "alone"
    found = python(*torchrun, "-m", "slicekit", "train", "parity", *TINY, *exact, "--out", together)
    assert found.returncode == 0, found.stderr
    shown = succeed("train", "parity", *TINY, *exact, "--out", alone)

    def figures(text: str) -> list[list[str]]:
        return [line.split()[:-2] for line in text.splitlines() if line.startswith("step ")]

    assert figures(found.stdout) == figures(shown)
    assert found.stdout.count("slicekit evaluate") == 1
    for one, other in zip(metrics(together), metrics(alone), strict=True):
        assert one["step"] == other["step"] and abs(one["loss"] - other["loss"]) < 1e-4


def test_two_processes_with_parts_of_sequences_print_what_one_does(tmp_path: Path) -> None:
    plain = ("--growth", "0", "--isometry", "0", "--grow-from", "none", "--grow-at", "none")
    exact = ("--model", "orthogonal-slice", *plain)
    words = ("-m", "slicekit", "train", "parity", *TINY, *exact, "--parallel", "sequence=2")
    found = python(*torchrun, *words, "--out", tmp_path / "parts")
    assert found.returncode == 0, found.stderr
    succeed("train", "parity", *TINY, *exact, "--out", tmp_path / "alone")
    for one, other in zip(metrics(tmp_path / "parts"), metrics(tmp_path / "alone"), strict=True):
        assert one["step"] == other["step"] and abs(one["loss"] - other["loss"]) < 1e-4
    told = refuse("train", "parity", *TINY, "--parallel", "data=2,sequence=2")
    assert "needs 4 processes, but there are 1" in told
    assert "expected data=N, sequence=N or both" in refuse("train", "parity", "--parallel", "two")


def test_bad_usage_is_told_by_the_first_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "did you mean 'parity'?" in refuse("train", "partiy")
    monkeypatch.setenv("RANK", "1")
    result = invoke("train", "partiy")
    assert result.exit_code == 2 and result.output == ""
