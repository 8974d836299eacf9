"""Solvers of dh/ds = f(s, h) over one interval, s from 0 to 1, with fixed or adaptive steps.

| here | in Hairer, Nørsett and Wanner |
|---|---|
| `nodes`, `stages`, `weights` | c, A and b of a Runge-Kutta method |
| `slopes` | k_1, k_2, ... |
| `step` | the step size, as a fraction of the interval |

Gradients are those of the steps as they were taken: discretise, then optimise.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor

from slicekit.checks import check_positive
from slicekit.mixers.arguments import check_sizes

Slope: TypeAlias = Callable[[float | Tensor, Tensor], Tensor]
"""f(s, h): s a number or (batch, 1), h (batch, dim) -> (batch, dim)."""


class Method(ABC):
    """An explicit Runge-Kutta method, given by its tableau."""

    nodes: ClassVar[tuple[float, ...]]
    stages: ClassVar[tuple[tuple[float, ...], ...]]
    weights: ClassVar[tuple[float, ...]]


@dataclass(frozen=True)
class ForwardEuler(Method):
    """One slope, at the left end; of order 1."""

    nodes: ClassVar[tuple[float, ...]] = (0.0,)
    stages: ClassVar[tuple[tuple[float, ...], ...]] = ((),)
    weights: ClassVar[tuple[float, ...]] = (1.0,)


@dataclass(frozen=True)
class Heun(Method):
    """The mean of the slopes at both ends; of order 2."""

    nodes: ClassVar[tuple[float, ...]] = (0.0, 1.0)
    stages: ClassVar[tuple[tuple[float, ...], ...]] = ((), (1.0,))
    weights: ClassVar[tuple[float, ...]] = (0.5, 0.5)


@dataclass(frozen=True)
class RungeKutta4(Method):
    """The classical method with four slopes; of order 4."""

    nodes: ClassVar[tuple[float, ...]] = (0.0, 0.5, 0.5, 1.0)
    stages: ClassVar[tuple[tuple[float, ...], ...]] = ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0))
    weights: ClassVar[tuple[float, ...]] = (1 / 6, 1 / 3, 1 / 3, 1 / 6)


class Solver(ABC):
    """A policy: how an interval is crossed.

    Attributes:
        carries: whether a step size has to be carried from one interval to the next.
    """

    carries: ClassVar[bool]

    @property
    @abstractmethod
    def fractions(self) -> tuple[float, ...] | None:
        """Where in the interval slopes are asked for, or None if that depends on the slopes."""

    @abstractmethod
    def integrate(
        self, slope: Slope, h: Tensor, step: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Cross one interval.

        Args:
            slope: f(s, h).
            h: (batch, dim), at s = 0.
            step: (batch,), the step size to begin with, or None for a solver that carries none.

        Returns:
            (batch, dim), at s = 1, and the step size to go on with.
        """


def check_solver(solver: object) -> None:
    """Raise unless it is one."""
    if not isinstance(solver, Solver):
        raise TypeError(f"solver={solver!r}; expected a solver such as FixedStep()")


def keep(where: Tensor, held: Tensor | None, step: Tensor | None) -> Tensor | None:
    """The step size from before in some sequences: where (batch,) bool -> (batch,), or None."""
    return step if held is None or step is None else torch.where(where, held, step)


@dataclass(frozen=True)
class FixedStep(Solver):
    """The same number of equal steps in every interval.

    Args:
        method: `Heun()`, `ForwardEuler()` or `RungeKutta4()`.
        steps: for each interval.

    Example:
        >>> h, _ = FixedStep(RungeKutta4(), steps=4).integrate(lambda s, h: h, torch.ones(1, 1))
        >>> round(h.item(), 4)
        2.7182
    """

    method: Method = Heun()
    steps: int = 1
    carries: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check both."""
        if not isinstance(self.method, Method):
            raise TypeError(f"method={self.method!r}; expected a method such as Heun()")
        check_sizes(steps=self.steps)

    @property
    def fractions(self) -> tuple[float, ...]:
        """The nodes of all steps."""
        every = (self._at(k, node) for k in range(self.steps) for node in self.method.nodes)
        return tuple(dict.fromkeys(every))

    def _at(self, k: int, node: float) -> float:
        return (k + node) / self.steps

    def integrate(
        self, slope: Slope, h: Tensor, step: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """All steps, one after the other."""
        method, size = self.method, 1 / self.steps
        for k in range(self.steps):
            slopes: list[Tensor] = []
            for node, row in zip(method.nodes, method.stages, strict=True):
                slopes.append(slope(self._at(k, node), _move(h, slopes, row, size)))
            h = _move(h, slopes, method.weights, size)
        return h, step


def _move(h: Tensor, slopes: Sequence[Tensor], weights: Sequence[float], size: float) -> Tensor:
    for k, weight in zip(slopes, weights, strict=True):
        if weight:
            h = torch.add(h, k, alpha=weight * size)
    return h


# Dormand and Prince (1980): the last slope of a step is the first of the next.
_NODES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_FOURTH = (5179 / 57600, 0.0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40)
_ERROR = tuple(b - d for b, d in zip((*_STAGES[-1], 0.0), _FOURTH, strict=True))
_SAFETY, _SMALLEST, _LARGEST = 0.9, 0.2, 10.0
_NOW, _BEFORE = 0.7 / 5, 0.4 / 5


@dataclass(frozen=True)
class Adaptive(Solver):
    """Dormand and Prince's method of order 5(4), with steps as large as the tolerances allow.

    Step size and acceptance are each sequence's own, so that its result does not depend on its
    neighbours in the batch; sequences that have arrived wait for the others. The number of steps
    depends on the data, which `torch.compile(fullgraph=True)` can't follow.

    Args:
        rtol: tolerated error of a step, relative to the state.
        atol: tolerated error of a step, absolute.
        most: how many steps an interval may take, rejected ones included.

    Raises:
        RuntimeError: while integrating, if an interval takes more steps, or steps so small that
            they no longer move s.

    Example:
        >>> h, step = Adaptive().integrate(lambda s, h: h, torch.ones(1, 1), torch.ones(1))
        >>> round(h.item(), 3)
        2.718
    """

    rtol: float = 1e-3
    atol: float = 1e-6
    most: int = 4096
    carries: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the tolerances and the limit."""
        check_positive("rtol", self.rtol)
        check_positive("atol", self.atol)
        check_sizes(most=self.most)

    @property
    def fractions(self) -> None:
        """Not known in advance."""
        return None

    def integrate(
        self, slope: Slope, h: Tensor, step: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Steps until every sequence has arrived."""
        wanted = torch.ones_like(h[:, 0]) if step is None else step.detach()
        s = torch.zeros_like(wanted)
        before = torch.ones_like(wanted)  # the error of the last accepted step
        first = slope(s.unsqueeze(-1), h)
        for _ in range(self.most):
            size = torch.minimum(wanted, 1 - s)
            tried, slopes = _attempt(slope, s, h, first, size)
            error = self._error(h, tried, slopes, size)
            moving = s < 1
            accepted = (error <= 1) & moving
            if not bool((accepted | ~moving).all()):
                # Once more without the steps that were rejected: nothing of them, which may have
                # overflowed, stays in the graph.
                tried, slopes = _attempt(slope, s, h, first, torch.where(accepted, size, 0.0))
            h, first = tried, slopes[-1]
            s = torch.where(accepted & (size >= 1 - s), 1.0, torch.where(accepted, s + size, s))
            wanted = _next(wanted, size, error, before, accepted, moving)
            before = torch.where(accepted, error.clamp_min(1e-4), before)
            if not bool((s < 1).any()):
                return h, wanted
            self._check(wanted, s)
        raise RuntimeError(
            f"an interval took more than most={self.most} steps; the field is stiff or not finite, "
            f"or rtol={self.rtol} and atol={self.atol} are too small for {h.dtype}"
        )

    @torch.no_grad()
    def _error(self, h: Tensor, tried: Tensor, slopes: list[Tensor], size: Tensor) -> Tensor:
        """The estimated error of a step over what is tolerated: (batch,), infinite for NaN."""
        difference = size.unsqueeze(-1) * _sum(slopes, _ERROR)
        tolerated = self.atol + self.rtol * torch.maximum(h.abs(), tried.abs())
        error = (difference / tolerated).square().mean(-1).sqrt()
        return torch.where(error.isfinite(), error, torch.inf)

    def _check(self, wanted: Tensor, s: Tensor) -> None:
        smallest = 4 * torch.finfo(s.dtype).eps
        if bool(((wanted < smallest) & (s < 1)).any()):
            raise RuntimeError(
                f"the step size fell below {smallest:.1e} of an interval; the field is stiff or "
                f"not finite, or rtol={self.rtol} and atol={self.atol} are too small for {s.dtype}"
            )


def _attempt(
    slope: Slope, s: Tensor, h: Tensor, first: Tensor, size: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """One step of each sequence: where it leads, and the slopes on the way."""
    slopes, moved = [first], h
    s, size = s.unsqueeze(-1), size.unsqueeze(-1)
    for node, row in zip(_NODES[1:], _STAGES[1:], strict=True):
        moved = h + size * _sum(slopes, row)
        slopes.append(slope(s + node * size, moved))
    return moved, slopes


def _sum(slopes: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    total = slopes[0] * weights[0]
    for k, weight in zip(slopes[1:], weights[1:], strict=True):
        if weight:
            total = torch.add(total, k, alpha=weight)
    return total


@torch.no_grad()
def _next(
    wanted: Tensor, size: Tensor, error: Tensor, before: Tensor, accepted: Tensor, moving: Tensor
) -> Tensor:
    """The next step size, by proportional-integral control; at most the whole interval."""
    error = error.clamp_min(1e-10)
    grown = (_SAFETY * error.pow(-_NOW) * before.pow(_BEFORE)).clamp(_SMALLEST, _LARGEST)
    shrunk = (_SAFETY * error.pow(-1 / 5)).clamp(_SMALLEST, _SAFETY)
    new = size * torch.where(accepted, grown, shrunk)
    # A step that was only cut short by the end of the interval says nothing against a longer one.
    new = torch.where(accepted & (size < wanted), torch.maximum(new, wanted), new)
    return torch.where(moving, new, wanted).clamp_max(1.0)
