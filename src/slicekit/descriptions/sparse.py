"""Sparse matrices, A^i = mask^i ⊙ Gaussian, as a description."""

from dataclasses import dataclass, field
from typing import ClassVar

from slicekit.descriptions.base import Facts, Start, Started

EPSILON = 3 / 7
"""Of the paper's S-SLiCE on A5: 1,024 entries expected at dim 128."""


@dataclass(frozen=True)
class Sparse(Started):
    """A^i with a random pattern of non-zero entries; see `slicekit.Sparse`."""

    dim: int
    density: float | None = None
    epsilon: float | None = None
    scale: float = field(default=1.0, kw_only=True)
    ragged = ("values", "places")
    has_isometries = False
    facts: ClassVar[Facts] = Facts(
        model="S-SLiCE",
        matrix="mask ⊙ full",
        parameters="dω dh^(1+ε)",
        recurrent="dω dh^(1+ε)",
        composition="dh³",
        closed=False,
        expressive=True,
        theorem="Walker et al. 2025, Theorem 4.2",
        efficient="yes",
        citations=("walker2025slices",),
    )

    def __post_init__(self) -> None:
        """Check that at most one of density and epsilon is given, in its range."""
        if self.density is None and self.epsilon is None:
            object.__setattr__(self, "epsilon", EPSILON)
        elif self.density is not None and self.epsilon is not None:
            raise ValueError(
                f"density={self.density}, epsilon={self.epsilon}; expected at most one of them"
            )
        if self.density is not None and not 0 < self.density <= 1:
            raise ValueError(f"density={self.density}; expected a probability in (0, 1]")
        if self.epsilon is not None and not 0 < self.epsilon < 1:
            raise ValueError(f"epsilon={self.epsilon}; expected a number in (0, 1)")
        super().__post_init__()

    @property
    def probability(self) -> float:
        """p, the chance that an entry is kept."""
        if self.density is not None:
            return self.density
        assert self.epsilon is not None
        return round(self.dim ** (self.epsilon - 1), 15)

    @property
    def std(self) -> float:
        """Standard deviation of the entries that are kept."""
        return self.scale / (self.dim * self.probability) ** 0.5

    def starts(self, channels: int, increment: float = 1.0) -> dict[str, Start]:
        """{"values": (expected,)}; which entries are kept is drawn with them."""
        return {"values": Start((self.expected(channels),), self.std)}

    def expected(self, channels: int) -> int:
        """Expected number of kept entries of A^1..A^channels."""
        return round(channels * self.dim**2 * self.probability)

    def parameter_count(self, channels: int) -> int:
        """Expected number of kept entries."""
        return self.expected(channels)

    def step_cost(self, channels: int) -> int:
        """One multiplication for each kept entry, and the action."""
        return self.parameter_count(channels) + self.dim**2
