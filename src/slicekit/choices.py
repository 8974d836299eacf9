"""Which way was taken, and why not the others.

Where there are several ways to compute the same thing, each says what stands in its way, and the
first with nothing in its way is taken. `explain` writes down what was said.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Choice:
    """One choice.

    Attributes:
        what: what was to be computed.
        taken: the way that was taken.
        others: the ways that come before it, and why each was not taken.
    """

    what: str
    taken: str
    others: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        """One line for the way that was taken, and one for each that was not."""
        passed = "".join(f"\n  not {way}: {why}" for way, why in self.others)
        return f"{self.what}: {self.taken}{passed}"


@dataclass(frozen=True)
class Explanation:
    """All choices of a call, each once, in the order in which they were made."""

    choices: tuple[Choice, ...]

    def __str__(self) -> str:
        """Choice by choice."""
        return "\n".join(map(str, self.choices)) or "nothing to choose"


NOTES: ContextVar[list[Choice] | None] = ContextVar("notes", default=None)
"""What was chosen so far; None where nobody asked."""


@contextmanager
def _noting() -> Iterator[list[Choice]]:
    notes: list[Choice] = []
    token = NOTES.set(notes)
    try:
        yield notes
    finally:
        NOTES.reset(token)


def noting() -> bool:
    """Whether someone asked."""
    return NOTES.get() is not None


def note(what: str, taken: str, others: tuple[tuple[str, str], ...]) -> None:
    """Write a choice down, if someone asked."""
    notes = NOTES.get()
    if notes is not None:
        notes.append(Choice(what, taken, others))


def kernel_serves(what: str, obstacle: str | None, otherwise: str = "torch") -> bool:
    """Whether a kernel is taken, where the only other way is the one named."""
    if not torch.compiler.is_compiling() and noting():
        note(what, *(("kernel", ()) if obstacle is None else (otherwise, (("kernel", obstacle),))))
    return obstacle is None


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Which kernels and scans a call takes, and why not the faster ones before them.

    Args:
        function: a layer, a model, or any function that calls slicekit.
        args, kwargs: what to call it with, once and without gradients.

    Example:
        >>> import torch, slicekit as sk
        >>> layer = sk.SLiCE(3, sk.Diagonal(8), scan=sk.Recurrent())
        >>> print(sk.explain(layer, torch.randn(2, 5, 3)))
        scan of Diagonal(dim=8, scale=1.0): Recurrent() (asked for)
    """
    with torch.no_grad(), _noting() as notes:
        function(*args, **kwargs)
    return Explanation(tuple(dict.fromkeys(notes)))
