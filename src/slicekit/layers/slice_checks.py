"""What a `SLiCE` refuses, and what it warns of."""

import warnings
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slicekit.checks import HALF, check_floating, check_shape, concrete
from slicekit.layers.drives import TimeAndInput
from slicekit.layers.state import State
from slicekit.paths import Tabulated

if TYPE_CHECKING:
    from slicekit.layers.slice import SLiCE

OTHERWISE = "projective=True, an Orthogonal structure or"
"""Advice to a layer whose states grow, besides smaller increments."""


def check_input(layer: "SLiCE", x: Tensor | Tabulated, state: State | None) -> None:
    """Raise unless x and a state fit a layer and each other."""
    if isinstance(x, Tabulated):
        check_shape("x.table", x.table, ("vocabulary", layer.channels))
    else:
        check_shape("x", x, ("batch", "length", layer.channels))
        check_floating("x", x)
    if x.shape[1] < 1:
        raise ValueError("x has length 0; an empty sequence has no steps")
    held_in = layer.A.held_in(x.dtype)
    if x.dtype != held_in and x.dtype not in HALF and held_in not in HALF:
        raise TypeError(f"x has dtype {x.dtype}, but the layer has {held_in}; expected one dtype")
    if state is None:
        return
    if not isinstance(state, State):
        raise TypeError(f"state is a {type(state).__name__}; expected a State, or None")
    sizes: dict[str, tuple[int, ...]] = {
        "hidden": (layer.structure.dim,),
        "log_norm": (),
        "previous": (layer.channels,),
    }
    basis = layer.basis
    if basis is not None:
        sizes |= {"window": (basis.size,), "filled": ()}
    for name, size in sizes.items():
        held = state.get(name)
        if held is not None:
            check_shape(f"state[{name!r}]", held, (x.shape[0], *size))


def check_started(layer: "SLiCE", state: State | None, lengths: Tensor) -> None:
    """Raise if a sequence is empty whose first element is needed."""
    special = layer.initial.needs_first or not layer.drive.pointwise
    if state is None and special and concrete(lengths) and lengths.device.type == "cpu":
        empty = (lengths < 1).nonzero()
        if empty.numel():
            raise ValueError(
                f"lengths holds 0 at batch {int(empty[0])}; expected at least 1, because the "
                "first element of a sequence is needed to start this layer"
            )


def in_range(x: Tensor, given: torch.dtype | None = None) -> bool:
    """Whether the squares of all numbers are finite, and so is the norm after a layer.

    Args:
        x: some states.
        given: the dtype that they are given out in, whose range they have to keep too.
    """
    low, high = x.aminmax()  # NaN if one of them is
    return max(-low.item(), high.item()) < _largest(x.dtype, given or x.dtype)


@lru_cache
def _largest(dtype: torch.dtype, given: torch.dtype) -> float:
    return min(torch.finfo(dtype).max ** 0.5, torch.finfo(given).max)


def warn_if_exploded(
    layer: "SLiCE",
    last: Tensor,
    states: Tensor | None = None,
    stacklevel: int = 6,
    given: torch.dtype | None = None,
) -> None:
    """A linear recurrence that has left the range of its dtype stays out of it: look at the end.

    A state whose square overflows is told of as well: the norm that follows it squares it. So is
    one that overflows where it is given out in half precision.

    Args:
        layer: whose state it is.
        last: (batch, dim), the last state.
        states: (batch, length, dim), all of them, to say where it happened.
        stacklevel: of the warning.
        given: the dtype that states are given out in, if it is another.
    """
    if not concrete(last) or last.device.type != "cpu" or last.numel() == 0:
        return
    if in_range(last, given):
        return
    largest = _largest(last.dtype, given or last.dtype)
    finite = bool(torch.isfinite(last).all())
    what = "so large that its square overflows" if finite else "no longer finite"
    if finite and in_range(last):
        what = f"beyond the range of {given}"
    where, smaller = "", "smaller increments"
    if states is not None and states.shape[1] > 1:
        inside = (states.abs() < largest).all(-1).all(0)
        step, length = int(inside.int().argmin()) + 1, states.shape[1]
        where = f" after step {step} of {length}"
        if isinstance(layer.drive, TimeAndInput) and step > 1:
            smaller += f", such as drive=TimeAndInput(dt={_lasting(layer.drive.dt, step, length)})"
    cause = "" if finite else ": it overflowed on the way, or its input was not finite"
    instead = "an Orthogonal structure or" if layer.projective else OTHERWISE
    warnings.warn(
        f"the state of a SLiCE is {what}{where}{cause}. Use {instead} {smaller}",
        RuntimeWarning,
        stacklevel=stacklevel,
    )


def _lasting(dt: float, step: int, length: int) -> float:
    """A dt at which a state that overflowed after some step should outlast the length.

    The logarithm of the norm grows by about λ dt + channels dt² / 2 a step, with λ the growth of
    the constant channel's matrix: a smaller dt lasts about as much longer, and somewhat less where
    dt was so large that noise damped the growth. Half of the range is left for gradients.
    """
    return float(f"{dt * step / (2 * length):.1g}")
