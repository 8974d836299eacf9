"""One non-zero number a column: permutations and other maps of the rows, times a diagonal."""

from dataclasses import dataclass, field
from typing import ClassVar

from slicekit.descriptions.base import Facts, Start
from slicekit.descriptions.blocks import Blocks
from slicekit.descriptions.checks import check_positive


@dataclass(frozen=True)
class PermutationDiagonal(Blocks):
    """P(Δω) diag(cos θ(Δω)), P with a one in each column; see `slicekit.PermutationDiagonal`."""

    scale: float = field(default=0.1, kw_only=True)
    stay: float = field(default=0.1, kw_only=True)
    angle: float = field(default=0.02, kw_only=True)
    linear_instead = "BlockDiagonal"
    facts: ClassVar[Facts] = Facts(
        model="PD-SSM",
        matrix="P diag(d), one-hot P",
        parameters="dω dh b",
        recurrent="dω dh b",
        composition="dh",
        closed=True,
        expressive=False,
        theorem="no state ever grows",
        efficient="tokens",
        citations=("terzic2025pdssm",),
    )

    def __post_init__(self) -> None:
        """Check the sizes, and that a state stays where it is where nothing moves."""
        check_positive("stay", self.stay)
        super().__post_init__()

    def starts(self, channels: int, increment: float = 1.0) -> dict[str, Start]:
        """Gaussian {"logits": (channels, k, b, b), "angles": (channels, k, b)}.

        The logits of a whole step have standard deviation `scale`, its angles `angle`.
        """
        whole = 1 / (increment * channels**0.5)
        shape = (channels, self.dim // self.block, self.block)
        return {
            "logits": Start((*shape, self.block), self.scale * whole),
            "angles": Start(shape, self.angle * whole),
        }

    def step_cost(self, channels: int) -> int:
        """One product for the logits and angles, and one number a column for the state."""
        return channels * self.dim * (self.block + 1) + self.dim

    def composition_cost(self) -> int:
        """One number a column."""
        return self.dim
