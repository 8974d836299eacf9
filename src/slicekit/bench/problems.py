"""What is timed: the structures, the shapes, and one problem for each pair of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

import slicekit as sk
from slicekit.flows import Flow
from slicekit.structures import Parameters, Structure

VOCABULARY = 60
RANK = 4


@dataclass(frozen=True)
class Shape:
    """Sizes of a problem."""

    batch: int
    length: int
    dim: int

    @classmethod
    def parse(cls, text: str) -> "Shape":
        """From batch x length x dim, as in 32x256x128.

        Raises:
            ValueError: if the text is not like that.
        """
        try:
            batch, length, dim = (int(size) for size in text.split("x"))
        except ValueError:
            raise ValueError(f"{text!r} is not like 32x256x128") from None
        if min(batch, length, dim) < 1:
            raise ValueError(f"{text!r} has a size below 1")
        return cls(batch, length, dim)

    def __str__(self) -> str:
        return f"{self.batch}x{self.length}x{self.dim}"


FIRST, SECOND, THIRD = SHAPES = (Shape(32, 256, 128), Shape(256, 20, 256), Shape(4, 4096, 128))


@dataclass(frozen=True)
class Case:
    """A structure at any size.

    Attributes:
        make: the structure of a given dim.
        columns: entries of a step's transition that are made from the increments; the floor is
            made of products with this many columns.
        dim: the largest dim in the table of structures; elsewhere transitions of dim^2 entries
            would fill the memory.
        peer: arguments of torch-slices for the same structure, where it has it.
    """

    make: Callable[[int], Structure]
    columns: Callable[[int], int]
    dim: int | None = None
    peer: Callable[[int], dict[str, Any]] | None = None

    def fitted(self, shape: Shape) -> Shape:
        """A shape, with the dim cut to what the table of structures can take."""
        return Shape(shape.batch, shape.length, min(shape.dim, self.dim or shape.dim))


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


@dataclass(frozen=True)
class Setting:
    """What makes a problem.

    Attributes:
        structure: a key of `CASES`.
        shape: its sizes.
        inputs: channels of the increments, the time among them; 0 for dim + 1.
        flow: None for the structure's own.
    """

    structure: str
    shape: Shape
    inputs: int = 0
    flow: Flow | None = None

    @property
    def case(self) -> Case:
        """The structure at any size."""
        return CASES[self.structure]

    @property
    def channels(self) -> int:
        """Channels of the increments."""
        return self.inputs or self.shape.dim + 1

    @property
    def steps(self) -> int:
        """All steps of all sequences."""
        return self.shape.batch * self.shape.length


@dataclass(frozen=True, eq=False)
class Problem:
    """One setting with numbers: the same for every contender.

    Attributes:
        scale: size of an increment, so small that states stay finite: 1 / length bounds the drift
            of the time channel, 1 / sqrt(length channels) the spread of the others.
        table: (VOCABULARY, channels), the increments of each token; channel 0 is time.
        index: (batch, length), the tokens.
    """

    setting: Setting
    structure: Structure
    scale: float
    parameters: Parameters
    table: Tensor
    index: Tensor
    initial_state: Tensor
    cotangent: Tensor

    @classmethod
    def of(cls, setting: Setting, seed: int = 0) -> "Problem":
        """Draw everything at random."""
        source = torch.Generator().manual_seed(seed)
        shape, channels = setting.shape, setting.channels
        structure = setting.case.make(shape.dim)
        scale = min(1 / shape.length, (shape.length * channels) ** -0.5)
        parameters = structure.init(channels, source, increment=scale)
        table = torch.randn(VOCABULARY, channels, generator=source)
        table[:, 0] = 1
        index = torch.randint(VOCABULARY, (shape.batch, shape.length), generator=source)
        state = torch.randn(shape.dim, generator=source)
        cotangent = torch.randn(shape.batch, shape.length, shape.dim, generator=source)
        return cls(setting, structure, scale, parameters, table * scale, index, state, cotangent)

    @cached_property
    def increments(self) -> Tensor:
        """(batch, length, channels)."""
        return self.table[self.index]


def still_layer(channels: int, structure: Structure, projective: bool = False) -> sk.SLiCE:
    """A layer whose transitions are so close to the identity that no state overflows."""
    layer = sk.SLiCE(channels, structure, projective=projective)
    with torch.no_grad():
        for x in layer.A.parameters():
            x.mul_(1e-3)
    return layer
