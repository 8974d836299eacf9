"""One process, or several that `torchrun` started, which share out every batch.

All processes draw the same joint batch and take their own sequences of it, or their own part of
these. What they compute is added up, so that several processes do what one would do alone.
"""

import atexit
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from slicekit.descriptions.checks import check_whole
from slicekit.parallel.failures import LostRank
from slicekit.tasks.base import Batch

T = TypeVar("T")

_engine_groups: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

LIMIT = timedelta(minutes=10)
"""How long a process waits for the others; one that has died is noticed at once."""

PARTING = 0.2
"""Seconds before a process of several ends. A thread of gloo lets go of the last message only after
everyone has it, and needs the interpreter for that: without one, it aborts the process."""


@dataclass(frozen=True)
class Parallel:
    """What several processes share out.

    Args:
        data: into how many shares the sequences of a batch go; None for as many as there are
            processes for.
        sequence: into how many parts each sequence is cut; a model then runs as
            `slicekit.parallel.shard` lets it.

    Raises:
        TypeError, ValueError: if a number is not whole, or below 1.

    Example:
        >>> Parallel.parse("data=2,sequence=3").processes
        6
    """

    data: int | None = None
    sequence: int = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("data", "sequence"):
            value = getattr(self, name)
            if value is None and name == "data":
                continue
            check_whole(name, value, of=int)

    @property
    def processes(self) -> int:
        """How many it takes, at least."""
        return (self.data or 1) * self.sequence

    @classmethod
    def parse(cls, text: str) -> "Parallel":
        """From words such as "data=2,sequence=2".

        Raises:
            ValueError: if they are others.
        """
        numbers: dict[str, int] = {}
        for pair in text.split(","):
            name, equals, number = (word.strip() for word in pair.partition("="))
            known = name in ("data", "sequence") and name not in numbers
            if not (known and equals and number.isdecimal()):
                raise ValueError(
                    f"parallel={text!r}; expected data=N, sequence=N or both, as in "
                    "data=2,sequence=2"
                )
            numbers[name] = int(number)
        return cls(**numbers)


class Processes:
    """This process and its fellows; this class itself is a process alone, and does nothing."""

    rank = 0
    """The number of this process; the first one, 0, writes the run folder."""
    count = 1
    """How many there are."""
    sequence = 1
    """Into how many parts each sequence is cut; neighbours in number have parts of the same."""

    @property
    def shares(self) -> int:
        """Into how many shares the sequences of a batch go."""
        return self.count // self.sequence

    def rows(self, batch: int) -> slice:
        """Which sequences of a joint batch are this process's."""
        share = self.rank // self.sequence
        return slice(share * batch // self.shares, (share + 1) * batch // self.shares)

    def cut_for(self, model: nn.Module) -> AbstractContextManager[None]:
        """Let a model run on parts of sequences, if they are cut, while the context lasts."""
        return nullcontext()

    def scan_for(self, layer: nn.Module) -> Any:
        """How a layer's recurrence is carried over cut sequences; None if they are whole."""
        return None

    def own(self, joint: Batch) -> Batch:
        """This process's sequences of a joint batch, or its part of them.

        Raises:
            ValueError: if they are too short to be cut.
        """
        return joint.part(self.rows(len(joint.lengths)))

    def add_up(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over all processes."""
        return

    def engine(self, objective: nn.Module) -> nn.Module:
        """A module, to be called instead: its weights are then those of the first process."""
        return objective

    def backward(self, total: Tensor) -> None:
        """Add to each parameter's gradient that of the sum of all processes' totals.

        Args:
            total: a scalar that the engine gave.
        """
        total.backward()

    def share(self, joint: Batch) -> float:
        """What this process's part of a joint batch counts for in a mean over all positions."""
        return 1.0

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all processes, which have one shape."""
        return [tensor]

    def first(self, action: Callable[[], T]) -> T:
        """Let the first process act, and give its result to all.

        Raises:
            RuntimeError: in the others, if the first one raised an error.
        """
        return action()


class TogetherProcesses(Processes):
    """The processes of `torch.distributed`'s default group, which must be there."""

    def __init__(self, parallel: Parallel | None = None) -> None:
        """Ask for the group's size and this process's place in it."""
        import torch.distributed as dist

        from slicekit.parallel.ranks import Ranks

        self._dist, self._ranks = dist, Ranks()
        self.rank, self.count = self._ranks.rank, self._ranks.count
        self.sequence = 1 if parallel is None else parallel.sequence
        self._model: nn.Module | None = None  # whose windows bounds have to fall on

    @cached_property
    def mesh(self) -> Any:
        """The processes as a mesh of shares and parts."""
        from torch.distributed.device_mesh import init_device_mesh

        names, kind = ("data", "sequence"), "cuda" if torch.cuda.is_available() else "cpu"
        return init_device_mesh(kind, (self.shares, self.sequence), mesh_dim_names=names)

    def cut_for(self, model: nn.Module) -> AbstractContextManager[None]:
        """Give the model its hooks."""
        from slicekit.parallel.models import while_sharded

        self._model = model
        return nullcontext() if self.sequence == 1 else while_sharded(model, self.mesh)

    def scan_for(self, layer: nn.Module) -> Any:
        """A scan over the processes that have parts of the same sequences."""
        from slicekit.parallel.models import scan_for

        return None if self.sequence == 1 else scan_for(layer, self.mesh)

    def own(self, joint: Batch) -> Batch:
        """This process's sequences, or its part of them."""
        from slicekit.parallel.models import place

        share = super().own(joint)
        if self.sequence == 1:
            return share
        width = joint.inputs.shape[1]
        start, stop = place(width, self.rank % self.sequence, self.sequence, self._model)
        lengths = (share.lengths - start).clamp(0, stop - start)
        if joint.is_series:
            inputs = share.inputs[:, start:stop]
            return Batch(inputs, share.targets, share.supervised, lengths, share.weights)
        columns = [x[:, start:stop] for x in (share.inputs, share.targets, share.supervised)]
        return Batch(columns[0], columns[1], columns[2], lengths, share.weights)

    def add_up(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum; those of one dtype travel together."""
        for dtype in dict.fromkeys(x.dtype for x in tensors):
            alike = [x for x in tensors if x.dtype == dtype]
            joined = self._ranks.add_up("a sum", torch.cat([x.reshape(-1) for x in alike]))
            parts = joined.split([x.numel() for x in alike])
            for x, part in zip(alike, parts, strict=True):
                x.copy_(part.view_as(x))

    def engine(self, objective: nn.Module) -> nn.Module:
        """Under DistributedDataParallel, which adds up gradients while others are computed.

        It has a group to itself: its messages leave when gradients are ready, which need not be at
        the same place among those of sharded layers on all ranks.
        """
        from torch.nn.parallel import DistributedDataParallel

        # A model may have parameters that it does not use. Torch complains where it finds none.
        blank = next(objective.parameters()).detach().new_zeros(())
        objective.register_parameter("unused", nn.Parameter(blank))
        default: Any = self._dist.group.WORLD
        if default not in _engine_groups:
            _engine_groups[default] = self._dist.new_group(timeout=LIMIT)
        with self._ranks.named("the first weights"):
            return DistributedDataParallel(
                objective, process_group=_engine_groups[default], find_unused_parameters=True
            )

    def backward(self, total: Tensor) -> None:
        """By the engine, which takes a mean."""
        with self._ranks.named("gradients"):
            (self.count * total).backward()

    def share(self, joint: Batch) -> float:
        """Its share of the sequences, and of their positions."""
        portion = self.own(joint).inputs.shape[1] / joint.inputs.shape[1]
        return portion / self.shares

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all processes."""
        return self._ranks.gather("what each process has", tensor)

    def first(self, action: Callable[[], T]) -> T:
        """Let the first process act."""
        told: list[Any] = [None, None]
        failure: Exception | None = None
        if self.rank == 0:
            try:
                told[1] = action()
            except Exception as error:
                failure = error
                told[0] = f"{type(error).__name__}: {error}"
        with self._ranks.named("what the first process did"):
            self._dist.broadcast_object_list(told, src=0)
        if failure is not None:
            raise failure
        if told[0] is not None:
            raise RuntimeError(f"the first process stopped with {told[0]}")
        return told[1]


def own_device(device: torch.device) -> torch.device:
    """The device of this process: of several of a kind, each process of a machine has its own.

    Args:
        device: as the user named it; one with a number is taken as it is.
    """
    if device.type != "cuda" or device.index is not None or "LOCAL_RANK" not in os.environ:
        return device
    return torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())


def is_first() -> bool:
    """Whether this process is the first of those that train together, or the only one."""
    group = _group()
    return (int(os.environ.get("RANK", "0")) if group is None else group.get_rank()) == 0


@contextmanager
def joined(device: torch.device, parallel: Parallel | None = None) -> Iterator[Processes]:
    """The processes of this run, by the environment variables that `torchrun` sets.

    A process alone leaves `torch.distributed` untouched. A group that is there already is used; one
    that is made here stays until the process ends, since `torchrun` lets it be made only once.

    Args:
        device: where the model is; gloo serves the CPU, nccl CUDA.
        parallel: what they share out; the sequences of a batch by default.

    Raises:
        ValueError: if there are several processes, and no way to join them on that device; or not
            as many as `parallel` needs.
        LostRank: if the others can't be met.
    """
    if device.type not in ("cpu", "cuda") and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(f"several processes can't train together on {device}; expected one")
    if _group() is None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        import torch.distributed as dist

        backend = "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl"
        try:
            dist.init_process_group(backend, timeout=LIMIT)
        except RuntimeError as error:
            place = ":".join(os.environ.get(x, "?") for x in ("MASTER_ADDR", "MASTER_PORT"))
            raise LostRank(
                f"the other processes did not answer at {place} within {LIMIT.total_seconds():.0f} "
                f"s. torch says: {str(error).splitlines()[0]}"
            ) from error
        atexit.register(time.sleep, PARTING)
    alone = _group() is None
    _check_count(parallel, 1 if alone else _group().get_world_size())
    yield Processes() if alone else TogetherProcesses(parallel)


def _check_count(parallel: Parallel | None, count: int) -> None:
    if parallel is None:
        return
    whole = count % parallel.processes == 0 if parallel.data is None else None
    if not (count == parallel.processes if whole is None else whole):
        raise ValueError(
            f"parallel: data={parallel.data}, sequence={parallel.sequence} needs "
            f"{parallel.processes} processes, but there are {count}; start them by: torchrun "
            f"--nproc-per-node {parallel.processes} -m slicekit train ..."
        )


def _group() -> Any:
    """`torch.distributed`, if it has a group."""
    dist: Any = sys.modules.get("torch.distributed")
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None
