"""Training on several ranks: batches, sequences and parameters shared out, and ranks that die."""

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file

from slicekit.parallel import LostRank
from slicekit.training import processes, train
from slicekit.training.processes import Parallel, Processes, joined
from tests.parallel.training_runs import SETTINGS, batches, model, on_parts, sgd, updates
from tests.training.small import ROOT, ParityWithPairs, records, small_model

Run = subprocess.CompletedProcess[str]

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def ended(words: list[str], case: str, folder: Path, environment: dict[str, str]) -> Run:
    """Run a case, to its end."""
    command = [sys.executable, *words, "-m", "tests.parallel.training_runs", case, str(folder)]
    told = ENVIRONMENT | environment
    return subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True, timeout=300)


def torchrun(count: int, case: str, folder: Path) -> Run:
    """Run a case on some ranks."""
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    return ended(words, case, folder, {})


def unwatched(count: int, case: str, folder: Path) -> list[Run]:
    """The same of ranks that nobody ends when one of them dies, as `torchrun` would at once."""
    serve = dist.TCPStore  # pyright: ignore[reportPrivateImportUsage]
    store = serve("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": str(count)}
    elsewhere = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}

    def run(rank: int) -> Run:
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        return ended([], case, folder, place | elsewhere | own)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What four ranks left behind."""
    folder = tmp_path_factory.mktemp("engines")
    told = torchrun(4, "engines", folder)
    assert told.returncode == 0, told.stderr
    return folder


@pytest.fixture(scope="module")
def alone() -> dict[str, torch.Tensor]:
    """One process on whole batches."""
    net = model()
    updates(net, sgd(net), batches(3), slice(None), slice(None), 1.0)
    return {name: x.detach() for name, x in net.named_parameters()}


@pytest.mark.parametrize("kind", ["ddp", "fsdp", "recomputed", "both"])
def test_torch_s_engines_give_the_weights_of_one_process(
    folder: Path, alone: dict[str, torch.Tensor], kind: str
) -> None:
    """`both`: parameters over four ranks, sequences over two, blocks computed again."""
    found = load_file(folder / "engines.safetensors")
    for name, x in alone.items():
        torch.testing.assert_close(found[f"{kind}/{name}"], x, rtol=1e-9, atol=1e-11)


def test_mixed_precision_gives_the_weights_of_one_process_to_its_rounding(
    folder: Path, alone: dict[str, torch.Tensor]
) -> None:
    found, moved = load_file(folder / "engines.safetensors"), model()
    first = dict(moved.named_parameters())
    for name, x in alone.items():
        step = float((x - first[name].detach()).abs().max())
        error = float((found[f"mixed/{name}"].double() - x).abs().max())
        assert error <= 0.1 * step + 1e-3, name


def test_a_sharded_checkpoint_goes_on_with_another_number_of_ranks(
    folder: Path, alone: dict[str, torch.Tensor]
) -> None:
    told = torchrun(2, "restored", folder)
    assert told.returncode == 0, told.stderr
    found = load_file(folder / "restored.safetensors")
    for name, x in alone.items():
        torch.testing.assert_close(found[name], x, rtol=1e-9, atol=1e-11)


def test_a_run_whose_rank_is_killed_ends_soon_and_resumes_to_the_same_numbers(
    tmp_path: Path,
) -> None:
    """Batches over two, sequences over two: the figures of one process, before and after."""
    began = time.monotonic()
    first, *others = unwatched(4, "killed", tmp_path)
    assert first.returncode == -signal.SIGKILL and time.monotonic() - began < 120, first.stderr
    for told in others:
        assert told.returncode == 1, told.stderr
        assert "LostRank: a rank did not answer while" in told.stderr
        assert "it has ended, or is somewhere else" in told.stderr
    told = torchrun(4, "killed", tmp_path)
    assert told.returncode == 0, told.stderr
    net = small_model(dtype=torch.float64, seed=0)
    train(net, ParityWithPairs(), SETTINGS, folder=tmp_path / "alone")
    for one, other in zip(records(tmp_path / "killed"), records(tmp_path / "alone"), strict=True):
        assert one.pop("kind") == other.pop("kind")
        assert one == pytest.approx(other, rel=1e-6)
    found = load_file(tmp_path / "killed" / "model.safetensors")
    for name, x in net.state_dict().items():
        torch.testing.assert_close(found[name], x, rtol=1e-8, atol=1e-10)


def test_pressures_and_series_on_parts_of_sequences_give_the_figures_of_one_process(
    tmp_path: Path,
) -> None:
    """Disturbances are carried over three ranks, sharded or handed on, and poolings are joined."""
    told = torchrun(3, "cut", tmp_path)
    assert told.returncode == 0, told.stderr
    on_parts(tmp_path / "alone", None)
    for kind in ("sharded", "handed", "mean", "last", "windows"):
        cut, alone = tmp_path / "cut" / kind, tmp_path / "alone" / kind
        for one, other in zip(records(cut), records(alone), strict=True):
            assert one.pop("kind") == other.pop("kind")
            assert one == pytest.approx(other, rel=1e-8, abs=1e-12), kind
        found, expected = (load_file(x / "model.safetensors") for x in (cut, alone))
        for name, x in expected.items():
            torch.testing.assert_close(found[name], x, rtol=1e-9, atol=1e-10)


def test_words_for_what_is_shared_out() -> None:
    assert Parallel.parse("data=2,sequence=3") == Parallel(2, 3)
    assert Parallel.parse("sequence=3") == Parallel(None, 3)
    for wrong in ("", "data", "data=0", "data=two", "rows=2", "data=1,data=2"):
        with pytest.raises(ValueError, match=r"parallel=|data=0; expected at least 1"):
            Parallel.parse(wrong)


def test_too_few_processes_are_refused_with_the_command() -> None:
    with (
        pytest.raises(ValueError, match=r"needs 4 processes, but there are 1.*--nproc-per-node 4"),
        joined(torch.device("cpu"), Parallel(2, 2)),
    ):
        pass


def test_an_address_that_nobody_answers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:  # so that nobody else listens there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        told = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for name, value in told.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(processes, "LIMIT", timedelta(seconds=1))
        with (
            pytest.raises(LostRank, match=f"did not answer at 127.0.0.1:{port} within 1 s"),
            joined(torch.device("cpu")),
        ):
            pass


def test_one_process_takes_whole_batches() -> None:
    batch = ParityWithPairs().sample(5, (3, 8), torch.Generator())
    assert torch.equal(Processes().own(batch).inputs, batch.inputs)
