"""Runs of several processes: torchrun -m tests.parallel.training_runs CASE FOLDER."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

import slicekit as sk
from slicekit import mixers
from slicekit.layers import Last, Mean
from slicekit.parallel import load_checkpoint, save_checkpoint, shard
from slicekit.training import Watcher, is_first, train
from slicekit.training.processes import Parallel
from tests.training.small import EVERYTHING, Parity, ParityWithPairs, small_model
from tests.training.test_series import a_task

SETTINGS = replace(
    EVERYTHING,
    steps=8,
    batch=6,
    lengths=(5, 10),
    consistency=5.0,
    checkpoint_every=4,
    evaluate_every=4,
)


class Killed(Watcher):
    """Ends one process as a machine would, in the middle of a run."""

    def stepped(self, report: Any) -> None:
        if report.step == 6 and is_first():
            os.kill(os.getpid(), signal.SIGKILL)


def model() -> sk.SequenceModel:
    """A SLiCE, a mixer with a convolution and one that is not linear, in double precision."""
    torch.manual_seed(0)
    blocks = [
        sk.Block(sk.SLiCE(8, sk.BlockDiagonal(8, 4)), 8),
        sk.Block(mixers.Mamba(8, 4), 8),
        sk.Block(mixers.LSTM(8, 8), 8),
    ]
    return sk.SequenceModel(vocabulary=7, outputs=5, width=8, blocks=blocks).double()


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    source = torch.Generator().manual_seed(1)
    return [
        (torch.randint(7, (4, 12), generator=source), torch.randint(5, (4, 12), generator=source))
        for _ in range(count)
    ]


def updates(
    net: Any, optimiser: Any, given: Any, rows: slice, columns: slice, share: float
) -> None:
    """Updates of a model on this rank's part of some batches; its loss is a mean over the whole."""
    for x, y in given:
        optimiser.zero_grad()
        logits = net(x[rows, columns])
        loss = nn.functional.cross_entropy(
            logits.flatten(0, 1).double(), y[rows, columns].flatten(), reduction="sum"
        )
        (loss / x.numel() * share).backward()
        optimiser.step()


def sgd(net: nn.Module) -> torch.optim.Optimizer:
    """With a momentum, so that there is something to remember."""
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


class Recomputed(nn.Module):
    """A block whose inside is computed again in the backward pass."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, *arguments: Any) -> Any:
        # Ranks wait for each other also while they compute again, so none may stop half-way.
        with set_checkpoint_early_stop(False):
            return checkpoint(self.block, *arguments, use_reentrant=False)


def full(net: nn.Module) -> dict[str, torch.Tensor]:
    """Whole parameters, under plain names."""
    found = {}
    for name, p in net.named_parameters():
        spread: Any = p
        whole = spread.full_tensor() if hasattr(p, "full_tensor") else p
        plain = name.removeprefix("module.").replace(".block.", ".")
        found[plain] = whole.detach().clone().contiguous()
    return found


def engines(folder: Path) -> None:
    """DDP and FSDP2, plain and with parts of sequences, mixed precision and recomputation."""
    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    rows, everything = slice(rank * 4 // count, (rank + 1) * 4 // count), slice(None)
    found: dict[str, dict[str, torch.Tensor]] = {}

    net = DistributedDataParallel(model())
    updates(net, sgd(net), batches(3), rows, everything, count)
    found["ddp"] = full(net)

    def spread(net: Any, mesh: Any, **options: Any) -> Any:
        for block in net.blocks:
            fully_shard(block, mesh=mesh, **options)
        return fully_shard(net, mesh=mesh, **options)

    mesh = init_device_mesh("cpu", (count,), mesh_dim_names=("data",))
    net = spread(model(), mesh)
    optimiser = sgd(net)
    updates(net, optimiser, batches(2), rows, everything, count)
    save_checkpoint(folder / "sharded", net, optimiser, step=2)
    updates(net, optimiser, batches(3)[2:], rows, everything, count)
    found["fsdp"] = full(net)

    net = model()
    net.blocks = nn.ModuleList(Recomputed(block) for block in net.blocks)
    net = spread(net, mesh)
    updates(net, sgd(net), batches(3), rows, everything, count)
    found["recomputed"] = full(net)

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    net = spread(model().float(), mesh, mp_policy=policy)
    updates(net, sgd(net), batches(3), rows, everything, count)
    found["mixed"] = full(net)

    # Parameters over all four ranks, sequences over two of them.
    grid = init_device_mesh("cpu", (count // 2, 2), mesh_dim_names=("data", "sequence"))
    half, part = rank // 2, rank % 2
    rows, columns = (
        slice(half * 4 // (count // 2), (half + 1) * 4 // (count // 2)),
        slice(7 * part, 7 + 5 * part),
    )
    net = model()
    shard(net, grid)
    net.blocks = nn.ModuleList(Recomputed(block) for block in net.blocks)
    net = spread(net, mesh)
    updates(net, sgd(net), batches(3), rows, columns, count)
    found["both"] = full(net)
    if rank == 0:
        flat = {f"{kind}/{name}": x for kind, own in found.items() for name, x in own.items()}
        save_file(flat, folder / "engines.safetensors")
    dist.barrier()
    dist.destroy_process_group()


def restored(folder: Path) -> None:
    """The checkpoint of four ranks, on another number of them."""
    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    net: Any = fully_shard(model(), mesh=init_device_mesh("cpu", (count,)))
    optimiser = sgd(net)
    assert load_checkpoint(folder / "sharded", net, optimiser) == 2
    rows = slice(rank * 4 // count, (rank + 1) * 4 // count)
    updates(net, optimiser, batches(3)[2:], rows, slice(None), count)
    found = full(net)
    if rank == 0:
        save_file(found, folder / "restored.safetensors")
    dist.barrier()
    dist.destroy_process_group()


def trained(folder: Path) -> None:
    """Training with data=2, sequence=2."""
    parallel = Parallel(data=2, sequence=2)
    net = small_model(dtype=torch.float64, seed=0)
    train(net, ParityWithPairs(), SETTINGS, folder=folder / "cut", parallel=parallel)


PRESSED = replace(SETTINGS, growth=1.0, isometry=0.5, pressure_at=5, pressure_steps=3)


def carried(kind: str) -> sk.SequenceModel:
    """Two layers whose disturbances are carried: sharded, or from rank to rank, also by gaps."""
    torch.manual_seed(0)
    structure = {"sharded": sk.BlockDiagonal(8, 4), "handed": sk.Sparse(8, density=0.4)}[kind]
    blocks = [
        sk.Block(sk.SLiCE(8, structure), 8),
        sk.Block(sk.SLiCE(8, structure, drive=sk.Differences()), 8),
    ]
    return sk.SequenceModel(vocabulary=3, outputs=3, width=8, blocks=blocks).double()


def pooled(kind: str) -> sk.SequenceModel:
    """A classifier of series, which come in single precision."""
    flow = sk.LogODE(2, 3) if kind == "windows" else None
    torch.manual_seed(0)
    net = sk.SequenceModel(
        channels=2,
        outputs=2,
        width=8,
        mixer=lambda width: sk.SLiCE(
            width, sk.BlockDiagonal(width, 2), drive=sk.Differences(), flow=flow
        ),
        pool=Last() if kind == "last" else Mean(),
    ).double()
    net.register_forward_pre_hook(lambda _, given: (given[0].double(), *given[1:]))
    return net


def on_parts(folder: Path, parallel: Parallel | None) -> None:
    """Runs under pressure, and on series of unequal lengths at irregular times."""
    for kind in ("sharded", "handed"):
        to = folder / kind
        train(carried(kind), Parity(), PRESSED, folder=to, parallel=parallel)
    settings = replace(SETTINGS, lengths=None, penalty=0.0)
    for kind in ("mean", "last", "windows"):
        train(pooled(kind), a_task(), settings, folder=folder / kind, parallel=parallel)


def cut(folder: Path) -> None:
    """Sequences over all ranks."""
    on_parts(folder / "cut", Parallel(data=1, sequence=int(os.environ["WORLD_SIZE"])))


def killed(folder: Path) -> None:
    """The same, of which the first process dies."""
    parallel = Parallel(data=2, sequence=2)
    net, resume = small_model(dtype=torch.float64, seed=0), (folder / "killed").exists()
    watch = None if resume else Killed()
    train(
        *(net, ParityWithPairs(), SETTINGS),
        folder=folder / "killed",
        resume=resume,
        parallel=parallel,
        watch=watch,
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()[sys.argv[1]](Path(sys.argv[2]))
