"""Which scan runs a recurrence where the user names none."""

import torch

from slicekit.choices import note, noting
from slicekit.scans.base import Recurrence, Scan
from slicekit.scans.chunked.policy import Chunked
from slicekit.scans.native.policy import Native
from slicekit.scans.recurrent import Recurrent
from slicekit.scans.sources import FromTransitions

BACKENDS: list[Scan] = [Native(), Chunked(), Recurrent()]
"""Scans to choose from, the fastest first: put one of your own where it belongs."""


def fastest(recurrence: Recurrence) -> Scan:
    """The first scan that applies: kernels on a CPU, chunks anywhere, a loop for the unknown.

    Raises:
        ValueError: if none does, saying why for each.
    """
    passed: list[tuple[Scan, str]] = []
    for scan in BACKENDS:
        why = scan.obstacle(recurrence) or scan.reluctance(recurrence)
        if why is None:
            return taken(scan, recurrence, "", *passed)
        passed.append((scan, why))
    raise ValueError("no scan applies: " + "; ".join(f"{scan!r}: {why}" for scan, why in passed))


def taken(scan: Scan, recurrence: Recurrence, how: str, *passed: tuple[Scan, str]) -> Scan:
    """The scan, once it is noted for `explain`, with those that were passed over and why."""
    if not torch.compiler.is_compiling() and noting():
        source = recurrence.source
        what = repr(getattr(source, "structure", source))
        if isinstance(source, FromTransitions):
            what = type(source.transition).__name__
        told = tuple((repr(other), why) for other, why in passed)
        note(f"scan of {what}", repr(scan) + how, told)
    return scan
