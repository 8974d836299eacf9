"""How do observations become a path between them? Only its derivative is needed.

| here | in the papers |
|---|---|
| `left`, `right` | x_i and x_{i+1}, the observations at both ends of an interval |
| `previous` | x_{i-1} |
| `s` | the fraction of the interval that has passed, in [0, 1] |
| `derivative` | dX/ds |

Both paths are causal: an interval is known as soon as its right end is. The parameter is the number
of the observation, so that irregular times are a channel of the path like any other.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor


class Control(ABC):
    """A policy: the derivative of a path that goes through all observations.

    Attributes:
        bends: whether the derivative depends on the observation before the interval.
    """

    bends: ClassVar[bool]

    @abstractmethod
    def derivative(
        self, s: float | Tensor, previous: Tensor, left: Tensor, right: Tensor
    ) -> Tensor:
        """dX/ds at a fraction of an interval.

        Args:
            s: a number in [0, 1], or a tensor that broadcasts with the observations.
            previous: (..., channels), the observation before the interval; for the first interval
                2 left - right, so that the path comes in straight.
            left: (..., channels), at its left end.
            right: (..., channels), at its right end.

        Returns:
            (..., channels).
        """


@dataclass(frozen=True)
class Linear(Control):
    """Straight lines: dX/ds = right - left.

    Example:
        >>> import torch
        >>> Linear().derivative(0.5, torch.zeros(1), torch.ones(1), torch.tensor([3.0]))
        tensor([2.])
    """

    bends: ClassVar[bool] = False

    def derivative(
        self, s: float | Tensor, previous: Tensor, left: Tensor, right: Tensor
    ) -> Tensor:
        """The same everywhere in the interval."""
        return right - left


@dataclass(frozen=True)
class CubicHermite(Control):
    """Cubic pieces with backward differences as derivatives at the observations.

    dX/ds goes from left - previous to right - left, so the path is continuously differentiable:
    dX/ds = b + (d - b) (4 s - 3 s²), with b = left - previous and d = right - left.

    Example:
        >>> import torch
        >>> previous, left, right = torch.zeros(1), torch.ones(1), torch.tensor([3.0])
        >>> path = CubicHermite()
        >>> [path.derivative(s, previous, left, right).item() for s in (0.0, 1.0)]
        [1.0, 2.0]
    """

    bends: ClassVar[bool] = True

    def derivative(
        self, s: float | Tensor, previous: Tensor, left: Tensor, right: Tensor
    ) -> Tensor:
        """Quadratic in s."""
        before, after = left - previous, right - left
        return before + (after - before) * (s * (4 - 3 * s))
