"""From continuous time to steps: how dh = (a h + b x) dt becomes h <- ā h + b̄ x.

Glossary:
    rates: a, the diagonal of A, complex.
    steps: Δ, positive.
    transition: ā = exp(Δ a), or its bilinear (Tustin, Crank-Nicolson) approximation.
    gain: b̄ / b, so that h <- transition * h + gain * b x.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.checks import check_positive


class Discretisation(ABC):
    """How a diagonal linear equation is stepped."""

    @abstractmethod
    def discretise(self, rates: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Transition and gain, both of the common shape of complex rates and real steps."""


@dataclass(frozen=True)
class ZeroOrderHold(Discretisation):
    """The input is constant during a step: ā = exp(Δ a), b̄ = (exp(Δ a) - 1) / a b.

    Example:
        >>> rates, steps = torch.tensor([-1.0 + 0j]), torch.tensor([math.log(2)])
        >>> [x.real.item() for x in ZeroOrderHold().discretise(rates, steps)]
        [0.5, 0.5]
    """

    def discretise(self, rates: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Exact for such an input, also where a is close to zero."""
        z = rates * steps
        return z.exp(), steps * mean_of_exponential(z)


@dataclass(frozen=True)
class Bilinear(Discretisation):
    """The trapezium rule: ā = (1 + Δ a / 2) / (1 - Δ a / 2), b̄ = Δ / (1 - Δ a / 2) b.

    Example:
        >>> rates, steps = torch.tensor([-2.0 + 0j]), torch.tensor([1.0])
        >>> [x.real.item() for x in Bilinear().discretise(rates, steps)]
        [0.0, 0.5]
    """

    def discretise(self, rates: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Of modulus at most one wherever a decays."""
        half = rates * steps / 2
        return (1 + half) / (1 - half), steps / (1 - half)


@dataclass(frozen=True)
class StepSizes:
    """Initial step sizes Δ: log-uniform in [low, high], none below the floor.

    Args:
        low: the smallest, dt_min.
        high: the largest, dt_max.
        floor: what smaller ones are raised to, dt_init_floor.

    Example:
        >>> bool((StepSizes(0.01, 0.1).draw(100) >= 0.01).all())
        True
    """

    low: float = 1e-3
    high: float = 0.1
    floor: float = 1e-4

    def __post_init__(self) -> None:
        """Check the range."""
        for name in ("low", "high", "floor"):
            check_positive(name, getattr(self, name))
        if self.low > self.high:
            raise ValueError(f"low={self.low} is above high={self.high}")

    def draw(self, count: int) -> Tensor:
        """Step sizes (count,)."""
        low, high = math.log(self.low), math.log(self.high)
        return torch.empty(count).uniform_(low, high).exp().clamp_min(self.floor)

    def draw_bias(self, count: int) -> Tensor:
        """What softplus sends to step sizes (count,)."""
        steps = self.draw(count)
        return steps + torch.log(-torch.expm1(-steps))


def mean_of_exponential(z: Tensor) -> Tensor:
    """∫_0^1 exp(s z) ds = (exp(z) - 1) / z for complex z, without cancellation near zero.

    >>> mean_of_exponential(torch.zeros(1, dtype=torch.complex64)).real
    tensor([1.])
    """
    near = z.abs() < 0.1
    small, large = torch.where(near, z, 0), torch.where(near, 1, z)
    series = torch.ones_like(small)
    for order in range(11, 1, -1):
        series = 1 + small / order * series
    return torch.where(near, series, (large.exp() - 1) / large)
