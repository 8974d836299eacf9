"""Studies on engines: what is lost goes on elsewhere, and comes to the results of one machine."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slicekit import engines
from slicekit.engines import Answer, Engine, Job, Local, Order, Unreachable
from slicekit.engines.workers import WorkerJob
from slicekit.studies import Choice, GridWatcher, Standing, conduct, make
from slicekit.studies.worker import LOCK, _do

STUDY = make("a5-lengths")
STEPS = 300
"""Enough for a run to be caught in the middle of them."""

CHOICE = Choice(models=("orthogonal-slice",), seeds=(0, 1), steps=STEPS, batch=8, quick=True)
FIRST, SECOND = (plan.name for plan in STUDY.wanted(CHOICE, {}))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study that one machine did, and nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    conduct(STUDY, CHOICE, folder)
    return folder


def process_of(folder: Path, name: str) -> int | None:
    """The process that does a run, if it lives: one that was killed leaves its name behind."""
    try:
        process = int((folder / "runs" / name / LOCK).read_text().split()[1])
    except (FileNotFoundError, IndexError):
        return None
    return None if status(process)[0] == "Z" else process


def status(process: int) -> list[str]:
    """What Linux says of a process: its state, its parent, and so on."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["Z"]


def ends(process: int) -> bool:
    """Whether a process ends, within a time that is generous."""
    for _ in range(600):
        if status(process)[0] == "Z":
            return True
        time.sleep(0.05)
    return False


class Interrupt(GridWatcher):
    """As Ctrl-C does, in the middle of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.process = folder, 0

    def moved(self, standing: Standing) -> None:
        for name in standing.running:
            process = process_of(self.folder, name)
            if process is not None and 4 < standing.steps.get(name, 0) < 0.9 * STEPS:
                self.process = process
                raise KeyboardInterrupt


class Kill(GridWatcher):
    """Ends the cluster's process that goes on with a run, as soon as it lives, as kill -9 does."""

    def __init__(self, folder: Path, told: str) -> None:
        self.folder, self.told, self.killed = folder, told, False

    def moved(self, standing: Standing) -> None:
        for name in standing.running:
            process = process_of(self.folder, name)
            if process and not self.killed and standing.steps.get(name, 0) < STEPS:
                self.killed = True
                self.kill(process)

    def kill(self, worker: int) -> None:
        parent = int(status(worker)[1])
        command = Path(f"/proc/{parent}/cmdline").read_text().replace("\0", " ")
        assert self.told in command, command
        os.kill(parent, signal.SIGKILL)
        assert ends(worker), "a run does not survive the cluster's own process"


def stopped_killed_and_done(engine: Engine, within: Path, told: str) -> Path:
    """A study on a cluster: first interrupted, then robbed of a process. Returns its folder.

    The engine takes one run at a time, so that the second is still whole after the interrupt. Runs
    are short: they may be over before there is something to kill, and then it is done once more.
    """
    for attempt in range(5):
        folder = within / f"study-{attempt}"
        interrupt, kill = Interrupt(folder), Kill(folder, told)
        with pytest.raises(KeyboardInterrupt):
            conduct(STUDY, CHOICE, folder, engine=engine, watch=interrupt)
        assert ends(interrupt.process), "nothing goes on after Ctrl-C"
        standing = conduct(STUDY, CHOICE, folder, engine=engine, watch=kill)
        assert not standing.failures
        if kill.killed:
            return folder
    raise AssertionError("no run was caught in the middle")


linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")


@contextmanager
def silence() -> Iterator[str]:
    """The address of one who listens, and never says anything."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def results(folder: Path) -> bytes:
    return (folder / "results.json").read_bytes()


@linux
def test_ray(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes; a worker that is killed, and a study that is interrupted."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
    try:
        cluster.add_node(**node)
        engine = engines.make("ray", address=cluster.address, at_once=1)
        folder = stopped_killed_and_done(engine, tmp_path, "ray::")
    finally:
        cluster.shutdown()
    assert results(folder) == results(whole)


@linux
def test_dask(whole: Path, tmp_path: Path) -> None:
    """Two workers, one of which is killed, and a study that is interrupted."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=tmp_path / "dask"
    ) as cluster:
        engine = engines.make("dask", address=cluster.scheduler_address, at_once=1)
        folder = stopped_killed_and_done(engine, tmp_path, "multiprocessing.spawn")
    assert results(folder) == results(whole)


@linux
def test_submitit(whole: Path, tmp_path: Path) -> None:
    """By its executor for one machine; a job that is killed, and a study that is interrupted."""
    pytest.importorskip("submitit")
    engine = engines.make("slurm", at_once=1, options={"cluster": "local"})
    folder = stopped_killed_and_done(engine, tmp_path, "submitit.core._submit")
    assert results(folder) == results(whole)
    assert not list(folder.glob("slurm-*")), "orders and answers are gone"


@pytest.mark.parametrize(("name", "library"), [("ray", "ray"), ("dask", "distributed")])
def test_a_cluster_that_is_not_there_is_named_within_a_time_limit(
    name: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(library)
    monkeypatch.setattr("slicekit.engines.base.CONNECTING", 2.0)
    folder = tmp_path / "study"
    with silence() as silent:
        for address in ("127.0.0.1:1", silent):
            engine = engines.make(name, address=address)
            with pytest.raises(Unreachable, match=f"at address {address}: "):
                conduct(STUDY, CHOICE, folder, engine=engine)
    with pytest.raises(ValueError, match="address='here'; expected host:port or"):
        conduct(STUDY, CHOICE, folder, engine=engines.make(name, address="here"))
    assert not folder.exists()


def test_a_cluster_that_is_no_more_is_an_error_and_its_engine_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("slicekit.engines.dask.CONNECTING", 2.0)
    file = tmp_path / "scheduler.json"
    words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", *words],
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(1200):
            if file.exists() and file.read_text().endswith("}"):
                break
            time.sleep(0.05)
        engine = engines.make("dask", address=json.loads(file.read_text())["address"])
        with (
            pytest.warns(UserWarning, match="the Dask cluster has no worker"),
            pytest.raises(Unreachable, match="the Dask scheduler does not answer"),
            engine.opened(tmp_path),
        ):
            job = engine.start({"plan": {}, "folder": str(tmp_path)})
            assert job.answer() is None
            scheduler.kill()
            for _ in range(1200):
                assert job.answer() is None
                time.sleep(0.05)
    finally:
        scheduler.kill()
        scheduler.wait()


def test_a_machine_without_slurm_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(Unreachable, match="no SLURM here: there is no command sbatch"):
        conduct(STUDY, CHOICE, tmp_path, engine=engines.make("slurm"))


@pytest.mark.parametrize(
    ("name", "library"), [("ray", "ray"), ("dask", "distributed"), ("slurm", "submitit")]
)
def test_a_missing_library_names_the_extra(
    name: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    engine = engines.make(name, address=None if name == "slurm" else "127.0.0.1:1")
    with pytest.raises(ImportError, match=rf"{library}.*pip install 'slicekit\[{name}\]'"):
        conduct(STUDY, CHOICE, tmp_path / "study", engine=engine)
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("slrum", {}, "unknown engine 'slrum', did you mean 'slurm'?"),
        ("local", {"address": "10.0.0.1:1"}, "address='10.0.0.1:1', but engine local has none"),
        ("local", {"options": {"gpus": 1}}, "option 'gpus', but engine local has none"),
        ("slurm", {"options": {"partitoin": "a"}}, "did you mean 'partition'?"),
        ("slurm", {"options": {"cpus": 0}}, "cpus=0; expected a number of at least 1"),
        ("slurm", {"options": {"cluster": "pbs"}}, "cluster='pbs'; expected one of slurm, local"),
        ("ray", {"options": {"gpus": "one"}}, "gpus='one'; expected a number of at least 0"),
        ("dask", {}, "engine dask needs an address"),
        ("dask", {"address": "a:1", "options": {"GPU": "x"}}, "GPU='x'; expected a number"),
        ("ray", {"at_once": 0}, "at_once=0; expected a number of at least 1"),
    ],
)
def test_bad_arguments_of_an_engine_are_named(
    name: str, arguments: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        engines.make(name, **arguments)


def test_the_process_of_a_node_needs_neither_torch_nor_a_cluster_s_library() -> None:
    names = "torch", "ray", "distributed", "submitit"
    code = (
        "import sys, slicekit.engines.ray, slicekit.engines.dask, slicekit.engines.slurm\n"
        f"assert not {set(names)} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Frail(Local):
    """An engine whose first process dies in the middle of a run."""

    shared, tries = True, 3

    def __init__(self) -> None:
        super().__init__()
        self.orders: list[Order] = []

    def start(self, order: Order) -> WorkerJob:
        self.orders.append(order)
        return super().start(order)


class KillFirst(GridWatcher):
    def __init__(self, engine: Frail) -> None:
        self.engine, self.lost = engine, list[str]()

    def moved(self, standing: Standing) -> None:
        if not self.lost and standing.steps.get(FIRST, 0) > 4:
            self.engine._jobs[-1].worker.stop()

    def restarted(self, name: str, why: str) -> None:
        self.lost.append(f"{name}: {why}")


def test_a_run_that_is_lost_goes_on_from_its_checkpoint(whole: Path, tmp_path: Path) -> None:
    engine = Frail()
    watch = KillFirst(engine)
    conduct(STUDY, CHOICE, tmp_path, engine=engine, watch=watch)
    assert set(watch.lost) == {f"{FIRST}: its process ended by signal 9"}
    assert len(engine.orders) == 2 + len(watch.lost)
    assert results(tmp_path) == results(whole)


class Gone(Job):
    def answer(self) -> Answer:
        return Answer("its node is no more", lost=True)


class Doomed(Engine):
    """An engine all of whose nodes die at once."""

    at_once = 2

    def __init__(self) -> None:
        self.starts = 0

    def open(self, folder: Path) -> None: ...

    def start(self, order: Order) -> Job:
        self.starts += 1
        return Gone()

    def close(self) -> None: ...


def test_a_run_that_is_lost_in_one_place_again_and_again_has_failed(tmp_path: Path) -> None:
    engine = Doomed()
    standing = conduct(STUDY, CHOICE, tmp_path, engine=engine)
    assert standing.failures == dict.fromkeys((FIRST, SECOND), "its node is no more")
    assert engine.starts == 2 * engine.tries


def test_a_node_that_does_not_see_the_study_s_folder_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slicekit.studies.worker.ATTENTION", 0.2)
    plan = STUDY.wanted(CHOICE, {})[0].as_dict()
    mark = tmp_path / "study" / "mark"
    order = {"plan": plan, "folder": str(tmp_path / "run")}
    for there in (False, True):  # nothing is there, or what another study has left
        if there:
            mark.parent.mkdir()
            mark.write_text("process 1 on another")
        fault, lost = _do(order | {"seen": {"path": str(mark), "content": "process 2 on this"}})
        assert fault is not None and not lost
        assert f"does not see {mark.parent} as the study does" in fault
    assert not (tmp_path / "run").exists()
