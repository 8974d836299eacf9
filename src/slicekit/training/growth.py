"""A pressure on disturbances of the states, weak at first and strong once a task is learnt.

A linear recurrence carries on every error that it makes, by the same steps as its states. Where no
disturbance grows along the training sequences, none can spoil the state of a longer one; and where
the distances between the states themselves are kept, as invertible ones can keep them, states do
not fade either: what is exact at the training lengths stays so far beyond them. Strong pressure
from the start keeps most structures from learning at all: its share of its full weight grows,
geometrically, only when the training sequences have reached a certain length.

Glossary: growth and distortion are what `SLiCE.disturbances` measures, whose weights in the end are
`Settings.growth` and `Settings.isometry`; since is the step at which the share began to grow.
"""

from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.layers.state import last_valid
from slicekit.training.settings import Settings


class Pressure:
    """The share of their full weight that growth and distortion have: `pressure_first` until the
    lengths have grown, then up to 1 within `pressure_steps` steps.

    Args:
        settings: the fields whose names start with pressure count.
        longest: the end of the range to train on, where `pressure_at` is None.

    Example:
        >>> pressure = Pressure(Settings(pressure_first=0.01, pressure_steps=2), longest=40)
        >>> [pressure.share(step, longest) for step, longest in enumerate((3, 40, 40, 40, 40))]
        [0.01, 0.01, 0.1, 1.0, 1.0]
    """

    def __init__(self, settings: Settings, longest: int) -> None:
        """Keep the two ends of the line."""
        self._first, self._steps, at = (
            settings.pressure_first,
            settings.pressure_steps,
            settings.pressure_at,
        )
        self._at = longest if at is None else min(at, longest)
        self._since: int | None = None

    def share(self, step: int, longest: int) -> float:
        """For the step after `step` others, whose sequences are at most so long."""
        if self._since is None:
            if longest < self._at:
                return self._first
            self._since = step
        left = 1 - min(1.0, (step - self._since) / self._steps)
        return self._first**left

    def state(self) -> dict[str, int]:
        """What it remembers."""
        return {} if self._since is None else {"since": self._since}

    def restore(self, state: dict[str, int]) -> None:
        """Remember this instead."""
        self._since = state.get("since")


class CapturedLayers:
    """Listens to a model's layers while the context lasts.

    Args:
        model: with layers that have a method disturbances(inputs, lengths, states).

    Raises:
        ValueError: if it has none.
    """

    def __init__(self, model: nn.Module) -> None:
        """Find the layers; nothing listens yet."""
        self._layers = [x for x in model.modules() if hasattr(x, "disturbances")]
        if not self._layers:
            raise ValueError(
                f"growth or isometry > 0, but {type(model).__name__} has no layer with a method "
                "disturbances(inputs, lengths, states); set both to 0"
            )
        self._calls: dict[nn.Module, tuple[Any, Any, Tensor]] = {}

    def __enter__(self) -> "CapturedLayers":
        """Start to listen."""
        self._handles = [
            x.register_forward_hook(self._keep, with_kwargs=True) for x in self._layers
        ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        for handle in self._handles:
            handle.remove()
        self._calls.clear()

    def take(self) -> tuple[Tensor, Tensor]:
        """Growth and distortion on the last inputs, added up over the layers; these are let go."""
        calls, self._calls = self._calls, {}
        if not calls:
            raise RuntimeError("the model called none of its layers, so nothing is carried on")
        found = [layer.disturbances(*call) for layer, call in calls.items()]  # type: ignore[operator]
        growth, distortion = zip(*found, strict=True)
        return torch.stack(growth).sum(), torch.stack(distortion).sum()

    def _keep(
        self, layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any], output: Any
    ) -> None:
        x, _, lengths = (*given, None, None)[:3]
        states = output[0] if isinstance(output, tuple) else output
        lengths = named.get("lengths", lengths)
        self._calls[layer] = (named.get("x", x), lengths, last_valid(states.detach(), lengths))
