"""Walsh-Hadamard matrices, A^i = H diag(d^i), as a description."""

from dataclasses import dataclass, field
from typing import ClassVar

from slicekit.descriptions.base import Facts, Start, Started
from slicekit.descriptions.checks import is_power_of_two


@dataclass(frozen=True)
class WalshHadamard(Started):
    """H diag(d^i); see `slicekit.WalshHadamard`."""

    dim: int
    bounded: bool = True
    scale: float = field(default=1.0, kw_only=True)
    has_isometries = False
    facts: ClassVar[Facts] = Facts(
        model="WH-SLiCE",
        matrix="H diag(d)",
        parameters="dω dh",
        recurrent="dω dh + dh log dh",
        composition="dh³",
        closed=False,
        expressive=True,
        theorem="Walker et al. 2025, Theorem 4.3",
        efficient="yes",
        citations=("walker2025slices", "sylvester1867"),
    )

    def __post_init__(self) -> None:
        """Check that dim is a power of two."""
        if self.dim >= 1 and not is_power_of_two(self.dim):
            lower = 2 ** (self.dim.bit_length() - 1)
            raise ValueError(f"dim={self.dim} is no power of two; choose {lower} or {2 * lower}")
        super().__post_init__()

    def starts(self, channels: int, increment: float = 1.0) -> dict[str, Start]:
        """Gaussian {"values": (channels, dim)}."""
        return {"values": Start((channels, self.dim), self.scale)}

    def step_cost(self, channels: int) -> int:
        """The diagonal's product, a scaling and the transform's additions."""
        return channels * self.dim + self.dim * (1 + (self.dim - 1).bit_length())
