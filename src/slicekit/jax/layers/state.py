"""What a module carries from one part of a sequence to the next."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax


class State(eqx.Module):
    """Named arrays, all batch first: a hidden state and whatever else a module must remember.

    Args:
        arrays: by name, each (batch, ...).

    >>> State({"hidden": jnp.zeros((2, 3))})["hidden"].shape
    (2, 3)
    """

    arrays: dict[str, Array]

    def __getitem__(self, name: str) -> Array:
        """The array of that name."""
        if name not in self.arrays:
            known = ", ".join(self.arrays) or "nothing"
            raise KeyError(f"state has no {name!r}; it holds {known}")
        return self.arrays[name]

    def get(self, name: str) -> Array | None:
        """The array of that name, or None."""
        return self.arrays.get(name)

    def map(self, change: Callable[[Array], Array]) -> "State":
        """The same state with every array changed."""
        return State({name: change(x) for name, x in self.arrays.items()})

    def detach(self) -> "State":
        """Cut off from the gradient, for truncated backpropagation through time."""
        return self.map(lax.stop_gradient)

    def select(self, indices: Array) -> "State":
        """Some sequences of the batch, by their indices (which may repeat, as in a beam search)."""
        return self.map(lambda x: x[indices])


class States(tuple["State | States", ...]):
    """The states of a stack of modules, one after the other."""

    def map(self, change: Callable[[Array], Array]) -> "States":
        """Every array of every state changed."""
        return States(state.map(change) for state in self)

    def detach(self) -> "States":
        """Cut off from the gradient."""
        return self.map(lax.stop_gradient)

    def select(self, indices: Array) -> "States":
        """Some sequences of the batch."""
        return self.map(lambda x: x[indices])


jax.tree_util.register_pytree_node(
    States, lambda states: (list(states), None), lambda _, states: States(states)
)


def last_valid(x: Array, lengths: Array | None) -> Array:
    """The last element of each sequence: x (batch, length, ...) -> (batch, ...)."""
    if lengths is None:
        return x[:, -1]
    return x[jnp.arange(x.shape[0]), jnp.maximum(lengths - 1, 0)]


def nothing_after(hidden: Any) -> Any:
    """No states, of the kind of a hidden state (batch, dim) or `Projective`: (batch, 0, dim)."""
    return jax.tree.map(lambda x: x[:, None][:, :0], hidden)


def prepend(first: Any, states: Any) -> Any:
    """A state (batch, dim) before states (batch, length, dim), both `Projective` or neither."""
    return jax.tree.map(lambda a, b: jnp.concatenate([a[:, None], b], 1), first, states)


def after(states: Any, hidden: Any, count: Array) -> Any:
    """The state after that many steps (batch,), of states (batch, length, ...) from `hidden`."""

    def pick(steps: Array, start: Array) -> Array:
        last = steps[jnp.arange(steps.shape[0]), jnp.maximum(count - 1, 0)]
        none = (count == 0).reshape(-1, *[1] * (start.ndim - 1))
        return jnp.where(none, start, last)

    return jax.tree.map(pick, states, hidden)
