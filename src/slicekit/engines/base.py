"""What an engine is: a place where runs are done, each as an order that it answers.

An *order* is plain data, as JSON holds it: `plan`, the run; `folder`, where it lives; `device`;
`patience`, seconds to wait for another writer of the folder; `seen`, a file and its content, by
which a node tells whether it sees the same folders as the study.
"""

import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any
from urllib.parse import urlsplit

Order = dict[str, Any]

CONNECTING = 60.0
"""Seconds to wait for a cluster that does not answer."""

MANY = 64
"""How many runs a cluster is given at a time, unless told otherwise; it queues what is too much."""


class Unreachable(ConnectionError):
    """A cluster that does not answer, or does no more."""


@dataclass(frozen=True)
class Answer:
    """What an engine says of a run that has ended.

    Args:
        fault: why it failed, None if it did not.
        lost: whether it was not the run that failed but where it was done: its process or its node
            is no more. It can go on elsewhere from its last checkpoint.
    """

    fault: str | None = None
    lost: bool = False


class Job(ABC):
    """An order that was given."""

    @abstractmethod
    def answer(self) -> Answer | None:
        """How the run has ended, None as long as it goes on; never waits.

        Raises:
            Unreachable: if the cluster is no more.
        """


class Engine(ABC):
    """Where runs are done. A context: within it orders are taken, and at its end all of them end.

    Attributes:
        shared: whether runs are done on other machines, which must see the study's folder.
        tries: how often a run may be lost without a new checkpoint before that is a failure.
        at_once: how many orders it takes at a time.
    """

    shared: bool = True
    tries: int = 3
    at_once: int

    @abstractmethod
    def open(self, folder: Path) -> None:
        """Get ready.

        Args:
            folder: of the study, for what the engine itself has to write.

        Raises:
            ImportError: if its library is missing.
            Unreachable: if the cluster does not answer within a time limit.
        """

    @abstractmethod
    def start(self, order: Order) -> Job:
        """Have a run done."""

    @abstractmethod
    def close(self) -> None:
        """End all runs that go on; they can go on from their last checkpoints."""

    def opened(self, folder: Path) -> "Opened":
        """The engine as a context."""
        return Opened(self, folder)


class Opened:
    """An engine that is ready, until the context ends."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        """Keep both."""
        self._engine, self._folder = engine, folder

    def __enter__(self) -> Engine:
        """Get it ready."""
        self._engine.open(self._folder)
        return self._engine

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all that it does."""
        self._engine.close()


def load(module: str, extra: str) -> ModuleType:
    """The library of an engine, which only those who ask for it need.

    Raises:
        ImportError: if it is missing; the message names the extra.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"engine {extra} needs {module}, which can't be imported ({error}): "
            f"pip install 'slicekit[{extra}]'"
        ) from error


def reach(address: str, forms: str) -> None:
    """See whether anything listens at an address.

    Args:
        address: with a host and a port, perhaps behind a protocol.
        forms: what addresses look like, for the message.

    Raises:
        ValueError: if it is no address.
        OSError: if nothing listens there, or does not answer within a time limit.
    """
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if not parts.hostname or port is None:
        raise ValueError(f"address={address!r}; expected {forms}")
    socket.create_connection((parts.hostname, port), CONNECTING).close()


def attempt(code: str, address: str) -> None:
    """Have a process connect to a cluster that can be ended if it does not come to it.

    Clients of clusters wait for minutes or for ever for one that listens and says nothing, and some
    are deaf to Ctrl-C meanwhile.

    Args:
        code: what connects, to the address that is its argument, and fails if it can't.
        address: of the cluster.

    Raises:
        OSError: if it fails, or takes longer than the time limit.
    """
    try:
        tried = subprocess.run(
            [sys.executable, "-P", "-c", code, address],
            capture_output=True,
            text=True,
            timeout=CONNECTING,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"no answer within {CONNECTING:g} s") from None
    if tried.returncode:
        told = [line.strip() for line in tried.stderr.splitlines() if line.strip()]
        raise OSError(told[-1] if told else f"code {tried.returncode}")


def check_number(name: str, value: object, least: float) -> None:
    """Raise ValueError unless an option of an engine is a number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
        raise ValueError(f"{name}={value!r}; expected a number of at least {least:g}")


def shortly(error: BaseException) -> str:
    """An error in one line, without the traces that clusters put into theirs.

    >>> shortly(ValueError("no such node\\n  at line 3"))
    'ValueError: no such node'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
