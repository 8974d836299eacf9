"""Where does a layer's state start? h_0 is learned, or an affine map of the first input."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.structures import Parameters
from slicekit.structures.base import normal


class InitialState(ABC):
    """A frozen description of h_0; its tensors belong to the layer.

    Attributes:
        drives_first: whether the first element of a sequence drives a step.
        needs_first: whether h_0 is made from the first element.
    """

    drives_first: bool = True
    needs_first: bool = False

    @abstractmethod
    def init(self, channels: int, dim: int, generator: torch.Generator | None = None) -> Parameters:
        """Random parameters; the initial state starts with entries of unit variance."""

    @abstractmethod
    def start(self, parameters: Parameters, first: Tensor) -> Tensor:
        """h_0 (batch, dim) from the first elements (batch, channels)."""


@dataclass(frozen=True)
class Learned(InitialState):
    """One learned h_0 for all sequences; every element drives a step."""

    def init(self, channels: int, dim: int, generator: torch.Generator | None = None) -> Parameters:
        """{"state": (dim,)}."""
        return {"state": normal((dim,), 1.0, generator)}

    def start(self, parameters: Parameters, first: Tensor) -> Tensor:
        """The same for all."""
        return parameters["state"].expand(first.shape[0], -1)


@dataclass(frozen=True)
class FirstInput(InitialState):
    """h_0 = W x_0 + b, and output 0 is h_0 itself: the paper, and the authors' code.

    Args:
        drives: whether x_0 also drives a step, so that output 0 is the state after it.
    """

    drives: bool = False
    needs_first = True

    @property
    def drives_first(self) -> bool:  # type: ignore[override]
        """As `drives`."""
        return self.drives

    def init(self, channels: int, dim: int, generator: torch.Generator | None = None) -> Parameters:
        """{"weight": (dim, channels), "bias": (dim,)}."""
        std = (channels + 1) ** -0.5
        return {
            "weight": normal((dim, channels), std, generator),
            "bias": normal((dim,), std, generator),
        }

    def start(self, parameters: Parameters, first: Tensor) -> Tensor:
        """W x_0 + b."""
        return torch.nn.functional.linear(first, parameters["weight"], parameters["bias"])
