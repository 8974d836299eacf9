"""What ranks say to each other, and a clear word where one of them does not answer.

Before the first message of a kind, ranks compare what it will look like over the store through
which they met: messages of different sizes would end a process, or never arrive. After that a
message is one collective. Its time limit is that of the group: `init_process_group(timeout=...)`.
"""

import json
from contextlib import suppress
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from slicekit.parallel.failures import LostRank

PATIENCE = 60
"""Seconds that a rank waits for the others to say what they are about to send."""


class Ranks:
    """The ranks of a group, in the order of the sequence.

    Args:
        group: a process group of torch, or None for all ranks.

    Raises:
        ValueError: if there is no group, or this process is not in it.
    """

    def __init__(self, group: Any = None) -> None:
        """Find this rank's place."""
        if not (dist.is_available() and dist.is_initialized()):
            raise ValueError(
                "group: torch.distributed has no process group; start the ranks by torchrun, or "
                "call torch.distributed.init_process_group"
            )
        self.group: Any = dist.group.WORLD if group is None else group
        self.rank, self.count = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.rank < 0:
            raise ValueError("group: this process is not in it")
        self._agreed = _agreements.setdefault(self.group, _Agreements())

    @property
    def first(self) -> bool:
        """Whether this rank holds the beginning of the sequences."""
        return self.rank == 0

    @property
    def last(self) -> bool:
        """Whether this rank holds their end."""
        return self.rank == self.count - 1

    def agree(self, subject: str, **facts: Any) -> None:
        """Make sure that all ranks are about to send the same kind of message.

        Args:
            subject: what it is about.
            facts: plain data that must be the same on all ranks.

        Raises:
            ValueError: on every rank, if they are not.
            LostRank: if a rank does not come to compare.
        """
        told = json.dumps({"subject": subject} | facts)
        if self.count == 1 or told in self._agreed.known:
            return
        number, self._agreed.number = self._agreed.number, self._agreed.number + 1
        store: Any = dist.distributed_c10d._get_process_group_store(self.group)
        keys = [f"slicekit/{number}/{rank}" for rank in range(self.count)]
        with _named(f"what is known of {subject} ({_shown(told)}, for the first time)"):
            store.set(keys[self.rank], told)
            store.wait(keys, timedelta(seconds=PATIENCE))
            heard = [store.get(key).decode() for key in keys]
        if any(other != told for other in heard):
            raise ValueError(_disagreement(subject, heard))
        self._agreed.known.add(told)

    def _compare(self, subject: str) -> None:
        """After a message that did not arrive: another rank may wait to compare something new.

        Raises:
            ValueError: on this rank and the one that waits, if that is so.
        """
        store: Any = dist.distributed_c10d._get_process_group_store(self.group)
        keys = [f"slicekit/{self._agreed.number}/{rank}" for rank in range(self.count)]
        with suppress(RuntimeError):  # the store may have gone with its process
            waiting = [key for key in keys if store.check([key])]
            if not waiting:
                return
            told = json.dumps({"subject": subject, "message": "of a kind that was known before"})
            store.set(keys[self.rank], told)
            heard = [store.get(key).decode() if key in waiting else told for key in keys]
            raise ValueError(_disagreement(subject, heard))

    def named(self, subject: str) -> "_named":
        """A context in which errors of torch.distributed say what was going on."""
        return _named(subject)

    def gather(self, subject: str, x: Tensor) -> list[Tensor]:
        """The tensors of all ranks, by one collective.

        Args:
            subject: what they are, for messages.
            x: of the same shape and dtype on all ranks, real.

        Raises:
            LostRank: if a rank does not answer.
        """
        if self.count == 1:
            return [x]
        x = x.contiguous()
        gathered = [torch.empty_like(x) for _ in range(self.count)]
        with _named(subject):
            try:
                dist.all_gather(gathered, x, group=self.group)
            except RuntimeError:
                self._compare(subject)
                raise
        return gathered

    def add_up(self, subject: str, x: Tensor) -> Tensor:
        """The sum of the tensors of all ranks."""
        total = x.clone(memory_format=torch.contiguous_format)
        if self.count > 1:
            with _named(subject):
                dist.all_reduce(total, group=self.group)
        return total

    def from_last(self, subject: str, x: Tensor) -> Tensor:
        """What the last rank has; others give a tensor of the same shape."""
        x = x.detach().clone(memory_format=torch.contiguous_format)
        if self.count > 1:
            with _named(subject):
                dist.broadcast(x, group=self.group, group_src=self.count - 1)
        return x

    def send(self, subject: str, x: Tensor, to: int) -> None:
        """Send a tensor to one rank, which must receive it."""
        with _named(subject):
            dist.send(x.contiguous(), group=self.group, group_dst=to)

    def receive(self, subject: str, x: Tensor, source: int) -> Tensor:
        """Fill a tensor with what one rank sends."""
        with _named(subject):
            dist.recv(x, group=self.group, group_src=source)
        return x


class _Agreements:
    """What the ranks of a group have compared, and how often."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.number = 0


_agreements: WeakKeyDictionary[Any, _Agreements] = WeakKeyDictionary()


class _named:
    """Errors of torch.distributed in words that name what was going on."""

    def __init__(self, subject: str) -> None:
        self.subject = subject

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, RuntimeError) and not isinstance(error, LostRank):
            told = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise LostRank(
                f"a rank did not answer while {self.subject} was exchanged: it has ended, or is "
                f"somewhere else in the program. torch says: {told}"
            ) from error


def _disagreement(subject: str, heard: list[str]) -> str:
    each = "; ".join(f"rank {rank} has {_shown(x)}" for rank, x in enumerate(heard))
    return f"ranks disagree on {subject}: {each}"


def _shown(told: str) -> str:
    facts = json.loads(told)
    if facts.pop("subject", None) is None:
        return told
    return ", ".join(f"{name}={value}" for name, value in facts.items())
