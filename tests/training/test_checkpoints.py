"""Checkpoints: what is read is what was written, or an error that names the file."""

import os
from pathlib import Path

import pytest
import torch

from slicekit import files
from slicekit.training import DamagedCheckpoint
from slicekit.training.checkpoints import (
    Checkpoint,
    list_checkpoints,
    newest_checkpoint,
    read_checkpoint,
    remove_old,
    write_checkpoint,
)
from tests.training.small import assert_same_tensors


def some_checkpoint(step: int = 7) -> Checkpoint:
    shared = torch.randn(3, 4)
    tensors = {
        "model/weight": shared,
        "model/tied": shared,
        "model/transposed": shared.T,
        "model/half": torch.randn(5).bfloat16(),
        "optimiser/weight/step": torch.tensor(3.0),
        "model/empty": torch.zeros(0, 2),
        "random/data": torch.Generator().get_state(),
    }
    return Checkpoint(step, tensors, {"progress": {"loss": 0.1, "stopped": None}})


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    checkpoint = some_checkpoint()
    path = write_checkpoint(tmp_path, checkpoint)
    assert path.name == "step-00000007.safetensors"
    found = read_checkpoint(path)
    assert (found.step, found.numbers) == (7, checkpoint.numbers)
    assert_same_tensors(found.tensors, checkpoint.tensors)
    assert set(found.part("model")) == {"weight", "tied", "transposed", "half", "empty"}
    assert [x.name for x in tmp_path.iterdir()] == [path.name]


def test_a_change_of_any_byte_is_noticed(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, some_checkpoint())
    content = path.read_bytes()
    for place in [*range(0, len(content), len(content) // 97), len(content) - 1]:
        changed = bytearray(content)
        changed[place] ^= 0x10
        path.write_bytes(changed)
        with pytest.raises(DamagedCheckpoint, match=path.name):
            read_checkpoint(path)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_a_truncated_checkpoint_is_noticed(tmp_path: Path, share: float) -> None:
    path = write_checkpoint(tmp_path, some_checkpoint())
    os.truncate(path, int(share * path.stat().st_size))
    with pytest.raises(DamagedCheckpoint, match="damaged or truncated"):
        read_checkpoint(path)


def test_the_newest_is_by_step_and_old_ones_go(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path / "none") is None
    for step in (9, 100_000_000, 10):
        write_checkpoint(tmp_path, some_checkpoint(step))
    (tmp_path / "step-99.txt").touch()
    newest = newest_checkpoint(tmp_path)
    assert newest is not None and newest.step == 100_000_000
    remove_old(tmp_path, keep=2)
    assert [read_checkpoint(path).step for path in list_checkpoints(tmp_path)] == [10, 100_000_000]


def test_damage_to_the_newest_names_the_last_that_is_whole(tmp_path: Path) -> None:
    paths = [write_checkpoint(tmp_path, some_checkpoint(step)) for step in (1, 2, 3)]
    for path in paths[1:]:
        path.write_bytes(path.read_bytes()[:-1])
    before = {path: path.read_bytes() for path in paths}
    told = "step-00000003.safetensors is damaged.*step-00000001.safetensors is whole.*rename"
    with pytest.raises(DamagedCheckpoint, match=told):
        newest_checkpoint(tmp_path)
    assert {path: path.read_bytes() for path in paths} == before
    paths[0].write_bytes(b"")
    with pytest.raises(DamagedCheckpoint, match="no earlier checkpoint is whole"):
        newest_checkpoint(tmp_path)


def test_a_file_that_cannot_be_written_is_named_and_the_old_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    files.write(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"could not write {path}: No space left on device"):
        files.write(path, b"new")
    assert [x.name for x in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"
