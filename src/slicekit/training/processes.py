"""One process, or several that `torchrun` started, which share out every batch.

All processes draw the same joint batch and take their own sequences of it. What they compute is
added up, so that several processes do what one would do alone.
"""

import atexit
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

PARTING = 0.2
"""Seconds before a process of several ends. A thread of gloo lets go of the last message only after
everyone has it, and needs the interpreter for that: without one, it aborts the process."""


class Processes:
    """This process and its fellows; this class itself is a process alone, and does nothing."""

    rank = 0
    """The number of this process; the first one, 0, writes the run folder."""
    count = 1
    """How many there are."""

    def rows(self, batch: int) -> slice:
        """Which sequences of a joint batch are this process's."""
        return slice(self.rank * batch // self.count, (self.rank + 1) * batch // self.count)

    def add_up(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over all processes."""
        return

    def agree(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by that of the first process."""
        return

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

    def __init__(self) -> None:
        """Ask for the group's size and this process's place in it."""
        import torch.distributed as dist

        self._dist = dist
        self.rank, self.count = dist.get_rank(), dist.get_world_size()

    def add_up(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum; those of one dtype travel together."""
        for dtype in dict.fromkeys(x.dtype for x in tensors):
            alike = [x for x in tensors if x.dtype == dtype]
            joined = torch.cat([x.reshape(-1) for x in alike])
            self._dist.all_reduce(joined)
            parts = joined.split([x.numel() for x in alike])
            for x, part in zip(alike, parts, strict=True):
                x.copy_(part.view_as(x))

    def agree(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by that of the first process."""
        for x in tensors:
            held = x.detach().contiguous()
            self._dist.broadcast(held, src=0)
            x.detach().copy_(held)

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all processes."""
        found = [torch.empty_like(tensor) for _ in range(self.count)]
        self._dist.all_gather(found, tensor)
        return found

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
def joined(device: torch.device) -> Iterator[Processes]:
    """The processes of this run, by the environment variables that `torchrun` sets.

    A process alone leaves `torch.distributed` untouched. A group that is there already is used; one
    that is made here stays until the process ends, since `torchrun` lets it be made only once.

    Args:
        device: where the model is; gloo serves the CPU, nccl CUDA.

    Raises:
        ValueError: if there are several processes, and no way to join them on that device.
    """
    if device.type not in ("cpu", "cuda") and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(f"several processes can't train together on {device}; expected one")
    if _group() is None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        import torch.distributed as dist

        dist.init_process_group("gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl")
        atexit.register(time.sleep, PARTING)
    yield Processes() if _group() is None else TogetherProcesses()


def _group() -> Any:
    """`torch.distributed`, if it has a group."""
    dist: Any = sys.modules.get("torch.distributed")
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None
