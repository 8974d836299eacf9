"""A large diagonal part and one small dense block. D-DE-SLiCE."""

from dataclasses import dataclass, field
from typing import ClassVar

from slicekit.structures.base import Facts, Structure
from slicekit.structures.dense import Dense
from slicekit.structures.diagonal import Diagonal
from slicekit.structures.direct_sum import Composite


@dataclass(frozen=True)
class DiagonalDense(Composite):
    """The direct sum of Diagonal(dim - block) and Dense(block).

    Args:
        dim: size of the state.
        block: size of the dense block, at the bottom right; at most dim.
        scale: passed on to both parts.

    Example:
        >>> DiagonalDense(272, 16).parameter_count(channels=1)
        512
    """

    dim: int
    block: int
    scale: float = field(default=1.0, kw_only=True)
    facts: ClassVar[Facts] = Facts(
        model="D-DE-SLiCE",
        matrix="diag(d) ⊕ full",
        parameters="dω (dh - b + b²)",
        recurrent="dω (dh - b + b²)",
        composition="dh - b + b³",
        closed=True,
        expressive=True,
        theorem="the paper, Theorem on BD-SLiCEs (block growing with dh)",
        citations=("walker2025slices",),
    )

    def __post_init__(self) -> None:
        """Check the sizes."""
        if not 1 <= self.block <= self.dim:
            raise ValueError(f"block={self.block}; expected 1 to dim={self.dim}")
        parts: list[Structure] = [Dense(self.block, scale=self.scale)]
        if self.dim > self.block:
            parts.insert(0, Diagonal(self.dim - self.block, scale=self.scale))
        self.set_parts(parts)
        super().__post_init__()
