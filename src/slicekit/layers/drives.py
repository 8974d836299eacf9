"""How does a layer's input become the increments of its driving path?

Glossary: x is the layer's input X; increments are Δω; `channels` maps d_X to d_ω.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from slicekit.checks import HALF, check_positive, check_whole


@runtime_checkable
class Drive(Protocol):
    """A policy, or a module with parameters of its own.

    Attributes:
        scale: typical size of one channel's increment for an input of unit variance.
        pointwise: whether an increment depends on its own element alone, so that discrete tokens
            may be tabulated.
    """

    @property
    def scale(self) -> float:
        """Typical size of an increment."""
        ...

    @property
    def pointwise(self) -> bool:
        """Whether an increment depends on its own element alone."""
        ...

    @abstractmethod
    def channels(self, inputs: int) -> int:
        """Number of channels of the path for an input of that many."""

    @abstractmethod
    def __call__(self, x: Tensor, previous: Tensor | None = None) -> Tensor:
        """Increments (..., length, channels) of x (..., length, inputs).

        Args:
            x: the elements.
            previous: (..., inputs), the element before the first, if there is one.
        """


@dataclass(frozen=True)
class TimeAndInput:
    """Δω = (1, X) dt: the input is the path's velocity, and time is channel 0. The authors' choice.

    Args:
        dt: length of a step in time.

    Example:
        >>> TimeAndInput(dt=0.5)(torch.tensor([[2.0, 4.0]]))
        tensor([[0.5000, 1.0000, 2.0000]])
    """

    dt: float = 1 / 40

    def __post_init__(self) -> None:
        """Check the step."""
        check_positive("dt", self.dt)

    @property
    def scale(self) -> float:
        """dt."""
        return self.dt

    @property
    def pointwise(self) -> bool:
        """Yes."""
        return True

    def channels(self, inputs: int) -> int:
        """One more, for time."""
        return inputs + 1

    def __call__(self, x: Tensor, previous: Tensor | None = None) -> Tensor:
        """(1, X) dt."""
        return nn.functional.pad(x * self.dt, (1, 0), value=self.dt)


@dataclass(frozen=True)
class Differences:
    """Δω_l = X_l - X_{l-1}: the input is the path itself. For irregular times let X contain time.

    Args:
        times: length of a regular step in time, put before the others as channel 0; None adds no
            such channel. Irregular times belong into the input: see `slicekit.paths.with_time`.
        origin: whether the path starts at the origin, so that the first increment is X_0 itself
            (after one step in time); otherwise it is zero.
        scale: factor for all increments.

    Example:
        >>> Differences()(torch.tensor([[1.0], [3.0], [2.0]])).flatten()
        tensor([ 0.,  2., -1.])
    """

    times: float | None = None
    origin: bool = False
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Check the step and the factor."""
        check_positive("scale", self.scale)
        if self.times is not None:
            check_positive("times", self.times)

    @property
    def pointwise(self) -> bool:
        """No: an increment needs the element before."""
        return False

    def channels(self, inputs: int) -> int:
        """One more if there is a time channel."""
        return inputs + (self.times is not None)

    def __call__(self, x: Tensor, previous: Tensor | None = None) -> Tensor:
        """Differences of neighbours, the first from `previous`."""
        if previous is None:
            before = torch.zeros_like(x[..., :1, :]) if self.origin else x[..., :1, :]
        else:
            before = previous.unsqueeze(-2)
        moved = torch.diff(x, dim=-2, prepend=before)
        if self.times is not None:
            clock = torch.full_like(x[..., :1], self.times)
            if previous is None and not self.origin:
                clock = torch.cat([torch.zeros_like(x[..., :1, :1]), clock[..., 1:, :]], -2)
            moved = torch.cat([clock, moved], -1)
        return moved * self.scale


class Pointwise(nn.Module):
    """Increments by any function or module of an element: gates, features, embeddings.

    Non-negative channels, such as softplus gates, let a state forget: S6 and Mamba are driven so.

    Args:
        module: takes (..., inputs) to (..., channels).
        channels: how many channels it gives.
        scale: typical size of its outputs.

    Example:
        >>> gates = Pointwise(nn.Sequential(nn.Linear(3, 5), nn.Softplus()), channels=5)
        >>> gates(torch.zeros(2, 7, 3)).shape
        torch.Size([2, 7, 5])
    """

    pointwise = True

    def __init__(
        self, module: Callable[[Tensor], Tensor], channels: int, scale: float = 1.0
    ) -> None:
        """Keep the module."""
        super().__init__()
        check_whole("channels", channels)
        check_positive("scale", scale)
        self.module = module
        self.scale = scale
        self._channels = channels

    def channels(self, inputs: int) -> int:
        """As declared."""
        return self._channels

    def forward(self, x: Tensor, previous: Tensor | None = None) -> Tensor:
        """module(x), in the module's precision where that is half."""
        held_in = next((p.dtype for p in self.parameters()), x.dtype)
        increments = self.module(x.to(held_in)).to(x.dtype) if held_in in HALF else self.module(x)
        if increments.shape[-1] != self._channels:
            raise ValueError(
                f"Pointwise was declared with channels={self._channels}, but its module gives "
                f"{increments.shape[-1]}"
            )
        return increments
