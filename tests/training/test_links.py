"""A run folder from elsewhere leads nothing out of it, and nothing without an end into it."""

import os
import shutil
from pathlib import Path

import pytest

from slicekit.training import RunFolder, list_runs, train
from tests.training.small import EVERYTHING, Parity, StopAfter, assert_same_runs, small_model


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted."""
    folder = tmp_path_factory.mktemp("cut") / "run"
    with pytest.raises(KeyboardInterrupt):
        train(small_model(), Parity(), EVERYTHING, folder=folder, watch=StopAfter(13))
    return folder


@pytest.fixture
def run(cut_off: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(cut_off, tmp_path / "run"))


def everything(folder: Path) -> dict[str, bytes]:
    return {str(x): x.read_bytes() for x in sorted(folder.rglob("*")) if x.is_file()}


def resume(folder: Path) -> None:
    train(small_model(), Parity(), EVERYTHING, folder=folder, resume=True)


@pytest.mark.parametrize("name", ["metrics.jsonl", "checkpoints", "plots"])
def test_a_link_is_not_written_through(run: Path, tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    if (run / name).exists():
        os.rename(run / name, other)
    else:
        other.mkdir()
    (run / name).symlink_to(other)
    before = everything(tmp_path)
    with pytest.raises(ValueError, match=rf"run/{name} is a link to .*other; expected a part of"):
        resume(run)
    assert everything(tmp_path) == before


def test_files_that_are_replaced_whole_may_be_links(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes((run / "best.safetensors").read_bytes())
    (run / "best.safetensors").unlink()
    (run / "best.safetensors").symlink_to(other)
    before = other.read_bytes()
    (tmp_path / "link").symlink_to(run)
    resume(tmp_path / "link")
    assert other.read_bytes() == before
    train(small_model(), Parity(), EVERYTHING, folder=tmp_path / "whole")
    assert_same_runs(run, tmp_path / "whole")


@pytest.mark.parametrize("name", ["config.toml", "metrics.jsonl", "best.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_has_no_end_is_not_read(run: Path, name: str, kind: str) -> None:
    (run / name).unlink()
    if kind == "pipe":
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=rf"run/{name} is no file"):
        resume(run)
    with pytest.raises(ValueError, match=rf"run/{name} is no file"):
        RunFolder(run).read_config()
    (listed,) = list_runs(run.parent)
    assert listed.fault is not None and "is no file" in listed.fault


def test_a_checkpoint_is_a_file(run: Path) -> None:
    os.mkfifo(run / "checkpoints" / "step-00000099.safetensors")
    with pytest.raises(ValueError, match=r"step-00000099.safetensors is no file"):
        resume(run)
