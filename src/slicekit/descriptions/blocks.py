"""Blocks along the diagonal, A^i = BlockDiag(B^i_1, ..., B^i_k), as descriptions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar

from slicekit.descriptions.base import Facts, Start, Started
from slicekit.descriptions.checks import check_size, divisors
from slicekit.descriptions.composite import Composite


@dataclass(frozen=True)
class Blocks(Started):
    """dim / block dense blocks of one size, from which Dense and BlockDiagonal are made."""

    dim: int
    block: int
    scale: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        """Check that the blocks fill the diagonal."""
        check_size("dim", self.dim)
        if not isinstance(self.block, int) or self.block < 1 or self.dim % self.block:
            raise ValueError(
                f"block={self.block} does not divide dim={self.dim}; "
                f"choose one of {divisors(self.dim)}"
            )
        super().__post_init__()

    def starts(self, channels: int, increment: float = 1.0) -> dict[str, Start]:
        """Gaussian entries of variance scale^2 / block: {"blocks": (channels, k, b, b)}."""
        shape = (channels, self.dim // self.block, self.block, self.block)
        return {"blocks": Start(shape, self.scale / self.block**0.5)}

    @property
    def largest_block(self) -> int:
        """All are as large."""
        return self.block

    @property
    def bracketed(self) -> Any:
        """Brackets stay inside the blocks."""
        return self

    def step_cost(self, channels: int) -> int:
        """One product for the blocks, one for the state."""
        return (channels + 1) * self.dim * self.block

    def composition_cost(self) -> int:
        """Σ_j b_j^3."""
        return self.dim * self.block**2


@dataclass(frozen=True)
class BlockDiagonal(Composite):
    """Dense blocks along the diagonal, of one size or of several; see `slicekit.BlockDiagonal`.

    Attributes:
        block_class: what a run of equal blocks is.
    """

    block_class: ClassVar[type] = Blocks
    dim: int = 0
    block: int = 0
    blocks: Sequence[int] | None = None
    scale: float = field(default=1.0, kw_only=True)
    facts: ClassVar[Facts] = Facts(
        model="BD-SLiCE",
        matrix="BlockDiag(B_1, ..., B_k)",
        parameters="dω Σ b²",
        recurrent="dω Σ b²",
        composition="Σ b³",
        closed=True,
        expressive=True,
        theorem="Walker et al. 2025, Theorem 4.1, if max b grows with dh: no fixed b is",
        efficient="yes",
        citations=("walker2025slices", "fan2024advancing"),
    )

    def __post_init__(self) -> None:
        """Check the sizes and gather equal neighbours into runs."""
        if self.blocks is None:
            if not self.dim or not self.block:
                raise ValueError(
                    f"BlockDiagonal got dim={self.dim} and block={self.block}; expected both, or "
                    "blocks"
                )
            runs = [(self.dim, self.block)]
        else:
            sizes = tuple(self.blocks)
            if self.block or self.dim not in (0, sum(sizes)):
                raise ValueError("BlockDiagonal takes either dim and block, or blocks, not both")
            if not sizes or min(sizes) < 1:
                raise ValueError(f"blocks={list(sizes)}; expected a list of positive sizes")
            runs = [(sum(run), size) for size, run in groupby(sizes)]
            object.__setattr__(self, "blocks", sizes)
            object.__setattr__(self, "dim", sum(sizes))
        self.set_parts(self.block_class(dim, block, scale=self.scale) for dim, block in runs)
        super().__post_init__()

    def configuration(self) -> dict[str, object]:
        """The arguments that make this structure again."""
        if self.blocks is None:
            return {"dim": self.dim, "block": self.block, "scale": self.scale}
        return {"blocks": self.blocks, "scale": self.scale}


@dataclass(frozen=True)
class Dense(Composite):
    """Full A^i, one block; see `slicekit.Dense`.

    Attributes:
        block_class: what its block is.
    """

    block_class: ClassVar[type] = Blocks
    dim: int
    scale: float = field(default=1.0, kw_only=True)
    facts: ClassVar[Facts] = Facts(
        model="DE-LNCDE",
        matrix="full",
        parameters="dω dh²",
        recurrent="dω dh²",
        composition="dh³",
        closed=True,
        expressive=True,
        theorem="Cirone et al. 2024, Theorem B.13",
        efficient="yes",
        citations=("cirone2024", "kidger2020"),
    )

    def __post_init__(self) -> None:
        """One block."""
        check_size("Dense has dim", self.dim)
        self.set_parts([self.block_class(self.dim, self.dim, scale=self.scale)])
        super().__post_init__()


@dataclass(frozen=True)
class Orthogonal(Started):
    """Skew-symmetric blocks under the exponential flow; see `slicekit.Orthogonal`."""

    dim: int
    block: int
    angle: float = field(default=math.pi / 3**0.5, kw_only=True)
    exponential_only = True
    facts: ClassVar[Facts] = Facts(
        model="orthogonal SLiCE",
        matrix="BlockDiag(B - Bᵀ)",
        parameters="dω dh (b - 1) / 2",
        recurrent="dω dh b",
        composition="dh b²",
        closed=True,
        expressive=False,
        theorem="isometries: they rotate and never forget",
        efficient="yes",
        citations=("walker2025slices",),
    )

    def __post_init__(self) -> None:
        """Check that the blocks fill the diagonal and can rotate."""
        check_size("dim", self.dim)
        if not isinstance(self.block, int) or self.block < 2 or self.dim % self.block:
            raise ValueError(
                f"block={self.block} does not divide dim={self.dim} or is below 2; "
                f"choose one of {divisors(self.dim, least=2) or 'another dim'}"
            )
        super().__post_init__()

    @property
    def planes(self) -> int:
        """Entries of a block above its diagonal: the planes in which it rotates."""
        return self.block * (self.block - 1) // 2

    def starts(self, channels: int, increment: float = 1.0) -> dict[str, Start]:
        """Gaussian {"angles": (channels, k, b (b - 1) / 2)}, the entries above the diagonal.

        A skew-symmetric block with entries of standard deviation s has angles of root mean square
        s sqrt(b - 1); channels of independent increments add up to sqrt(channels) as much.
        """
        std = self.angle / ((self.block - 1) * channels) ** 0.5 / increment
        return {"angles": Start((channels, self.dim // self.block, self.planes), std)}

    @property
    def largest_block(self) -> int:
        """All are as large."""
        return self.block

    @property
    def bracketed(self) -> Any:
        """Brackets of skew-symmetric blocks are skew-symmetric."""
        return self

    def step_cost(self, channels: int) -> int:
        """One product for the angles, an exponential (about ten products) and the action."""
        k = self.dim // self.block
        return channels * k * self.planes + 10 * self.dim * self.block**2 + self.dim * self.block

    def composition_cost(self) -> int:
        """As for any blocks."""
        return self.dim * self.block**2
