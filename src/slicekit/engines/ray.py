"""Runs on a Ray cluster, by Ray's own client."""

import warnings
from pathlib import Path
from typing import Any

from slicekit.engines import remote
from slicekit.engines.base import (
    MANY,
    Answer,
    Engine,
    Job,
    Order,
    Unreachable,
    attempt,
    check_number,
    load,
    reach,
    shortly,
)

AUTO = "auto"
"""The cluster that this machine belongs to, or that RAY_ADDRESS names."""

TRY = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False, logging_level='ERROR')"
"""What connects, for `attempt`."""


class Ray(Engine):
    """A Ray cluster.

    Args:
        address: of its head, as in 10.0.0.1:6379 (from a machine of the cluster) or
            ray://10.0.0.1:10001 (from any); None is the cluster that this machine belongs to.
        at_once: how many runs it is given at a time.
        cpus, gpus: what a run takes of a node.
        memory: GiB that a run takes, None to count none.
    """

    def __init__(
        self,
        address: str | None = None,
        at_once: int = MANY,
        cpus: float = 1,
        gpus: float = 0,
        memory: float | None = None,
    ) -> None:
        """Connect to nothing yet."""
        for name, value in (("at_once", at_once), ("cpus", cpus), ("gpus", gpus)):
            check_number(name, value, 1 if name == "at_once" else 0)
        if memory is not None:
            check_number("memory", memory, 0)
        self.address, self.at_once = address or AUTO, at_once
        self._takes: dict[str, Any] = {"num_cpus": cpus, "num_gpus": gpus}
        if memory is not None:
            self._takes["memory"] = int(memory * 2**30)
        self._jobs: list[_RayJob] = []
        self._connected = False

    def open(self, folder: Path) -> None:
        """Connect, unless this process is connected already."""
        self._ray = load("ray", "ray")
        if not self._ray.is_initialized():
            self._try()
            try:
                self._ray.init(self.address, log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, RuntimeError, ValueError, ImportError) as error:
                raise self._unreachable(shortly(error)) from error
            self._connected = True
        self._do = self._ray.remote(remote.do).options(
            max_retries=0, name="slicekit run", **self._takes
        )
        self._warn_of_too_little()

    def _try(self) -> None:
        """See whether a Ray cluster answers, within a time limit."""
        try:
            if self.address != AUTO:
                reach(self.address, "host:port or ray://host:port")
            attempt(TRY, self.address)
        except OSError as error:
            raise self._unreachable(shortly(error)) from error

    def _unreachable(self, why: str) -> Unreachable:
        return Unreachable(f"no Ray cluster at address {self.address}: {why}")

    def _warn_of_too_little(self) -> None:
        """A task that fits on no node waits for ever, which may be what an autoscaler needs."""
        names = {"num_cpus": "CPU", "num_gpus": "GPU"}
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        for node in nodes:
            if all(node.get(names.get(k, k), 0) >= x for k, x in self._takes.items()):
                return
        taken = ", ".join(f"{names.get(k, k)}={x:g}" for k, x in self._takes.items() if x)
        warnings.warn(
            f"no node of the Ray cluster has {taken}: runs wait until one joins", stacklevel=3
        )

    def start(self, order: Order) -> "_RayJob":
        """Hand a run to the cluster."""
        job = _RayJob(self._ray, self._do.remote(order))
        self._jobs = [earlier for earlier in self._jobs if not earlier.ended]
        self._jobs.append(job)
        return job

    def close(self) -> None:
        """Cancel what goes on, and leave the cluster."""
        for job in self._jobs:
            job.cancel()
        self._jobs = []
        if self._connected:
            self._connected = False
            self._ray.shutdown()


class _RayJob(Job):
    """A task of the cluster."""

    def __init__(self, ray: Any, task: Any) -> None:
        self._ray, self._task, self.ended = ray, task, False

    def answer(self) -> Answer | None:
        errors = self._ray.exceptions
        try:
            if not self._ray.wait([self._task], timeout=0)[0]:
                return None
            self.ended = True
            return Answer(**self._ray.get(self._task))
        except errors.RayTaskError as error:
            return Answer(shortly(error.cause or error))
        except errors.RaySystemError as error:
            raise Unreachable(f"the Ray cluster is no more: {shortly(error)}") from error
        except errors.RayError as error:  # of a worker, or a node, that is no more
            return Answer(shortly(error), lost=True)

    def cancel(self) -> None:
        """End it; with force, since what waits for a process hears nothing else."""
        if not self.ended:
            self._ray.cancel(self._task, force=True)
