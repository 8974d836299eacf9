"""An exponential moving average of a model's weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from slicekit.training.optimiser import trained_parameters


class Average:
    """a_0 = θ_0, and after each update a ← decay · a + (1 − decay) · θ.

    Args:
        model: whose trained parameters θ are averaged; other tensors are the model's own.
        decay: in (0, 1).

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> average = Average(model, decay=0.75)
        >>> _ = nn.init.ones_(model.weight)
        >>> average.update()
        >>> average.tensors["weight"]
        tensor([[0.2500]])
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        """Start with the weights as they are."""
        self.decay = decay
        self._parameters = trained_parameters(model)
        self.tensors = {name: x.detach().clone() for name, x in self._parameters.items()}

    def update(self) -> None:
        """Take the weights after an update into account."""
        for name, x in self._parameters.items():
            self.tensors[name].lerp_(x.detach(), 1 - self.decay)

    def restore(self, stored: dict[str, Tensor]) -> None:
        """Go on from a stored average."""
        self.tensors = {
            name: stored[name].to(x.device).clone() for name, x in self._parameters.items()
        }

    @torch.no_grad()
    def copy_to_model(self) -> None:
        """Make the average the model's weights."""
        for name, x in self._parameters.items():
            x.copy_(self.tensors[name])

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """The average as the model's weights while the context lasts."""
        trained = {name: x.detach().clone() for name, x in self._parameters.items()}
        try:
            self.copy_to_model()
            yield
        finally:
            with torch.no_grad():
                for name, x in self._parameters.items():
                    x.copy_(trained[name])
