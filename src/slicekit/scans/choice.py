"""Which scan runs a recurrence where the user names none."""

import torch

from slicekit.choices import note, noting
from slicekit.scans.base import Recurrence, Scan
from slicekit.scans.chunked.policy import Chunked
from slicekit.scans.native.policy import Native
from slicekit.scans.recurrent import Recurrent
from slicekit.scans.sources import FromTransitions, Source

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
            if not torch.compiler.is_compiling() and noting():
                told = tuple((repr(other), reason) for other, reason in passed)
                note(_said(recurrence.source), repr(scan), told)
            return scan
        passed.append((scan, why))
    raise ValueError("no scan applies: " + "; ".join(f"{scan!r}: {why}" for scan, why in passed))


def asked_for(scan: Scan, recurrence: Recurrence) -> Scan:
    """The scan that the user named."""
    if not torch.compiler.is_compiling() and noting():
        note(_said(recurrence.source), f"{scan!r} (asked for)", ())
    return scan


def _said(source: Source) -> str:
    if isinstance(source, FromTransitions):
        return f"scan of {type(source.transition).__name__}"
    return f"scan of {getattr(source, 'structure', source)!r}"
