"""Work and memory of a rank: python -m tests.parallel.measure KIND RANKS BATCH LENGTH DIM BLOCK CHANNELS

`work`: process CPU time of forward and backward of a sharded block-diagonal recurrence over that of
the same part unsharded, transitions made again, runs interleaved, the median of seven, by rank.
`kept`: the same, where transitions may be kept up to the default of 32 MiB.
`memory`: growth of a rank's peak memory over forward and backward; for 1 rank, unsharded.
"""  # noqa: E501

import os
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.multiprocessing.spawn import spawn

import slicekit as sk
from slicekit.parallel import Sharded


def problem(batch: int, length: int, dim: int, block: int, channels: int) -> Any:
    """A structure, its parameters, increments and a first state."""
    torch.manual_seed(0)
    structure = sk.BlockDiagonal(dim, block)
    parameters = {name: x.requires_grad_() for name, x in structure.init(channels).items()}
    increments = torch.randn(batch, length, channels).mul_(0.2 / channels**0.5).requires_grad_()
    return structure, parameters, increments, torch.randn(batch, dim)


def work(ranks: int, batch: int, length: int, *sizes: int, keep: int | None = 0) -> float:
    """Sharded over unsharded."""
    again = sk.Native(keep=keep)
    structure, parameters, increments, state = problem(batch, length // ranks, *sizes)

    def seconds(scan: Any) -> float:
        increments.grad = None
        began = time.process_time()
        sk.solve(structure, parameters, increments, state, scan=scan)[0].sum().backward()
        return time.process_time() - began

    ratios = []
    for _ in range(8):
        alone = seconds(again)
        dist.barrier()
        ratios.append(seconds(Sharded(inner=again)) / alone)
        dist.barrier()
    return sorted(ratios[1:])[3]


def kept(ranks: int, *sizes: int) -> float:
    """Sharded over unsharded, with transitions that are kept where they are few."""
    return work(ranks, *sizes, keep=None)


def memory(ranks: int, batch: int, length: int, *sizes: int) -> float:
    """Bytes."""
    scan = Sharded() if ranks > 1 else None

    def run(batch: int, length: int) -> None:
        structure, parameters, increments, state = problem(batch, length, *sizes)
        sk.solve(structure, parameters, increments, state, scan=scan)[0].sum().backward()

    run(1, 64)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = _peak()
    run(batch, length // ranks)
    return _peak() - before


def _peak() -> int:
    with open("/proc/self/status") as file:
        return next(int(x.split()[1]) * 1024 for x in file if x.startswith("VmHWM"))


def main(rank: int, kind: str, ranks: int, sizes: list[int], found: Any) -> None:
    """One rank."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29733", GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    found.put((rank, {"work": work, "kept": kept, "memory": memory}[kind](ranks, *sizes)))
    dist.barrier()


if __name__ == "__main__":
    kind, *numbers = sys.argv[1:]
    ranks, *sizes = (int(x) for x in numbers)
    found = mp.get_context("spawn").SimpleQueue()
    spawn(main, args=(kind, ranks, sizes, found), nprocs=ranks)
    print(kind, ranks, sizes, [x for _, x in sorted(found.get() for _ in range(ranks))])
