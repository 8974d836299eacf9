"""Where does an element stand? Sinusoids to add to it, and rotations of queries and keys.

| here | in the papers |
|---|---|
| `positions` | pos (Vaswani et al. 2017), m (Su et al. 2021), counted from 0 |
| `frequencies` | 10000^(-2i/d), θ_i |
| `SinusoidalPositions` | PE(pos, 2i) = sin(pos θ_i), PE(pos, 2i + 1) = cos(pos θ_i) |
| `Rotary.rotate` | R_{Θ, m}, in the planes of the entries i and i + d/2 |

Angles are computed from positions, never read from a table, so that there is no last one.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicekit.checks import HALF, check_positive
from slicekit.layers.state import State
from slicekit.mixers.arguments import check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.precision import most_exact


def angles(positions: Tensor, size: int, base: float) -> Tensor:
    """Positions times frequencies: (...) int64 -> (..., ceil(size / 2)), in double precision."""
    # A position of 16384 leaves float32 three digits of its angle.
    exact = most_exact(positions.device)
    exponents = torch.arange(0, size, 2, dtype=exact, device=positions.device) / size
    return positions.to(exact).unsqueeze(-1) * base**-exponents


@dataclass(frozen=True)
class Rotary:
    """Rotary positions: scores of queries and keys depend on the difference of their positions.

    Args:
        base: of the frequencies.

    Example:
        >>> q, positions = torch.randn(1, 2, 5, 8), torch.arange(5).unsqueeze(0)
        >>> torch.allclose(Rotary().rotate(q, positions).norm(dim=-1), q.norm(dim=-1))
        True
    """

    base: float = 10000.0

    def __post_init__(self) -> None:
        """Check the base."""
        check_positive("base", self.base)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys of every head, rotated.

        Args:
            x: (batch, heads, length, size), size even.
            positions: (batch, length) int64.

        Returns:
            (batch, heads, length, size).
        """
        work = torch.float32 if x.dtype in HALF else x.dtype
        turn = angles(positions, x.shape[-1], self.base).unsqueeze(1)
        cosine, sine = turn.cos().to(work), turn.sin().to(work)
        a, b = x.to(work).chunk(2, -1)
        return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1).to(x.dtype)


class SinusoidalPositions(Mixer):
    """Adds sinusoids of the position to each element; stands before the first block of a model.

    Args:
        width: size of an element.
        base: of the frequencies.

    Example:
        >>> SinusoidalPositions(4)(torch.zeros(1, 2, 4))[0, 0]
        tensor([0., 1., 0., 1.])
    """

    citations = ("vaswani2017",)

    def __init__(self, width: int, base: float = 10000.0) -> None:
        """Store the size."""
        super().__init__()
        check_sizes(width=width)
        check_positive("base", base)
        self.channels = self.outputs = self.width = width
        self.base = base

    def start(self, batch: int, like: Tensor) -> State:
        """Nothing seen yet."""
        return State({"seen": like.new_zeros(batch, dtype=torch.int64)})

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """x + PE."""
        length, seen = x.shape[1], state["seen"]
        positions = seen.unsqueeze(1) + torch.arange(length, device=x.device)
        turn = angles(positions, self.width, self.base)
        waves = torch.stack([turn.sin(), turn.cos()], -1).flatten(-2)[..., : self.width]
        after = State({"seen": seen + (length if lengths is None else lengths)})
        return x + waves.to(x.dtype), after

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this module again."""
        return {"width": self.width, "base": self.base}
