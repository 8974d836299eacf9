"""Where does a layer's state start? h_0 is learned, or an affine map of the first input."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from slicekit.jax.structures import Parameters


class InitialState(ABC):
    """A frozen description of h_0; its arrays belong to the layer.

    Attributes:
        drives_first: whether the first element of a sequence drives a step.
        needs_first: whether h_0 is made from the first element.
    """

    drives_first: bool = True
    needs_first: bool = False

    @abstractmethod
    def init(self, channels: int, dim: int, key: Array) -> Parameters:
        """Random parameters; the initial state starts with entries of unit variance."""

    @abstractmethod
    def start(self, parameters: Parameters, first: Array) -> Array:
        """h_0 (batch, dim) from the first elements (batch, channels)."""


@dataclass(frozen=True)
class Learned(InitialState):
    """One learned h_0 for all sequences; every element drives a step."""

    def init(self, channels: int, dim: int, key: Array) -> Parameters:
        """{"state": (dim,)}."""
        return {"state": jax.random.normal(key, (dim,))}

    def start(self, parameters: Parameters, first: Array) -> Array:
        """The same for all."""
        state = parameters["state"]
        return jnp.broadcast_to(state, (first.shape[0], *state.shape))


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

    def init(self, channels: int, dim: int, key: Array) -> Parameters:
        """{"weight": (dim, channels), "bias": (dim,)}."""
        std, (first, second) = (channels + 1) ** -0.5, jax.random.split(key)
        return {
            "weight": std * jax.random.normal(first, (dim, channels)),
            "bias": std * jax.random.normal(second, (dim,)),
        }

    def start(self, parameters: Parameters, first: Array) -> Array:
        """W x_0 + b."""
        return first @ parameters["weight"].T + parameters["bias"]
