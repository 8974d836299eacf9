"""What goes wrong on the way: numbers that diverge, and disks that are full."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from slicekit import SequenceModel
from slicekit.training import Diverged, Report, Watcher, train
from slicekit.training.checkpoints import read_checkpoint
from tests.training.small import (
    EVERYTHING,
    ROOT,
    Parity,
    assert_same_runs,
    small_model,
)

MET = {
    "checkpoint": ("checkpoints/step-00000015.safetensors", 10),
    "model": ("best.safetensors", 5),
    "metrics": ("metrics.jsonl", 15),
}
"""The file at which each run of `limited.py` fails, and the last checkpoint before."""


def failing_model(step: int, how: str) -> SequenceModel:
    """A model whose loss or gradient is not finite at a step."""
    model, calls = small_model(), [0]

    def spoil(module: torch.nn.Module, given: object, logits: Tensor) -> Tensor:
        calls[0] += model.training
        if calls[0] != step or not model.training:
            return logits
        if how == "loss":
            return logits * float("nan")
        logits.register_hook(lambda gradient: gradient * float("inf"))
        return logits

    model.heads[0].register_forward_hook(spoil)
    return model


@pytest.mark.parametrize(
    ("how", "told"),
    [("loss", "the loss is nan"), ("gradient", "the norm of the gradient is nan")],
)
def test_a_diverged_run_stops_and_keeps_its_last_good_checkpoint(
    tmp_path: Path, how: str, told: str
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(Diverged, match=f"diverged at step 13: {told}.*step-00000010") as caught:
        train(failing_model(13, how), Parity(), EVERYTHING, folder=folder)
    assert caught.value.step == 13 and caught.value.checkpoint is not None
    kept = read_checkpoint(caught.value.checkpoint)
    assert all(x.isfinite().all() for x in kept.tensors.values() if x.is_floating_point())
    assert not (folder / "model.safetensors").exists()
    train(small_model(), Parity(), folder=folder, resume=True)
    train(small_model(), Parity(), EVERYTHING, folder=tmp_path / "whole")
    assert_same_runs(folder, tmp_path / "whole")


def test_a_run_that_diverges_at_once_has_the_checkpoint_of_its_start(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match=r"step 1:.*step-00000000\.safetensors"):
        train(failing_model(1, "loss"), Parity(), EVERYTHING, folder=tmp_path / "run")


def test_weights_that_are_not_finite_are_never_kept(tmp_path: Path) -> None:
    model = small_model()

    class Spoiler(Watcher):
        def stepped(self, report: Report) -> None:
            if report.step == 10:
                model.heads[0].get_parameter("bias").data[0] = float("inf")

    with pytest.raises(Diverged, match=r"step 10: heads\.0\.bias.*step-00000005\.safetensors"):
        train(model, Parity(), EVERYTHING, folder=tmp_path / "run", watch=Spoiler())


def test_without_a_folder_the_message_says_that_nothing_was_kept() -> None:
    with pytest.raises(Diverged, match="no checkpoint was kept") as caught:
        train(failing_model(3, "loss"), Parity(), EVERYTHING)
    assert caught.value.checkpoint is None


@pytest.mark.skipif(sys.platform == "win32", reason="there is no file size limit")
def test_a_full_disk_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    """Three runs meet a limit at three kinds of files, and go on when it is lifted."""
    command = [sys.executable, "-m", "tests.training.limited", str(tmp_path)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    train(small_model(), Parity(), EVERYTHING, folder=tmp_path / "whole")
    for case, (message, files) in json.loads(told).items():
        folder, (file, last) = tmp_path / case, MET[case]
        assert message.startswith(f"could not write {folder / file}: ")
        assert "File too large" in message
        assert f"step-{last:08d}.safetensors" in files
        assert not [name for name in files if name.startswith(".")]
        assert_same_runs(folder, tmp_path / "whole")
