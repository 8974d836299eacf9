"""What is timed: the structures, the shapes, and one problem for each pair of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

import slicekit as sk
from slicekit.structures import Parameters, Structure

VOCABULARY = 60
RANK = 4


@dataclass(frozen=True)
class Shape:
    """Sizes of a problem; channels are dim + 1, the time among them."""

    batch: int
    length: int
    dim: int

    @classmethod
    def parse(cls, text: str) -> "Shape":
        """From batch x length x dim, as in 32x256x128."""
        sizes = [int(size) for size in text.split("x")]
        if len(sizes) != 3 or min(sizes) < 1:
            raise ValueError(text)
        return cls(*sizes)

    def __str__(self) -> str:
        return f"batch {self.batch}, length {self.length}, dim {self.dim}"


SHAPES = (Shape(32, 256, 128), Shape(256, 20, 256), Shape(4, 4096, 128))
QUICK_SHAPES = (Shape(32, 256, 128), Shape(32, 20, 256), Shape(4, 512, 128))


@dataclass(frozen=True)
class Case:
    """A structure at any size.

    Attributes:
        make: the structure of a given dim.
        columns: entries of a step's transition that are made from the increments; the floor is
            made of products with this many columns.
        dim: the largest dim it is timed at; transitions of dim^2 entries would fill the memory.
        peer: arguments of torch-slices for the same structure, where it has it.
    """

    make: Callable[[int], Structure]
    columns: Callable[[int], int]
    dim: int | None = None
    peer: Callable[[int], dict] | None = None


def _blocks(block: int) -> Case:
    return Case(
        lambda dim: sk.BlockDiagonal(dim, block),
        lambda dim: dim * block,
        peer=lambda dim: {"block_size": block},
    )


CASES: dict[str, Case] = {
    "diagonal": Case(sk.Diagonal, lambda dim: dim, peer=lambda dim: {"block_size": 1}),
    "block-diagonal-4": _blocks(4),
    "block-diagonal-8": _blocks(8),
    "block-diagonal-16": _blocks(16),
    "dense": Case(sk.Dense, lambda dim: dim**2, dim=32, peer=lambda dim: {"block_size": dim}),
    "diagonal-dense-16": Case(
        lambda dim: sk.DiagonalDense(dim, 16),
        lambda dim: dim - 16 + 16**2,
        peer=lambda dim: {"block_size": 16, "diagonal_dense": True},
    ),
    "dplr-4": Case(lambda dim: sk.DPLR(dim, RANK), lambda dim: dim),
    "joint-dplr-4": Case(lambda dim: sk.JointDPLR(dim, RANK), lambda dim: (1 + 2 * RANK) * dim),
    "sparse-0.1": Case(lambda dim: sk.Sparse(dim, density=0.1), lambda dim: dim**2, dim=32),
    "walsh-hadamard": Case(sk.WalshHadamard, lambda dim: dim),
    "orthogonal-4": Case(lambda dim: sk.Orthogonal(dim, 4), lambda dim: dim // 4 * 6),
}


@dataclass(frozen=True, eq=False)
class Problem:
    """One case at one shape: the same numbers for every contender.

    Attributes:
        scale: size of an increment, so small that states stay finite: 1 / length bounds the drift
            of the time channel, 1 / sqrt(length channels) the spread of the others.
        table: (VOCABULARY, channels), the increments of each token; channel 0 is time.
        index: (batch, length), the tokens.
    """

    case: Case
    shape: Shape
    structure: Structure
    scale: float
    parameters: Parameters
    table: Tensor
    index: Tensor
    initial_state: Tensor
    cotangent: Tensor

    @classmethod
    def of(cls, case: Case, shape: Shape, seed: int = 0) -> "Problem":
        """Draw everything at random; the dim is cut to what the case can take."""
        source = torch.Generator().manual_seed(seed)
        dim = min(shape.dim, case.dim or shape.dim)
        shape = Shape(shape.batch, shape.length, dim)
        channels = dim + 1
        structure = case.make(dim)
        scale = min(1 / shape.length, (shape.length * channels) ** -0.5)
        parameters = structure.init(channels, source, increment=scale)
        table = torch.randn(VOCABULARY, channels, generator=source)
        table[:, 0] = 1
        index = torch.randint(VOCABULARY, (shape.batch, shape.length), generator=source)
        state = torch.randn(dim, generator=source)
        cotangent = torch.randn(shape.batch, shape.length, dim, generator=source)
        return cls(
            case, shape, structure, scale, parameters, table * scale, index, state, cotangent
        )

    @property
    def channels(self) -> int:
        """Channels of the increments."""
        return self.table.shape[1]

    @cached_property
    def increments(self) -> Tensor:
        """(batch, length, channels)."""
        return self.table[self.index]
