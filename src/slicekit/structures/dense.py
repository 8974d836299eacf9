"""Dense matrices: A^i is any dim x dim matrix. DE-LNCDE."""

from dataclasses import dataclass, field
from typing import ClassVar

from slicekit.structures.base import Facts, check_size
from slicekit.structures.block_diagonal import Blocks
from slicekit.structures.direct_sum import Composite


@dataclass(frozen=True)
class Dense(Composite):
    """Full A^i of size dim x dim: block-diagonal with a single block.

    Args:
        dim: size of the state.
        scale: initial entries have standard deviation scale / sqrt(dim).

    Example:
        >>> Dense(8).parameter_count(channels=3)
        192
    """

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
        citations=("cirone2024", "kidger2020"),
    )

    def __post_init__(self) -> None:
        """One block."""
        check_size("Dense has dim", self.dim)
        self.set_parts([Blocks(self.dim, self.dim, scale=self.scale)])
        super().__post_init__()
