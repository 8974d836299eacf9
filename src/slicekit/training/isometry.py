"""A pressure on transitions to be isometries, weak at first and strong once a task is learnt.

A linear recurrence carries on every error that it makes. Steps that keep all distances let it
neither grow nor fade, so what is exact at the training lengths stays so far beyond them. Strong
pressure from the start keeps most structures from learning at all: its weight grows, geometrically,
only when the training sequences have reached a certain length.

Glossary: defect is |M^T M - I|², the mean over the steps that a layer makes of a batch; since is
the step at which the weight began to grow.
"""

from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.training.settings import Settings


class Pressure:
    """The weight of the defect: `isometry_first` until the lengths have grown, then up to
    `isometry` within `isometry_steps` steps.

    Args:
        settings: the fields whose names start with isometry count.
        longest: the end of the range to train on, where `isometry_at` is None.

    Example:
        >>> settings = Settings(isometry=100.0, isometry_first=1.0, isometry_steps=2)
        >>> pressure = Pressure(settings, longest=40)
        >>> [pressure.weight(step, longest) for step, longest in enumerate((3, 40, 40, 40, 40))]
        [1.0, 1.0, 10.0, 100.0, 100.0]
    """

    def __init__(self, settings: Settings, longest: int) -> None:
        """Keep the two ends of the line."""
        self._first, self._last = settings.isometry_first, settings.isometry
        self._steps = settings.isometry_steps
        self._at = longest if settings.isometry_at is None else min(settings.isometry_at, longest)
        self._since: int | None = None

    def weight(self, step: int, longest: int) -> float:
        """For the step after `step` others, whose sequences are at most so long."""
        if not self._last:
            return 0.0
        if self._since is None:
            if longest < self._at:
                return self._first
            self._since = step
        share = min(1.0, (step - self._since) / self._steps)
        return self._first * (self._last / self._first) ** share

    def state(self) -> dict[str, int]:
        """What it remembers."""
        return {} if self._since is None else {"since": self._since}

    def restore(self, state: dict[str, int]) -> None:
        """Remember this instead."""
        self._since = state.get("since")


class CapturedDefects:
    """Listens to the inputs of a model's layers while the context lasts.

    Args:
        model: with layers that have a method isometry_defect(inputs).

    Raises:
        ValueError: if it has none.
    """

    def __init__(self, model: nn.Module) -> None:
        """Find the layers; nothing listens yet."""
        self._layers = [x for x in model.modules() if hasattr(x, "isometry_defect")]
        if not self._layers:
            raise ValueError(
                f"isometry > 0, but {type(model).__name__} has no layer with a method "
                "isometry_defect(inputs); set isometry=0"
            )
        self._inputs: dict[nn.Module, Any] = {}

    def __enter__(self) -> "CapturedDefects":
        """Start to listen."""
        self._handles = [x.register_forward_pre_hook(self._keep) for x in self._layers]
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
        self._inputs.clear()

    def take(self) -> Tensor:
        """The layers' defects on the last inputs, added up; the inputs are then let go."""
        inputs, self._inputs = self._inputs, {}
        if not inputs:
            raise RuntimeError("the model called none of its layers, so there are no defects")
        found = [layer.isometry_defect(x) for layer, x in inputs.items()]  # type: ignore[operator]
        return torch.stack(found).sum()

    def _keep(self, layer: nn.Module, arguments: tuple[Any, ...]) -> None:
        self._inputs[layer] = arguments[0]
