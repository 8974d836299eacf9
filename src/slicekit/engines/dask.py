"""Runs on a Dask cluster, by Dask's own client."""

import time
import warnings
from collections.abc import Mapping
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
    attempt,
    check_number,
    load,
    reach,
    shortly,
)

TRY = "import distributed, sys; distributed.Client(sys.argv[1], set_as_default=False).close()"
"""What connects, for `attempt`."""


class Dask(Engine):
    """A Dask cluster.

    Args:
        address: of its scheduler, as in tcp://10.0.0.1:8786.
        at_once: how many runs it is given at a time.
        resources: what a run takes of a worker's own resources, by name, as in {"GPU": 1}; without
            any, a run takes one of a worker's threads.
    """

    def __init__(
        self,
        address: str | None = None,
        at_once: int = MANY,
        resources: Mapping[str, float] | None = None,
    ) -> None:
        """Connect to nothing yet."""
        if not address:
            raise ValueError("engine dask needs an address, as in tcp://10.0.0.1:8786")
        check_number("at_once", at_once, 1)
        for name, value in (resources or {}).items():
            check_number(name, value, 0)
        self.address, self.at_once = address, at_once
        self._resources = dict(resources or {})
        self._client: Any = None
        self._futures: list[Any] = []

    def open(self, folder: Path) -> None:
        """Connect."""
        distributed = load("distributed", "dask")
        try:
            reach(self.address, "host:port or tcp://host:port")
            attempt(TRY, self.address)
            self._client = distributed.Client(
                self.address, timeout=CONNECTING, set_as_default=False, name="slicekit"
            )
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        except OSError as error:
            raise Unreachable(
                f"no Dask scheduler at address {self.address}: {shortly(error)}"
            ) from error
        if not any(self._suits(worker["resources"]) for worker in workers):
            taken = ", ".join(f"{name}={x:g}" for name, x in self._resources.items())
            what = f"worker with {taken}" if taken else "worker"
            warnings.warn(
                f"the Dask cluster has no {what}: runs wait until one joins", stacklevel=3
            )

    def _suits(self, resources: Mapping[str, float]) -> bool:
        return all(resources.get(name, 0) >= x for name, x in self._resources.items())

    def start(self, order: Order) -> "_DaskJob":
        """Hand a run to the cluster."""
        future = self._client.submit(
            do, order, pure=False, retries=0, resources=self._resources or None
        )
        self._futures = [earlier for earlier in self._futures if earlier.status == "pending"] + [
            future
        ]
        return _DaskJob(self._client, future)

    def close(self) -> None:
        """Let go of what goes on, which ends it, and of the cluster."""
        if self._client is not None:
            self._client.cancel(self._futures, force=True)
            self._client.close(timeout=CONNECTING)
        self._client, self._futures = None, []


class _DaskJob(Job):
    """A task of the cluster. If its worker dies, Dask itself starts it elsewhere, a few times."""

    def __init__(self, client: Any, future: Any) -> None:
        self._client, self._future = client, future
        self._connected = time.monotonic()

    def answer(self) -> Answer | None:
        status = self._future.status
        if self._client.status == "running":
            self._connected = time.monotonic()
        elif time.monotonic() > self._connected + CONNECTING:
            raise Unreachable(f"the Dask scheduler does not answer for {CONNECTING:g} s")
        if status == "pending" or self._client.status != "running":
            return None
        if status == "finished":
            return Answer(**self._future.result(timeout=CONNECTING))
        if status == "error":
            error = self._future.exception(timeout=CONNECTING)
            return Answer(shortly(error), lost=type(error).__name__ == "KilledWorker")
        return Answer(f"Dask says that it is {status}", lost=True)


def do(order: Order) -> dict[str, Any]:
    """Do a run on a worker of the cluster, unless and until the scheduler lets go of it.

    That is when the study ends, however it does: Dask has no other way to end a task.
    """
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def unwanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    return remote.do(order, unwanted)
