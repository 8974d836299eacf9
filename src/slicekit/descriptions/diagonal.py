"""Diagonal matrices, A^i = diag(d^i), as a description."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from slicekit.descriptions.base import Facts, Start, Started


@dataclass(frozen=True)
class Diagonal(Started):
    """Diagonal A^i of size dim x dim; see `slicekit.Diagonal`."""

    dim: int
    scale: float = field(default=1.0, kw_only=True)
    facts: ClassVar[Facts] = Facts(
        model="D-SLiCE",
        matrix="diag(d)",
        parameters="dω dh",
        recurrent="dω dh",
        composition="dh",
        closed=True,
        expressive=False,
        theorem="Cirone et al. 2024, Theorem 4.3",
        efficient="yes",
        citations=("cirone2024", "gu2022s4d"),
    )

    def starts(self, channels: int, increment: float = 1.0) -> dict[str, Start]:
        """Gaussian entries: {"values": (channels, dim)}."""
        return {"values": Start((channels, self.dim), self.scale)}

    @property
    def commutes(self) -> bool:
        """Diagonal matrices do."""
        return True

    @property
    def largest_block(self) -> int:
        """No row mixes with another."""
        return 1

    @property
    def bracketed(self) -> Any:
        """Brackets are zero."""
        return self

    def step_cost(self, channels: int) -> int:
        """One product for the diagonal, one multiplication an entry."""
        return channels * self.dim + self.dim

    def composition_cost(self) -> int:
        """One multiplication an entry."""
        return self.dim
