"""The tables on the screen, and the figures as JSON."""

import json
import os
import platform
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import slicekit
from slicekit import files, native
from slicekit.bench.contenders import (
    CHUNKED,
    KEPT,
    NO_PEER,
    PEER_PARALLEL,
    RECOMPUTED,
    RECURRENT,
    TOKENS,
)
from slicekit.bench.problems import Shape
from slicekit.bench.races import FLOOR
from slicekit.bench.scaling import Curves
from slicekit.bench.structures import Row
from slicekit.bench.targets import Line
from slicekit.machines import processor

MEBI = 2**20


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    library = native.library()
    return {
        "platform": platform.platform(),
        "processor": processor(),
        "processors": os.cpu_count(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch's instructions": torch.backends.cpu.get_cpu_capability().lower(),
        "slicekit": slicekit.__version__,
        "kernels": native.reason() if library is None else library.isa,
        "torch-slices": _peer_version(),
    }


def _peer_version() -> str:
    try:
        return version("torch-slices")
    except PackageNotFoundError:
        return "not installed"


class Progress:
    """A line on a terminal that says what is being measured, gone before anything is printed."""

    def __init__(self) -> None:
        """Start the clock."""
        self._start = time.monotonic()
        self._shown = sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._start

    def show(self, what: str) -> None:
        """Say what comes next."""
        if self._shown:
            print(f"\r\x1b[K{self.seconds:4.0f} s  {what} ...", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def print_targets_head() -> None:
    """The heading of the table of targets."""
    print("\ntargets: ratio of processor times on one thread (of wall times on two)")
    print(f"{'':<66}{'target':>8}{'measured':>15}")


def print_target(line: Line) -> None:
    """A row of the table of targets."""
    figure = "" if line.value is None else f"{line.value:.2f}"
    figure += "" if line.beside is None else f" ({line.beside:.2f})"
    verdict = line.note if line.value is None else line.verdict
    print(f"{line.target.what:<66}{line.target.sign:>8}{figure:>15}  {verdict}", flush=True)
    if line.value is not None and line.note:
        print(f"  {line.note}", flush=True)


def print_verdict(lines: Iterable[Line]) -> None:
    """How many targets are met."""
    verdicts = [line.verdict for line in lines]
    counts = [f"{verdicts.count(word)} {word}" for word in ("met", "short", "not measured")]
    print(", ".join(counts), flush=True)


COLUMNS = {KEPT: "kept", RECOMPUTED: "recomputed", CHUNKED: "chunked", RECURRENT: "recurrent"}
PEAKS = (KEPT, RECOMPUTED, CHUNKED)


def print_structures_head(shape: Shape) -> None:
    """The heading of a shape's table."""
    print(f"\nstructures at batch {shape.batch}, length {shape.length}, dim {shape.dim}")
    print("time over the floor: processor time on one thread (wall time on two)")
    print("tokens: times faster than per position; peak MiB: kept/recomputed/chunked/torch-slices")
    heads = "".join(f"{head:>15}" for head in (*COLUMNS.values(), "torch-slices"))
    print(f"{'structure':<18}{'floor ms':>9}{heads}{'tokens':>8}{'peak MiB':>18}")


def print_structure(row: Row) -> None:
    """A structure's row."""
    name, dim = row.setting.structure, row.setting.shape.dim
    shown = f"{name}, {dim}" if row.setting.case.dim else name
    cells = "".join(f"{_cell(row, column):>15}" for column in (*COLUMNS, row.peer()))
    milliseconds = 1e3 * row.times.processor[FLOOR]
    print(f"{shown:<18}{milliseconds:>9.1f}{cells}{_tokens(row):>8}{_peaks(row):>18}", flush=True)


def _cell(row: Row, name: str | None) -> str:
    if name is None:
        return "not installed" if row.absent[PEER_PARALLEL] == NO_PEER else "-"
    if name in row.absent:
        return "-"
    if name in row.skipped:
        return f"~{row.over_floor(name):.0f} (one run)"
    ratio, beside = row.times.ratio(name, FLOOR)
    return f"{ratio:.2f}" if beside is None else f"{ratio:.2f} ({beside:.2f})"


def _tokens(row: Row) -> str:
    if TOKENS in row.absent:
        return "-"
    return f"{row.over_floor(RECOMPUTED) / row.over_floor(TOKENS):.1f}"


def _peaks(row: Row) -> str:
    peaks = [row.memory.get(name) for name in (*PEAKS, row.peer() or "")]
    return "/".join("-" if peak is None else f"{peak / MEBI:.0f}" for peak in peaks)


def print_scaling(what: str, sizes: tuple[int, ...], curves: Curves) -> None:
    """Milliseconds and peak MiB of every contender at every size."""
    print(f"\nscaling over {what}: processor ms on one thread, peak MiB in brackets")
    print(f"{what:<8}" + "".join(f"{name:>24}" for name in curves))
    for size in sizes:
        cells = []
        for curve in curves.values():
            cell = f"{1e3 * curve.processor[size]:.1f}" if size in curve.processor else "-"
            cell += f" ({curve.memory[size] / MEBI:.1f})" if size in curve.memory else ""
            cells.append(f"{cell:>24}")
        print(f"{size:<8}" + "".join(cells), flush=True)


def targets_as_data(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """The table of targets."""
    return [
        asdict(line.target)
        | {"value": line.value, "wall": line.beside, "verdict": line.verdict, "note": line.note}
        for line in lines
    ]


def structures_as_data(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The table of structures, times in seconds and memory in bytes."""
    return [
        {
            "structure": row.setting.structure,
            "shape": asdict(row.setting.shape),
            "processor": row.times.processor,
            "wall": row.times.wall,
            "errors": row.errors,
            "skipped": row.skipped,
            "absent": row.absent,
            "memory": row.memory,
        }
        for row in rows
    ]


def curves_as_data(curves: Curves) -> dict[str, Any]:
    """Curves by contender, then by size as text."""
    return {name: asdict(curve) for name, curve in curves.items()}


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write a file that is whole at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, (json.dumps(data, indent=2) + "\n").encode())
