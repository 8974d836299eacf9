"""Which tensors of a model are one and the same: an embedding that is also the head, a block twice.

By names they are several, and so they are in a file. A file says besides which of them are one, or
further training would be of another model.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class _Place(NamedTuple):
    """Where a module keeps a tensor: among its parameters or its buffers, under a name."""

    owner: dict[str, Any]
    leaf: str
    parameter: bool

    @property
    def tensor(self) -> Tensor:
        return self.owner[self.leaf]


def ties(model: nn.Module) -> list[list[str]]:
    """The names in a model's `state_dict` that stand for the same tensor, in groups of two or more.

    Raises:
        TypeError: if a parameter shares memory with another tensor and is not the same: a list of
            names would not bring that back.

    >>> one = nn.Linear(2, 2)
    >>> ties(nn.Sequential(one, nn.Linear(2, 3), one))
    [['0.weight', '2.weight'], ['0.bias', '2.bias']]
    """
    kept = model.state_dict().keys()
    places = {name: place for name, place in _places(model).items() if name in kept}
    groups: dict[tuple[int, bool], list[str]] = {}
    for name, place in places.items():
        groups.setdefault((id(place.tensor), place.parameter), []).append(name)
    _check_apart({names[0]: places[names[0]] for names in groups.values()})
    return [names for names in groups.values() if len(names) > 1]


def checked_ties(model: nn.Module, claimed: Any) -> list[list[str]]:
    """What `ties` gave, if it fits a model that was built and filled from the same file.

    Args:
        model: the model, whose tensors may still be apart.
        claimed: what `ties` gave, or a stranger.

    Raises:
        ValueError: if these are no groups of names, or not those of tensors that may be one.
    """
    if not isinstance(claimed, list) or not all(isinstance(names, list) for names in claimed):
        raise ValueError("its ties are no lists of names")
    places, seen = _places(model), set()
    for names in claimed:
        if len(names) < 2:
            raise ValueError(f"its ties hold {names!r:.100}; expected two names or more")
        for name in names:
            if not isinstance(name, str) or name not in places:
                raise ValueError(f"its ties name {name!r:.100}, which the model does not have")
            if name in seen:
                raise ValueError(f"its ties name {name} twice")
            seen.add(name)
            if not _alike(places[names[0]], places[name]):
                raise ValueError(f"its ties name {names[0]} and {name}, which are not the same")
    return claimed


def tie(model: nn.Module, groups: list[list[str]]) -> None:
    """Make the tensors of every group one, the first of them."""
    places = _places(model)
    for first, *others in groups:
        for name in others:
            places[name].owner[places[name].leaf] = places[first].tensor


def _places(model: nn.Module) -> dict[str, _Place]:
    places = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        for owner in (module._parameters, module._buffers):
            for leaf, x in owner.items():
                if x is not None:
                    name = f"{prefix}.{leaf}" if prefix else leaf
                    places[name] = _Place(owner, leaf, owner is module._parameters)
    return places


def _alike(one: _Place, other: _Place) -> bool:
    """Whether nothing but training could tell two tensors from one."""
    a, b = one.tensor, other.tensor
    if one.parameter != other.parameter or a.requires_grad != b.requires_grad:
        return False
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(_bytes(a), _bytes(b))


def _bytes(x: Tensor) -> Tensor:
    return x.detach().contiguous().reshape(-1).view(torch.uint8)  # NaN is not equal to itself


def _check_apart(places: dict[str, _Place]) -> None:
    """Raise if a parameter has memory in common with another of some tensors."""
    spans = []
    for name, place in places.items():
        x = place.tensor
        if type(x) in (Tensor, nn.Parameter) and x.data_ptr() and x.numel():
            # What lies between the rows of a view may belong to others: only its start is its own.
            size = x.nbytes if x.is_contiguous() else x.element_size()
            spans.append((x.data_ptr(), x.data_ptr() + size, name, place.parameter))
    furthest = (0, 0, "", False)
    for span in sorted(spans):
        if span[0] < furthest[1] and (span[3] or furthest[3]):
            raise TypeError(
                f"{furthest[2]} and {span[2]} share memory, but are not the same tensor, which "
                "can't be saved; make them one parameter, or clone one of them"
            )
        furthest = max(furthest, span, key=lambda x: x[1])
