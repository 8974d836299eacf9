"""Two processes under torchrun do what one does alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from slicekit.training import is_first, train
from slicekit.training.processes import Processes, joined
from tests.training.small import ROOT, assert_same_runs, assert_same_tensors, records
from tests.training.together import SETTINGS, Uneven, double_model

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left behind."""
    folder = tmp_path_factory.mktemp("together")
    command = [sys.executable, *TORCHRUN, "-m", "tests.training.together", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    if sys.platform == "linux":
        environment |= {"GLOO_SOCKET_IFNAME": "lo"}  # whatever the host's name leads to
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    return folder


def test_two_processes_give_the_weights_of_one_on_the_joint_batch(
    folder: Path, tmp_path: Path
) -> None:
    """With clusters, penalty, average, clipping, extra batches and unequal shares of labels."""
    batch = Uneven().sample(7, (3, 10), torch.Generator().manual_seed(SETTINGS.seed))
    assert int(batch.supervised[:3].sum()) != int(batch.supervised[3:].sum())
    alone = train(double_model(), Uneven(), SETTINGS, folder=tmp_path / "alone").model
    ranks = [load_file(folder / f"rank-{rank}.safetensors") for rank in (0, 1)]
    assert_same_tensors(ranks[1], ranks[0])
    for name, x in alone.state_dict().items():
        torch.testing.assert_close(ranks[0][name], x, rtol=1e-8, atol=1e-10)
    for one, other in zip(records(folder / "exact"), records(tmp_path / "alone"), strict=True):
        assert one.pop("kind") == other.pop("kind")
        assert one == pytest.approx(other, rel=1e-6)


def test_a_run_of_two_processes_is_resumed_exactly(folder: Path) -> None:
    assert_same_runs(folder / "parts", folder / "whole")


def test_an_error_of_the_first_process_stops_all(folder: Path) -> None:
    assert (folder / "refused-0").read_text().startswith("FileExistsError: ")
    other = (folder / "refused-1").read_text()
    assert other.startswith("RuntimeError: the first process stopped with FileExistsError: ")


def test_only_the_first_process_writes(folder: Path) -> None:
    """Each line of the metrics is there once, and nothing is left of another process's files."""
    steps = [(x["step"], x["kind"]) for x in records(folder / "exact")]
    assert len(steps) == len(set(steps))
    assert not list((folder / "exact").rglob(".*"))


def test_to_go_on_with_another_number_of_processes_is_announced(folder: Path) -> None:
    with pytest.warns(UserWarning, match="the run had 2 processes, and goes on with 1"):
        result = train(double_model(), Uneven(), folder=folder / "exact", resume=True)
    assert result.steps == SETTINGS.steps


def test_shares_of_a_batch_are_disjoint_and_complete() -> None:
    for count in (1, 2, 3, 7):
        rows = []
        for rank in range(count):
            processes = Processes()
            processes.rank, processes.count = rank, count
            rows += list(range(7))[processes.rows(7)]
        assert rows == list(range(7))


def test_fewer_sequences_than_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Processes, "count", 8)
    with pytest.raises(ValueError, match="batch=7; expected at least one sequence for each of 8"):
        train(double_model(), Uneven(), SETTINGS)


def test_a_process_alone_needs_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    with joined(torch.device("cpu")) as processes:
        assert (processes.rank, processes.count, is_first()) == (0, 1, True)
        assert not torch.distributed.is_initialized()
    monkeypatch.setenv("RANK", "1")
    assert not is_first()
