"""A pressure on the steps of a layer, weak at first and strong once a task is learnt.

A linear recurrence carries on every error that it makes, by the same steps as its states. Steps
that keep all distances let it neither grow nor fade, so what is exact at the training lengths stays
so far beyond them. Not every structure has such steps; but all can see to it that disturbances of
their states do not grow along the training sequences. Strong pressure from the start keeps most
structures from learning at all: the share of its full weight grows, geometrically, only when the
training sequences have reached a certain length.

Glossary: defect is |M^T M - I|², the mean over the steps that a layer makes of a batch, and growth
the mean of max(0, log |δ_t|²)² over disturbances δ_0 of its state; `Settings.isometry` and
`Settings.growth` are their weights in the end; since is the step at which the share began to grow.
"""

from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.training.processes import Processes
from slicekit.training.settings import Settings


class Pressure:
    """The share of their full weights that count: `pressure_first` until the
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
    """Listens to the inputs of a model's layers while the context lasts.

    Args:
        model: with layers that have methods isometry_defect(inputs) and growth(inputs, lengths).
        processes: that train it; None for one alone. Where they have parts of sequences, layers are
            also told what their part goes on from, and the scan that carries disturbances over all.

    Raises:
        ValueError: if it has none.
    """

    def __init__(self, model: nn.Module, processes: Processes | None = None) -> None:
        """Find the layers; nothing listens yet."""
        self._processes = processes or Processes()
        methods = ("isometry_defect", "growth")
        self._layers = [x for x in model.modules() if all(hasattr(x, name) for name in methods)]
        if not self._layers:
            raise ValueError(
                f"isometry or growth > 0, but {type(model).__name__} has no layer with methods "
                "isometry_defect(inputs) and growth(inputs, lengths); set both to 0"
            )
        self._inputs: dict[Any, tuple[Any, Any, Any]] = {}

    def __enter__(self) -> "CapturedLayers":
        """Start to listen."""
        self._handles = [
            x.register_forward_pre_hook(self._keep, with_kwargs=True) for x in self._layers
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
        self._inputs.clear()

    def take(self, isometry: float, growth: float) -> Tensor:
        """Defects and growth on the last inputs, which are then let go.

        Args:
            isometry, growth: their weights; what has none is not computed.

        Returns:
            The weighted sum over the layers, a scalar.
        """
        inputs, self._inputs = self._inputs, {}
        if not inputs:
            raise RuntimeError("the model called none of its layers, so there are no steps")
        penalties = []
        for layer, (x, state, lengths) in inputs.items():
            scan = self._processes.scan_for(layer)
            before = () if scan is None else (state,)
            if isometry:
                penalties.append(isometry * layer.isometry_defect(x, *before))
            if growth:
                carried = () if scan is None else (state, scan)
                penalties.append(growth * layer.growth(x, lengths, *carried))
        return torch.stack(penalties).sum()

    def _keep(self, layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        x, state, lengths = (*given, None, None)[:3]
        self._inputs[layer] = (
            named.get("x", x),
            named.get("state", state),
            named.get("lengths", lengths),
        )
