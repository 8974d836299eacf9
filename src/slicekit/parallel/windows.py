"""Layers with windows on parts of sequences: parts have to end where windows do.

A window is a step, so a part that ends with one is a number of steps, and all that is said of
others holds for it. Windows that are cut by a bound would leave outputs on neither side.

Glossary: a layer with windows of w elements has an output before its first window if it has `first`
= 1 elements that drive nothing. Its windows end after first + k w elements; those of the layers
after it end where theirs do in what it passes on.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.layers import SLiCE
from slicekit.layers.log_ode import Places
from slicekit.layers.state import State
from slicekit.parallel.ranks import Ranks


def check_windows(name: str, layer: Any) -> None:
    """Refuse windows that end at other elements in each sequence.

    Raises:
        ValueError: if they are given in time.
    """
    window = _window(layer)
    if not isinstance(window, int):
        raise ValueError(
            f"model: {name or type(layer).__name__} has windows in time, {window!r}, which end at "
            "other elements in each sequence; expected windows of a number of elements"
        )


def closing(layers: Sequence[nn.Module]) -> tuple[int, int]:
    """After how many elements the windows of all layers end together, first and from then on.

    Args:
        layers: in their order; those without windows do not matter.

    Raises:
        ValueError: if they never do.
    """
    windows = [(_first(x), _window(x)) for x in layers if getattr(x, "windowed", False)]
    every = 1
    for _, window in windows:
        every *= window
    for count in range(1, every + 1 + len(windows)):
        if _ends(count, windows):
            return count, every
    raise ValueError(f"windows of {[w for _, w in windows]} elements never end together")


def _ends(count: int, windows: list[tuple[int, int]]) -> bool:
    """Whether the windows of all layers end after so many elements."""
    for first, window in windows:
        if count < first or (count - first) % window:
            return False
        count = first + (count - first) // window
    return count > 0


def _window(layer: Any) -> Any:
    holder = layer.flow if hasattr(layer, "flow") else layer
    return holder.window


def _first(layer: Any) -> int:
    """Elements that drive nothing."""
    return 1 - int(layer.initial.drives_first) if isinstance(layer, SLiCE) else 1


class Bounds:
    """A layer's `places` on parts of sequences, and a check of their bounds, until `remove`.

    Args:
        ranks: that hold the parts, in order.
        layer: with windows.
    """

    def __init__(self, ranks: Ranks, layer: Any) -> None:
        """Take the place of its method."""
        self._ranks, self._layer = ranks, layer
        self._places = layer.places
        layer.places = self.places
        self._hook = layer.register_forward_pre_hook(self.check, with_kwargs=True)

    def remove(self) -> None:
        """Give it back."""
        del self._layer.places
        self._hook.remove()

    def places(self, x: Any, state: State | None = None, lengths: Any = None) -> Places:
        """Where the outputs stand: after the first rank, windows begin with the part."""
        if not self._ranks.first:
            state = self._begun(x)
        return self._places(x, state, lengths)

    def _begun(self, x: Any) -> State:
        """A state at the end of a window; only how much of the next has passed counts."""
        none = torch.zeros(x.shape[0], dtype=torch.int64, device=x.device)
        if isinstance(self._layer, SLiCE):
            return State({"filled": none})
        return State(self._layer.start(x.shape[0], x).tensors | {"filled": none, "seen": none + 1})

    def check(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Compare lengths with the other ranks, by one collective.

        Raises:
            ValueError: on all ranks, if a sequence goes on after a bound inside a window.
        """
        given = dict(zip(("x", "state", "lengths"), arguments, strict=False)) | named
        x, state, lengths = (given.get(name) for name in ("x", "state", "lengths"))
        assert x is not None
        counts = torch.full((x.shape[0],), x.shape[1]) if lengths is None else lengths
        counts = torch.as_tensor(counts, dtype=torch.int64, device=x.device)
        ahead = (
            counts.new_full(counts.shape, _first(self._layer))
            if state is None
            else -state["filled"]
        )
        self._ranks.agree("windows", batch=x.shape[0])
        told = torch.stack(self._ranks.gather("lengths", torch.stack([counts, ahead])))
        self._check(told[:, 0], told[0, 1])

    def _check(self, counts: Tensor, ahead: Tensor) -> None:
        """Lengths (ranks, batch) on each rank, and (batch,) elements before the first window."""
        first, window = _first(self._layer), _window(self._layer)
        until = counts.cumsum(0)
        goes_on = until < until[-1]
        inside = ((until - ahead) % window != 0) & (until > 0) & goes_on
        if not bool(inside.any()):
            return
        rank, row = (int(x) for x in inside.nonzero()[0])
        name = type(self._layer).__name__
        raise ValueError(
            f"x: the part of rank {rank} ends after element {int(until[rank, row])} of what "
            f"{name} is given, inside a window; expected {first} + k * {window} elements up to "
            "there: see `slicekit.parallel.part(mesh, x, model=model)`"
        )
