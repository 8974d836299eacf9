"""A pressure on the steps of a layer, weak at first and strong once a task is learnt.

A linear recurrence carries on every error that it makes, by the same steps as its states. Steps
that keep all distances let it neither grow nor fade, so what is exact at the training lengths stays
so far beyond them. Not every structure has such steps; but all can see to it that disturbances of
their states do not grow along the training sequences, and that the states themselves keep their
size (`slicekit.training.drift`). Strong pressure from the start keeps most structures from learning
at all: the share of its full weight grows, geometrically, only when the training sequences have
reached a certain length, and gives way where answers become wrong under it.

Glossary: defect is |M^T M - I|², the mean over the steps that a layer makes of a batch, and growth
the mean of max(0, log |δ_t|²)² over disturbances δ_0 of its state; `Settings.isometry`,
`Settings.growth` and `Settings.drift` are the weights in the end; made is how much of its way from
the first share to all of the weights the pressure has made, in steps.
"""

from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.training.curriculum import MEMORY
from slicekit.training.drift import drift as drift_of
from slicekit.training.processes import Processes
from slicekit.training.settings import Settings

BACK = 2
"""Steps that the share loses where answers are wrong, for each that it gains where they are not."""


class Pressure:
    """The share of their full weights that count: `pressure_first` until the
    lengths have grown, then up to 1 within `pressure_steps` steps, but back
    again, twice as fast, while the running accuracy is below `pressure_above`.

    Args:
        settings: the fields whose names start with pressure count.
        longest: the end of the range to train on, where `pressure_at` is None.

    Example:
        >>> pressure = Pressure(Settings(pressure_first=0.01, pressure_steps=2), longest=40)
        >>> shares = []
        >>> for longest in (3, 40, 40, 40, 40):
        ...     shares.append(pressure.share(longest))
        ...     pressure.observe(accuracy=1.0)
        >>> shares
        [0.01, 0.01, 0.1, 1.0, 1.0]
    """

    def __init__(self, settings: Settings, longest: int) -> None:
        """Keep the two ends of the line."""
        self._first, self._steps, self._above = (
            settings.pressure_first,
            settings.pressure_steps,
            settings.pressure_above,
        )
        at = settings.pressure_at
        self._at = longest if at is None else min(at, longest)
        self._begun, self._made, self._running = False, 0, 0.0

    def share(self, longest: int) -> float:
        """For a step whose sequences are at most so long."""
        self._begun = self._begun or longest >= self._at
        return self._first ** (1 - self._made / self._steps)

    def observe(self, accuracy: float) -> None:
        """Take note of the training accuracy of the step."""
        self._running = MEMORY * self._running + (1 - MEMORY) * accuracy
        if self._begun:
            way = 1 if self._running >= self._above else -BACK
            self._made = min(max(0, self._made + way), self._steps)

    def state(self) -> dict[str, float]:
        """What it remembers."""
        return {"begun": self._begun, "made": self._made, "running": self._running}

    def restore(self, state: dict[str, float]) -> None:
        """Remember this instead."""
        self._begun, self._made = bool(state["begun"]), int(state["made"])
        self._running = state["running"]


class CapturedLayers:
    """Listens to the inputs and the states of a model's layers while the context lasts.

    Args:
        model: with layers that have methods isometry_defect(inputs) and growth(inputs, lengths),
            and give their states, alone or first.
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
                f"isometry, growth or drift > 0, but {type(model).__name__} has no layer with "
                "methods isometry_defect(inputs) and growth(inputs, lengths); set all to 0"
            )
        self._calls: dict[Any, tuple[Any, Any, Any, Any]] = {}

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

    def take(self, isometry: float, growth: float, drift: float) -> Tensor:
        """Defects, growth and drift at the last call, which is then forgotten.

        Args:
            isometry, growth, drift: their weights; what has none is not computed.

        Returns:
            The weighted sum over the layers, a scalar.
        """
        calls, self._calls = self._calls, {}
        if not calls:
            raise RuntimeError("the model called none of its layers, so there are no steps")
        penalties = []
        for layer, (x, state, lengths, states) in calls.items():
            scan = self._processes.scan_for(layer)
            before = () if scan is None else (state,)
            if isometry:
                penalties.append(isometry * layer.isometry_defect(x, *before))
            if growth:
                carried = () if scan is None else (state, scan)
                penalties.append(growth * layer.growth(x, lengths, *carried))
            if drift:
                if states.shape[1] != x.shape[1]:
                    raise ValueError(
                        f"drift={drift} of a layer that gives {states.shape[1]} states for "
                        f"{x.shape[1]} elements; expected one for each"
                    )
                structure = getattr(layer, "structure", None)
                separate = getattr(structure, "largest_block", None) == 1
                penalties.append(drift * drift_of(states, lengths, separate))
        return torch.stack(penalties).sum()

    def _keep(
        self, layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any], result: Any
    ) -> None:
        x, state, lengths = (*given, None, None)[:3]
        self._calls[layer] = (
            named.get("x", x),
            named.get("state", state),
            named.get("lengths", lengths),
            result[0] if isinstance(result, tuple) else result,
        )
