"""How does a layer's input become the increments of its driving path? As in `slicekit.layers`."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from slicekit.descriptions.checks import check_positive, check_whole


@runtime_checkable
class Drive(Protocol):
    """A policy, or a module with parameters of its own: a pytree.

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
    def __call__(self, x: Array, previous: Array | None = None) -> Array:
        """Increments (..., length, channels) of x (..., length, inputs).

        Args:
            x: the elements.
            previous: (..., inputs), the element before the first, if there is one.
        """


class TimeAndInput(eqx.Module):
    """Δω = (1, X) dt: the input is the path's velocity, and time is channel 0. The authors' choice.

    Args:
        dt: length of a step in time.

    >>> TimeAndInput(dt=0.5)(jnp.array([[2.0, 4.0]]))
    Array([[0.5, 1. , 2. ]], dtype=float32)
    """

    dt: float = eqx.field(static=True, default=1 / 40)

    def __check_init__(self) -> None:
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

    def __call__(self, x: Array, previous: Array | None = None) -> Array:
        """(1, X) dt."""
        return jnp.concatenate([jnp.ones_like(x[..., :1]), x], -1) * self.dt


class Differences(eqx.Module):
    """Δω_l = X_l - X_{l-1}: the input is the path itself. For irregular times let X contain time.

    Args:
        times: length of a regular step in time, put before the others as channel 0; None adds no
            such channel.
        origin: whether the path starts at the origin, so that the first increment is X_0 itself
            (after one step in time); otherwise it is zero.
        scale: factor for all increments.

    >>> Differences()(jnp.array([[1.0], [3.0], [2.0]])).ravel()
    Array([ 0.,  2., -1.], dtype=float32)
    """

    times: float | None = eqx.field(static=True, default=None)
    origin: bool = eqx.field(static=True, default=False)
    scale: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
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

    def __call__(self, x: Array, previous: Array | None = None) -> Array:
        """Differences of neighbours, the first from `previous`."""
        if previous is None:
            before = jnp.zeros_like(x[..., :1, :]) if self.origin else x[..., :1, :]
        else:
            before = previous[..., None, :]
        moved = jnp.diff(x, axis=-2, prepend=before)
        if self.times is not None:
            clock = jnp.full_like(x[..., :1], self.times)
            if previous is None and not self.origin:
                clock = clock.at[..., 0, :].set(0)
            moved = jnp.concatenate([clock, moved], -1)
        return moved * self.scale


class Pointwise(eqx.Module):
    """Increments by any function or module of the input, element by element.

    Args:
        module: takes (..., inputs) to (..., channels).
        channels: how many channels it gives.
        scale: typical size of its outputs.
    """

    module: Callable[[Array], Array]
    count: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    def __init__(self, module: Callable[[Array], Array], channels: int, scale: float = 1.0) -> None:
        """Keep the module."""
        check_whole("channels", channels)
        check_positive("scale", scale)
        self.module, self.count, self.scale = module, channels, scale

    @property
    def pointwise(self) -> bool:
        """Yes."""
        return True

    def channels(self, inputs: int) -> int:
        """As declared."""
        return self.count

    def __call__(self, x: Array, previous: Array | None = None) -> Any:
        """module(x)."""
        increments = self.module(x)
        if increments.shape[-1] != self.count:
            raise ValueError(
                f"Pointwise was declared with channels={self.count}, but its module gives "
                f"{increments.shape[-1]}"
            )
        return increments
