"""What a module carries from one part of a sequence to the next."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import MappingKey, SequenceKey, register_pytree_node

from slicekit.scans import Projective


@dataclass(frozen=True, eq=False)
class State:
    """Named tensors, all batch first: a hidden state and whatever else a module must remember.

    Those that a module returns share no memory with its input or its output, which may be written
    into.

    Args:
        tensors: by name, each (batch, ...).

    Example:
        >>> state = State({"hidden": torch.zeros(2, 3)})
        >>> state["hidden"].shape
        torch.Size([2, 3])
    """

    tensors: dict[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        """The tensor of that name."""
        if name not in self.tensors:
            known = ", ".join(self.tensors) or "nothing"
            raise KeyError(f"state has no {name!r}; it holds {known}")
        return self.tensors[name]

    def get(self, name: str) -> Tensor | None:
        """The tensor of that name, or None."""
        return self.tensors.get(name)

    def map(self, change: Callable[[Tensor], Tensor]) -> "State":
        """The same state with every tensor changed."""
        return State({name: change(x) for name, x in self.tensors.items()})

    def detach(self) -> "State":
        """Cut off from the graph, for truncated backpropagation through time."""
        return self.map(Tensor.detach)

    def to(self, *args: Any, **kwargs: Any) -> "State":
        """Moved to another device or dtype, as `Tensor.to` does; counts keep their dtype."""
        return self.map(lambda x: _moved(x, *args, **kwargs))

    def select(self, indices: Tensor) -> "State":
        """Some sequences of the batch, by their indices (which may repeat, as in a beam search)."""
        return self.map(lambda x: x.index_select(0, indices))


class States(tuple["State | States", ...]):
    """The states of a stack of modules, one after the other.

    Example:
        >>> States([State({"hidden": torch.zeros(2, 3)})]).select(torch.tensor([1]))[0]["hidden"]
        tensor([[0., 0., 0.]])
    """

    def map(self, change: Callable[[Tensor], Tensor]) -> "States":
        """Every tensor of every state changed."""
        return States(state.map(change) for state in self)

    def detach(self) -> "States":
        """Cut off from the graph."""
        return self.map(Tensor.detach)

    def to(self, *args: Any, **kwargs: Any) -> "States":
        """Moved to another device or dtype; counts keep their dtype."""
        return self.map(lambda x: _moved(x, *args, **kwargs))

    def select(self, indices: Tensor) -> "States":
        """Some sequences of the batch."""
        return self.map(lambda x: x.index_select(0, indices))


def _moved(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    moved = x.to(*args, **kwargs)
    return moved if x.is_floating_point() or x.is_complex() else moved.to(x.dtype)


def last_valid(x: Tensor, lengths: Tensor | None) -> Tensor:
    """The last element of each sequence, copied: x (batch, length, ...) -> (batch, ...)."""
    if lengths is None:
        return x[:, -1].clone()
    last = (lengths - 1).clamp_min(0)
    return x[torch.arange(x.shape[0], device=x.device), last]


def nothing_after(hidden: Any) -> Any:
    """No states, of the kind of a hidden state (batch, dim) or `Projective`: (batch, 0, dim)."""
    if isinstance(hidden, Projective):
        return without_steps(Projective(hidden.direction[:, None], hidden.log_norm[:, None]))
    return without_steps(hidden[:, None])


def without_steps(states: Any) -> Any:
    """None of some states (batch, length, dim) or `Projective` ones: (batch, 0, dim)."""
    if isinstance(states, Projective):
        return Projective(states.direction[:, :0], states.log_norm[:, :0])
    return states[:, :0]


def prepend(first: Any, states: Any) -> Any:
    """A state (batch, dim) before states (batch, length, dim), both `Projective` or neither."""
    if isinstance(states, Projective):
        return Projective(
            torch.cat([first.direction.unsqueeze(1), states.direction], 1),
            torch.cat([first.log_norm.unsqueeze(1), states.log_norm], 1),
        )
    return torch.cat([first.unsqueeze(1), states], 1)


def _named(state: State) -> tuple[Any, Any]:
    return [(MappingKey(name), x) for name, x in state.tensors.items()], list(state.tensors)


def _numbered(states: States) -> tuple[Any, Any]:
    return [(SequenceKey(i), state) for i, state in enumerate(states)], None


# Known to torch as containers, so that `torch.func` and `torch.export` see the tensors inside.
register_pytree_node(
    State,
    lambda state: (list(state.tensors.values()), list(state.tensors)),
    lambda tensors, names: State(dict(zip(names, tensors, strict=True))),
    serialized_type_name="slicekit.State",
    to_dumpable_context=list,
    from_dumpable_context=list,
    flatten_with_keys_fn=_named,
)
register_pytree_node(
    States,
    lambda states: (list(states), None),
    lambda states, _: States(states),
    serialized_type_name="slicekit.States",
    to_dumpable_context=lambda _: None,
    from_dumpable_context=lambda _: None,
    flatten_with_keys_fn=_numbered,
)
