"""Runs as jobs of SLURM, by submitit.

submitit passes orders and answers as pickled files. They are in a folder below the study's, made
for one study process alone and closed to other users, and go with it.
"""

import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from slicekit.engines import remote
from slicekit.engines.base import (
    CONNECTING,
    MANY,
    Answer,
    Engine,
    Job,
    Order,
    Unreachable,
    check_number,
    load,
    shortly,
)

CLUSTERS = ("slurm", "local")


class Slurm(Engine):
    """A cluster with SLURM, whose commands (sbatch, sacct, scancel) this machine has.

    Args:
        at_once: how many jobs are submitted at a time.
        cpus, gpus: what a run takes of a node.
        memory: GiB that a run takes, None for the cluster's own default.
        minutes: after which SLURM ends a job; the run goes on in another from its last checkpoint.
        partition, account, qos, constraint: as sbatch takes them.
        cluster: "slurm", or "local" to try the same without SLURM, with processes of this machine.
    """

    def __init__(
        self,
        at_once: int = MANY,
        cpus: int = 1,
        gpus: int = 0,
        memory: float | None = None,
        minutes: int = 24 * 60,
        partition: str | None = None,
        account: str | None = None,
        qos: str | None = None,
        constraint: str | None = None,
        cluster: str = "slurm",
    ) -> None:
        """Submit nothing yet."""
        for name, value, least in (
            ("at_once", at_once, 1),
            ("cpus", cpus, 1),
            ("gpus", gpus, 0),
            ("minutes", minutes, 1),
        ):
            check_number(name, value, least)
        if memory is not None:
            check_number("memory", memory, 0)
        if cluster not in CLUSTERS:
            raise ValueError(f"cluster={cluster!r}; expected one of {', '.join(CLUSTERS)}")
        self.at_once, self._cluster = at_once, cluster
        asked = {
            "timeout_min": minutes,
            "cpus_per_task": cpus,
            "gpus_per_node": gpus or None,
            "mem_gb": memory,
            "slurm_partition": partition,
            "slurm_account": account,
            "slurm_qos": qos,
            "slurm_constraint": constraint,
        }
        self._asked = {name: x for name, x in asked.items() if x is not None}
        self._jobs: list[_SlurmJob] = []
        self._folder: Path | None = None

    def open(self, folder: Path) -> None:
        """See whether there is SLURM."""
        self._submitit = load("submitit", "slurm")
        if self._cluster == "slurm" and shutil.which("sbatch") is None:
            raise Unreachable("no SLURM here: there is no command sbatch on the PATH")
        self._study = folder

    def start(self, order: Order) -> "_SlurmJob":
        """Submit a job."""
        if self._folder is None:
            self._study.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix="slurm-", dir=self._study.resolve()))
            self._executor = self._submitit.AutoExecutor(self._folder, cluster=self._cluster)
            self._executor.update_parameters(name="slicekit", **self._asked)
        try:
            job = _SlurmJob(self._executor.submit(Run(), order))
        except self._submitit.core.utils.FailedSubmissionError as error:
            raise Unreachable(f"SLURM takes no job: {shortly(error)}") from error
        self._jobs = [earlier for earlier in self._jobs if not earlier.ended]
        self._jobs.append(job)
        return job

    def close(self) -> None:
        """Cancel what goes on, and wait until it has ended."""
        for job in self._jobs:
            job.cancel()
        end = time.monotonic() + CONNECTING
        while any(not job.gone() for job in self._jobs) and time.monotonic() < end:
            time.sleep(remote.PAUSE)
        self._jobs = []
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None


class Run:
    """What a job calls, with the way to go on that submitit asks for when its time is up."""

    def __call__(self, order: Order) -> dict[str, Any]:
        """Do a run on this node."""
        return remote.do(order)

    def checkpoint(self, order: Order) -> Any:
        """The same in another job: the run has checkpoints of its own."""
        import submitit

        return submitit.helpers.DelayedSubmission(self, order)


class _SlurmJob(Job):
    """A job of submitit."""

    def __init__(self, job: Any) -> None:
        self._job, self.ended = job, False

    def answer(self) -> Answer | None:
        if not self._job.done():
            return None
        self.ended = True
        try:
            return Answer(**self._job.result())
        except Exception as error:  # whatever the job raised, or why it left no result
            return Answer(f"job {self._job.job_id}: {_last_line(error)}", lost=True)

    def cancel(self) -> None:
        """End it."""
        if not self.ended:
            with suppress(Exception):  # it may have ended by itself
                self._job.cancel(check=False)

    def gone(self) -> bool:
        """Whether nothing of it runs."""
        return self.ended or bool(self._job.done())


def _last_line(error: BaseException) -> str:
    """What submitit says is a trace, whose last line is the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -\t")]
    return lines[-1] if lines else type(error).__name__
