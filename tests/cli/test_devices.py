"""`--device`: where a command computes, and what it says where there is no such device."""

from pathlib import Path

import pytest

from slicekit import devices
from slicekit.training import RunFolder
from tests.cli.calls import TINY, refuse, same_run, succeed
from tests.pretended import pretended


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a CPU, whatever else it has."""
    monkeypatch.setattr(devices, "how_many", lambda kind: int(kind == "cpu"))


def test_a_device_that_is_not_there_is_one_line_and_leaves_nothing_behind(tmp_path: Path) -> None:
    out = tmp_path / "run"
    for command in (
        ("train", "parity", *TINY, "--out", out),
        ("study", "languages", "--quick", "--out", out),
    ):
        line = refuse(*command, "--device", "cuda")
        assert "device='cuda'" in line and "expected cpu" in line
        assert not out.exists()
    succeed("train", "parity", *TINY, "--out", out)
    for command in ("resume", "evaluate"):
        assert "device='mps'" in refuse(command, out, "--device", "mps")


def test_the_cpu_by_its_name_is_the_default(tmp_path: Path) -> None:
    named, unnamed = tmp_path / "named", tmp_path / "unnamed"
    succeed("train", "parity", *TINY, "--out", named, "--device", "cpu")
    succeed("train", "parity", *TINY, "--out", unnamed)
    assert RunFolder(named).read_config()["device"] == "cpu"
    assert same_run(named, unnamed)
    succeed("evaluate", named, "--lengths", "5", "--sequences", "2", "--device", "cpu")


def test_a_run_is_resumed_and_evaluated_on_the_device_of_the_user(tmp_path: Path) -> None:
    out = tmp_path / "run"
    few = ("--steps", "2", "--checkpoint-every", "1", "--evaluate-every", "2")
    with pretended("cuda"):
        succeed("train", "parity", *TINY, *few, "--out", out, "--device", "cuda")
        succeed("evaluate", out, "--lengths", "5", "--sequences", "2", "--device", "cuda")
    (out / "checkpoints" / "step-00000002.safetensors").unlink()
    assert "device='cuda'" in refuse("resume", out)
    with pytest.warns(UserWarning, match="was on cuda, and goes on with cpu"):
        succeed("resume", out, "--device", "cpu")
