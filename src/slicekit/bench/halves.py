"""Layers in half precision: forward and backward in bfloat16 under autocast, beside float32.

`python -m slicekit.bench.halves` prints the ratio for every structure and every way to call one.
"""

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import slicekit as sk
from slicekit.bench.problems import Shape, still_layer
from slicekit.bench.timing import (
    Effort,
    Times,
    clocked,
    keep_freed_memory,
    threads,
    time_in_turns,
)
from slicekit.structures import Structure

VOCABULARY = 60
BY_POSITION, BY_TOKENS = Shape(32, 256, 128), Shape(256, 20, 128)

STRUCTURES: dict[str, Callable[[int], Structure]] = {
    "blocks of 4": lambda dim: sk.BlockDiagonal(dim, 4),
    "rotations of 4": lambda dim: sk.Orthogonal(dim, 4),
    "diagonal": sk.Diagonal,
    "diagonal-dense": lambda dim: sk.DiagonalDense(dim, 16),
    "Walsh-Hadamard": sk.WalshHadamard,
    "joint DPLR, r = 4": lambda dim: sk.JointDPLR(dim, 4),
    "DPLR, r = 1": lambda dim: sk.DPLR(dim, 1),
    "sparse, 0.1": lambda dim: sk.Sparse(dim, density=0.1),
}


@dataclass(frozen=True)
class Way:
    """How a layer is called.

    Attributes:
        name: what the table says.
        padded: with sequences of half to all of the length.
        projective: as directions.
        tokens: with a table of `VOCABULARY` rows.
        parameters: with its own parameters in bfloat16 too.
    """

    name: str
    padded: bool = False
    projective: bool = False
    tokens: bool = False
    parameters: bool = False

    @property
    def shape(self) -> Shape:
        """The sizes that it is measured at."""
        return BY_TOKENS if self.tokens else BY_POSITION


WAYS = (
    Way("plain"),
    Way("parameters too", parameters=True),
    Way("padded", padded=True),
    Way("projective", projective=True),
    Way("tokens", tokens=True),
    Way("projective tokens", tokens=True, projective=True),
)


def autocast_times(structure: Structure, way: Way, shape: Shape, effort: Effort) -> Times:
    """A layer forward and backward, with its input and outputs in float32 and, under autocast, in
    bfloat16: the times of "float32" and "bfloat16".
    """
    layer = still_layer(shape.dim, structure, way.projective)
    values = torch.randn(*((VOCABULARY,) if way.tokens else (shape.batch, shape.length)), shape.dim)
    index = torch.randint(VOCABULARY, (shape.batch, shape.length))
    cotangent = torch.randn(shape.batch, shape.length, shape.dim)
    lengths = torch.randint(shape.length // 2, shape.length + 1, (shape.batch,))

    def both_ways(dtype: torch.dtype) -> Callable[[], object]:
        half = dtype is torch.bfloat16
        held = deepcopy(layer).to(dtype) if half and way.parameters else layer
        leaf, pulled = values.to(dtype).requires_grad_(), cotangent.to(dtype)
        leaves = [leaf, *held.parameters()]

        def run() -> object:
            given: Any = sk.Tabulated(leaf, index) if way.tokens else leaf
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                h: Tensor = held(given, lengths=lengths if way.padded else None)
            return torch.autograd.grad(h, leaves, pulled)

        return run

    runs = {"float32": both_ways(torch.float32), "bfloat16": both_ways(torch.bfloat16)}
    with threads(1):
        seconds = {name: clocked(run, time.process_time) for name, run in runs.items()}
    return time_in_turns(runs, effort, seconds)


def races(effort: Effort) -> Iterator[tuple[str, Way, Times]]:
    """Every structure in every way; a quick one in the first."""
    for name, of_dim in STRUCTURES.items():
        for way in WAYS[:1] if effort.quick else WAYS:
            yield name, way, autocast_times(of_dim(way.shape.dim), way, way.shape, effort)


def main() -> None:
    """Print the table."""
    keep_freed_memory()
    rounds = Effort(rounds=25, wall_rounds=1, budget=15.0, limit=20.0)
    print("| bfloat16 / float32 |", " | ".join(way.name for way in WAYS), "|")
    print("|---|" + "---|" * len(WAYS))
    row: list[str] = []
    for name, _, times in races(rounds):
        row.append(f"{times.ratio('bfloat16', 'float32')[0]:.2f}")
        if len(row) == len(WAYS):
            print(f"| {name} |", " | ".join(row), "|", flush=True)
            row = []


if __name__ == "__main__":
    main()
