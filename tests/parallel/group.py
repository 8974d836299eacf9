"""Ranks for tests: one group of processes that runs any number of cases, each with some of them.

A case is a function at module level, called as case(group, *arguments) on every rank of a group of
so many; what it returns on each rank comes back as a list.
"""

import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch._C._distributed_c10d import TCPStore

MOST = 5
ROOT = str(Path(__file__).parents[2])


class Ranks:
    """Processes that wait for cases."""

    def __init__(self, count: int = MOST, seconds: float = 30) -> None:
        before = os.environ.get("PYTHONPATH", "")
        context = mp.get_context("forkserver")  # what is imported once is there in every process
        os.environ["PYTHONPATH"] = os.pathsep.join(x for x in (ROOT, before) if x)
        context.set_forkserver_preload(["tests.parallel.preloaded"])
        self.pipes = [context.Pipe() for _ in range(count)]
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.store = store
        self.processes = [
            context.Process(target=serve, args=(rank, count, store.port, seconds, far), daemon=True)
            for rank, (_, far) in enumerate(self.pipes)
        ]
        for process in self.processes:
            process.start()

    def run(self, count: int, case: Callable[..., Any], *arguments: Any) -> list[Any]:
        """The results of a case on the first `count` ranks."""
        for near, _ in self.pipes[:count]:
            near.send((count, case, arguments))
        found = []
        for rank, (near, _) in enumerate(self.pipes[:count]):
            if not near.poll(120):
                raise TimeoutError(f"rank {rank} of {count} does not answer")
            found.append(near.recv())
        wrong = [f"rank {rank}:\n{x[1]}" for rank, x in enumerate(found) if x[0] == "error"]
        if wrong:
            raise AssertionError("\n".join(wrong))
        return [x[1] for x in found]

    def close(self) -> None:
        """End the processes."""
        for near, _ in self.pipes:
            near.send(None)
        for process in self.processes:
            process.join(20)
            if process.is_alive():
                process.terminate()


def serve(rank: int, count: int, port: int, seconds: float, pipe: Any) -> None:
    """Join the group and run cases until told to end."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    store = TCPStore("127.0.0.1", port, is_master=False)
    limit = timedelta(seconds=seconds)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=limit)
    groups = {n: dist.new_group(list(range(n)), timeout=limit) for n in range(1, count + 1)}
    while (order := pipe.recv()) is not None:
        some, case, arguments = order
        try:
            pipe.send(("done", case(groups[some], *arguments)))
        except Exception:
            pipe.send(("error", traceback.format_exc()))
    dist.destroy_process_group()
