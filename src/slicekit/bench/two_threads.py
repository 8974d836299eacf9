"""Layers on two threads, forward and backward, beside the same on one.

`python -m slicekit.bench.two_threads` prints the ratio for every structure at several shapes;
`--beside 2` starts two busy processes first.
"""

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import torch
from torch import Tensor

from slicekit.bench.halves import STRUCTURES
from slicekit.bench.problems import SHAPES, Shape, still_layer
from slicekit.bench.timing import clocked, keep_freed_memory, threads
from slicekit.structures import Structure

SMALLER = (Shape(8, 512, 64), Shape(1, 4096, 128))
"""Beside the benchmark's shapes: a few milliseconds of work, and a single sequence."""
SECONDS, FEWEST, MOST = 3.0, 9, 300
"""For the turns of one layer at one shape, and how many there are."""


def ratio(structure: Structure, shape: Shape, seconds: float = SECONDS) -> float:
    """Median wall time of a layer on two threads over that on one.

    Which of the two has its turn first is drawn by lot: where others want the processor, the
    system takes it away every few milliseconds, and more often from whoever is always second.
    """
    run = both_ways(structure, shape)

    def on(count: int) -> float:
        with threads(count):
            return clocked(run, time.perf_counter)

    counts, lots = [1, 2], random.Random(0)
    turns = seconds / sum(map(on, counts))
    taken: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(min(MOST, max(FEWEST, round(turns)))):
        lots.shuffle(counts)
        for count in counts:
            taken[count].append(on(count))
    return median(taken[2]) / median(taken[1])


def both_ways(structure: Structure, shape: Shape) -> Callable[[], tuple[Tensor, ...]]:
    """A layer with as many channels as rows, on random series."""
    layer = still_layer(shape.dim, structure)
    x, cotangent = torch.randn(2, shape.batch, shape.length, shape.dim)
    leaves = [x.requires_grad_(), *layer.parameters()]
    return lambda: torch.autograd.grad(layer(x), leaves, cotangent)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that do nothing and want a processor each."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m slicekit.bench.two_threads")
    parser.add_argument("--beside", type=int, default=0, help="busy processes (default: none)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each figure")
    options = parser.parse_args(arguments)
    for name in ("beside", "seconds"):
        if not getattr(options, name) >= 0:
            parser.error(f"--{name} {getattr(options, name)}; expected a number of 0 or more")
    keep_freed_memory()
    shapes = (*SHAPES, *SMALLER)
    print("| two threads / one |", " | ".join(map(str, shapes)), "|")
    print("|---|" + "---|" * len(shapes))
    with busy(options.beside):
        for name, of_dim in STRUCTURES.items():
            row = (ratio(of_dim(shape.dim), shape, options.seconds) for shape in shapes)
            print(f"| {name} |", " | ".join(f"{x:.2f}" for x in row), "|", flush=True)


if __name__ == "__main__":
    main()
