"""What every mixer has in common: the contract of `SLiCE`, checked in one place."""

import math
import warnings
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.checks import HALF, Lengths, check_floating, check_lengths, check_shape, concrete
from slicekit.layers.state import State
from slicekit.mixers.convolution import ShortConvolution
from slicekit.paths import mask_past_end
from slicekit.scans import Scan


class Mixer(nn.Module, ABC):
    """A causal map of sequences that can be cut anywhere: the parent of all mixers.

    A subclass sets `channels` and `outputs` and writes `start`, `mix` and `configuration`.

    Attributes:
        channels: size of an input element.
        outputs: size of an output element.
        citations: keys of `slicekit.citations`.
        scan: how the steps of its recurrence are run, where it is a linear one; None for the
            fastest way that applies.
        linear: whether all that it carries is the state of a recurrence that `scan` runs, and its
            last `halo` inputs.
    """

    channels: int
    outputs: int
    citations: tuple[str, ...] = ()
    scan: Scan | None = None
    linear: bool = False

    @property
    def halo(self) -> int:
        """How many elements before a part it must have seen, besides the state of its scan."""
        taps = [x.size - 1 for x in self.modules() if isinstance(x, ShortConvolution)]
        return max(taps, default=0)

    @abstractmethod
    def start(self, batch: int, like: Tensor) -> State:
        """The state before the first element.

        Args:
            batch: number of sequences.
            like: a tensor with the dtype (never half precision) and the device to use.
        """

    @abstractmethod
    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Run some elements from a state.

        Args:
            x: (batch, length, channels), length at least 1, zero past the end.
            state: as `start` makes it.
            lengths: (batch,) int64, or None if every element counts. What is past the end must
                change neither the state that is returned nor a gradient; outputs there are free.

        Returns:
            (batch, length, outputs), and the state after the last element of each sequence.
        """

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """The arguments that make this mixer again, but for its parameters."""

    def forward(
        self,
        x: Tensor,
        state: State | None = None,
        lengths: Lengths | None = None,
        return_state: bool = False,
    ) -> Any:
        """Run whole sequences, or parts of them.

        Args:
            x: (batch, length, channels).
            state: where an earlier part ended; None at the start.
            lengths: (batch,) integers; elements past the end change nothing.
            return_state: whether to return the state as well.

        Returns:
            (batch, length, outputs) in the dtype of x; with return_state, (outputs, state).
        """
        check_shape("x", x, ("batch", "length", self.channels))
        check_floating("x", x)
        if x.shape[1] < 1:
            raise ValueError("x has length 0; an empty sequence has no elements")
        given, x = x.dtype, self._in_own_dtype(x)
        if lengths is not None:
            lengths = check_lengths(lengths, x.shape[0], x.shape[1], device=x.device)
            x = mask_past_end(x, lengths)
        y, after = self.mix(x, self._begin(x, state), lengths)
        _warn_if_exploded(type(self).__name__, after)
        return (y.to(given), after) if return_state else y.to(given)

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One element: x (batch, channels) -> (batch, outputs), and the state after it."""
        check_shape("x", x, ("batch", self.channels))
        y, after = self.forward(x.unsqueeze(1), state, None, True)
        return y.squeeze(1), after

    def _in_own_dtype(self, x: Tensor) -> Tensor:
        """x in the dtype of the parameters, where one of both is half precision."""
        held_in = next((p.dtype for p in self.parameters()), x.dtype)
        if held_in == x.dtype:
            return x
        if held_in not in HALF and x.dtype not in HALF:
            raise TypeError(
                f"x has dtype {x.dtype}, but the mixer has {held_in}; expected one dtype"
            )
        return x.to(held_in)

    def _begin(self, x: Tensor, state: State | None) -> State:
        """A state in the precision to compute in, checked."""
        work = torch.float32 if x.dtype in HALF else x.dtype
        fresh = self.start(x.shape[0], x.new_empty(0, dtype=work))
        if state is None:
            return fresh
        if not isinstance(state, State):
            raise TypeError(f"state is a {type(state).__name__}; expected a State, or None")
        for name, x_0 in fresh.tensors.items():
            check_shape(f"state[{name!r}]", state[name], self.state_shape(name, x_0))
            if state[name].is_floating_point() != x_0.is_floating_point():
                raise TypeError(
                    f"state[{name!r}] has dtype {state[name].dtype}; expected one like {x_0.dtype}"
                )
        return state.map(lambda held: held.to(work) if held.is_floating_point() else held)

    def state_shape(self, name: str, fresh: Tensor) -> tuple[Any, ...]:
        """The shape that a state's tensor must have, as `check_shape` takes it."""
        return tuple(fresh.shape)


def _warn_if_exploded(name: str, state: State) -> None:
    hidden = state.get("hidden")
    if hidden is None or not concrete(hidden) or hidden.device.type != "cpu":
        return
    # A sum is one pass, and not finite wherever a number is not; it may overflow by itself.
    with torch.no_grad():
        exploded = not math.isfinite(hidden.sum()) and not bool(torch.isfinite(hidden).all())
    if exploded:
        warnings.warn(
            f"the state of {name} is no longer finite: it overflowed on the way, or its input was "
            "not finite",
            RuntimeWarning,
            stacklevel=4,
        )
