"""Products of generalised reflections, Π_k (I - β_k v_k v_k^T), as a description."""

from dataclasses import dataclass, field
from typing import ClassVar

from slicekit.descriptions.base import Facts, Start, Started
from slicekit.descriptions.checks import check_size


@dataclass(frozen=True)
class Householder(Started):
    """Π_k (I - 2 v_k v_k^T / (1 + |v_k|²)), v_k linear in Δω; see `slicekit.Householder`."""

    dim: int
    count: int
    scale: float = field(default=1.0, kw_only=True)
    linear_instead = "DPLR"
    facts: ClassVar[Facts] = Facts(
        model="Householder products",
        matrix="Π (I - β v vᵀ) - I",
        parameters="dω k dh",
        recurrent="dω k dh",
        composition="k dh a step, in chunks",
        closed=False,
        expressive=False,
        theorem="no state ever grows",
        efficient="tokens",
        citations=("siems2025deltaproduct", "yang2024parallelizing"),
    )

    def __post_init__(self) -> None:
        """Check the number of reflections."""
        check_size("count", self.count)
        super().__post_init__()

    def starts(self, channels: int, increment: float = 1.0) -> dict[str, Start]:
        """Gaussian {"vectors": (channels, count, dim)}, such that a step has |v| near `scale`.

        A reflection then starts half-way, with β |v|² = 1, where its gradient is largest.
        """
        size = self.scale / (increment * (channels * self.dim) ** 0.5)
        return {"vectors": Start((channels, self.count, self.dim), size)}

    def step_cost(self, channels: int) -> int:
        """One product for the vectors, those between them, and their action."""
        return (channels + 2 + self.count) * self.count * self.dim
