"""Forward and backward of `solve` over the floor, for every structure, beside other methods.

    python -m benchmarks.scans                            everything, half an hour or so
    python -m benchmarks.scans --quick                    under two minutes
    python -m benchmarks.scans --structures dense dplr-4 --shapes 32x256x128
    python -m benchmarks.scans --json scans.json

A figure is a contender's time over the floor's (see `benchmarks.floors`): on one thread, by
process time, then in brackets on two threads, by wall time. Contenders take turns and the least
time counts. One that needs more than two seconds a run gets one round; one over the limit is not
timed, and the run by which it was checked is shown instead, as ~140 (one run). With glibc, freed
memory is kept for all contenders alike, so that page faults do not decide (see
`benchmarks.timing.keep_freed_memory`).
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.contenders import (
    CHUNKED,
    NAMES,
    PEER_PARALLEL,
    PEER_RECURRENT,
    RECURRENT,
    TOKENS,
    Contender,
    contenders,
    relative_error,
    torch_slices,
)
from benchmarks.floors import floor
from benchmarks.problems import CASES, QUICK_SHAPES, SHAPES, Case, Problem, Shape
from benchmarks.timing import keep_freed_memory, processor_seconds, threads, wall_seconds

FLOOR = "floor"
SLOW = 2.0
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Effort:
    """How long to measure: rounds on one thread, on two, and seconds a run may take."""

    rounds: int
    wall_rounds: int
    limit: float


FULL, QUICK = Effort(7, 3, 20.0), Effort(2, 1, 0.5)


@dataclass(frozen=True)
class Measurement:
    """One structure at one shape.

    Attributes:
        processor: seconds on one thread for each contender and the floor.
        wall: the same on two threads.
        errors: relative error of each contender against `Recurrent`.
        skipped: contenders that were over the limit, and the seconds that their check took.
    """

    structure: str
    shape: Shape
    processor: dict[str, float]
    wall: dict[str, float]
    errors: dict[str, float]
    skipped: dict[str, float]

    def over_floor(self, name: str) -> float:
        """Processor time over the floor's; of a skipped contender, that of its check."""
        taken = self.processor[name] if name in self.processor else self.skipped[name]
        return taken / self.processor[FLOOR]


def check(
    everyone: dict[str, Contender], expected_from: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Run every contender once: seconds, and relative errors against one of them."""
    seconds: dict[str, float] = {}
    results: dict[str, dict[str, Tensor]] = {}
    with threads(1):
        for name, contender in everyone.items():
            start = time.process_time()
            found = contender.run()
            seconds[name] = time.process_time() - start
            results[name] = contender.common(found)
    expected = results[expected_from]
    return seconds, {name: relative_error(found, expected) for name, found in results.items()}


def warm_up(case: Case, dim: int) -> None:
    """Two steps of every contender, so that no first use of anything is timed."""
    for contender in contenders(Problem.of(case, Shape(1, 2, dim))).values():
        contender.run()


def measure(structure: str, shape: Shape, effort: Effort) -> Measurement:
    """Check all contenders of a problem once, then time them.

    Raises:
        ArithmeticError: if a contender's states or gradients are not those of `Recurrent`.
    """
    warm_up(CASES[structure], shape.dim)
    problem = Problem.of(CASES[structure], shape)
    everyone = contenders(problem)
    seconds, errors = check(everyone, expected_from=RECURRENT)
    wrong = {name: error for name, error in errors.items() if not error < TOLERANCE}
    if wrong:
        raise ArithmeticError(f"{structure} at {shape}, relative to {RECURRENT}: {wrong}")
    skipped = {name: taken for name, taken in seconds.items() if taken > effort.limit}
    timed = {name: contender.run for name, contender in everyone.items() if name not in skipped}
    runs = {FLOOR: floor(problem)} | timed
    single = {name: 1 if seconds.get(name, 0) > SLOW else effort.rounds for name in runs}
    double = {name: min(count, effort.wall_rounds) for name, count in single.items()}
    processor, wall = processor_seconds(runs, single), wall_seconds(runs, double)
    return Measurement(structure, shape, processor, wall, errors, skipped)


HEADS = {
    CHUNKED: "Chunked",
    RECURRENT: "Recurrent",
    PEER_RECURRENT: "slices recurr.",
    PEER_PARALLEL: "slices parallel",
    TOKENS: "tokens, times",
}


def print_head(shape: Shape) -> None:
    """The heading of a shape's table."""
    print(f"\n{shape}")
    heads = "".join(f"{head:>17}" for head in HEADS.values())
    print(f"{'structure':<18}{'floor ms':>9}{heads}{'error':>9}")


def print_row(found: Measurement) -> None:
    """A structure's row."""
    cells = "".join(f"{_cell(found, name):>17}" for name in NAMES)
    worst = max(found.errors.values())
    milliseconds = 1e3 * found.processor[FLOOR]
    print(f"{found.structure:<18}{milliseconds:>9.1f}{cells}{worst:>9.0e}", flush=True)


def _cell(found: Measurement, name: str) -> str:
    if name not in found.errors:
        return "not installed" if CASES[found.structure].peer is not None else "-"
    ratio = found.over_floor(name)
    if name in found.skipped:
        return f"~{ratio:.0f} (one run)"
    if name == TOKENS:
        return f"{found.over_floor(CHUNKED) / ratio:.2f}"
    return f"{ratio:.2f} ({found.wall[name] / found.wall[FLOOR]:.2f})"


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    return {
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
        "torch": torch.__version__,
        "torch-slices": getattr(torch_slices, "__version__", "not installed"),
    }


def write_json(path: Path, found: list[Measurement]) -> None:
    """All figures, with the machine they were measured on."""
    text = json.dumps({"machine": machine(), "measurements": [asdict(x) for x in found]}, indent=2)
    path.write_text(text + "\n")


def _shape(text: str) -> Shape:
    try:
        return Shape.parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not like 32x256x128") from None


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scans",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, shorter sequences")
    parser.add_argument(
        "--shapes", nargs="+", type=_shape, metavar="BATCHxLENGTHxDIM", help="as in 32x256x128"
    )
    parser.add_argument(
        "--structures",
        nargs="+",
        choices=list(CASES),
        metavar="NAME",
        default=list(CASES),
        help=", ".join(CASES),
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print, structure by structure."""
    options = parse(argv)
    effort = QUICK if options.quick else FULL
    shapes = options.shapes or (QUICK_SHAPES if options.quick else SHAPES)
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    print("time over the floor, forward + backward: one thread, process time (two threads, wall)")
    print("tokens: how many times faster than position by position; dense and sparse are at dim 32")
    found: list[Measurement] = []
    for shape in shapes:
        print_head(shape)
        for structure in options.structures:
            found.append(measure(structure, shape, effort))
            print_row(found[-1])
    if options.json is not None:
        write_json(options.json, found)
        print(f"\nwritten to {options.json}")


if __name__ == "__main__":
    keep_freed_memory()
    main()
