"""Diagonal plus low rank, linear in Δω or jointly quadratic, as descriptions."""

from dataclasses import dataclass, field
from typing import ClassVar

from slicekit.descriptions.base import Facts, Start, Started
from slicekit.descriptions.checks import check_rank


def _starts(channels: int, dim: int, rank: int, scale: float) -> dict[str, Start]:
    """Gaussian diagonal and factors, such that U V^T has entries of variance scale^4 / dim."""
    factor = scale / (dim * rank) ** 0.25
    return {
        "diagonal": Start((channels, dim), scale),
        "left": Start((channels, dim, rank), factor),
        "right": Start((channels, dim, rank), factor),
    }


@dataclass(frozen=True)
class DPLR(Started):
    """diag(d^i) + Σ_j u^{i,j} (v^{i,j})^T, linear in Δω; see `slicekit.DPLR`."""

    dim: int
    rank: int
    scale: float = field(default=1.0, kw_only=True)
    facts: ClassVar[Facts] = Facts(
        model="DPLR-SLiCE",
        matrix="diag(d) + Σ u vᵀ",
        parameters="dω r dh",
        recurrent="dω r dh",
        composition="dh³",
        closed=False,
        expressive=True,
        theorem="Movahedi et al. 2025, Proposition D.2, if r grows with dh",
        efficient="yes",
        citations=("movahedi2025",),
    )

    def __post_init__(self) -> None:
        """Check the rank."""
        check_rank(self.rank, self.dim)
        super().__post_init__()

    def starts(self, channels: int, increment: float = 1.0) -> dict[str, Start]:
        """Gaussian {"diagonal": (channels, dim), "left" and "right": (channels, dim, rank)}."""
        return _starts(channels, self.dim, self.rank, self.scale)

    def step_cost(self, channels: int) -> int:
        """The diagonal's product and the two with the factors."""
        return (channels + 1) * self.dim + 2 * channels * self.rank * self.dim


@dataclass(frozen=True)
class JointDPLR(Started):
    """diag(D(Δω)) + U(Δω) V(Δω)^T, quadratic in Δω; see `slicekit.JointDPLR`."""

    dim: int
    rank: int
    scale: float = field(default=1.0, kw_only=True)
    linear_instead = "DPLR"
    facts: ClassVar[Facts] = Facts(
        model="joint DPLR-SLiCE",
        matrix="D(ω) + U(ω) V(ω)ᵀ",
        parameters="dω r dh",
        recurrent="dω r dh",
        composition="r dh a step, in chunks",
        closed=False,
        expressive=True,
        theorem="Movahedi et al. 2025, Proposition D.2, if r grows with dh",
        efficient="yes",
        citations=("movahedi2025", "yang2024parallelizing", "siems2025deltaproduct"),
    )

    def __post_init__(self) -> None:
        """Check the rank."""
        check_rank(self.rank, self.dim)
        super().__post_init__()

    def starts(self, channels: int, increment: float = 1.0) -> dict[str, Start]:
        """Gaussian {"diagonal": (channels, dim), "left" and "right": (channels, dim, rank)}."""
        return _starts(channels, self.dim, self.rank, self.scale)

    def step_cost(self, channels: int) -> int:
        """Three products for D, U and V, and their action."""
        return (channels + 1) * self.dim * (2 * self.rank + 1)
