"""The tensors of a frozen description, owned by a module."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.checks import HALF, concrete


class OwnedTensors(nn.Module):
    """Floating tensors as trained parameters, integer tensors (a pattern) as buffers.

    Args:
        tensors: by name.
        ragged: names of those whose number of elements is random: when a checkpoint is loaded they
            take its size.
        check: raises ValueError unless what is loaded makes sense.
    """

    def __init__(
        self,
        tensors: dict[str, Tensor],
        ragged: tuple[str, ...] = (),
        check: Callable[[dict[str, Tensor]], None] | None = None,
    ) -> None:
        """Register the tensors."""
        super().__init__()
        self._names = tuple(tensors)
        self.ragged, self._check = ragged, check
        self.register_load_state_dict_pre_hook(_take_stored_sizes)
        for name, x in tensors.items():
            if x.is_floating_point():
                self.register_parameter(name, nn.Parameter(x))
            else:
                self.register_buffer(name, x)

    def forward(self, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """The tensors by name; half-precision ones in `dtype`, if given."""
        tensors = {name: getattr(self, name) for name in self._names}
        if dtype is None:
            return tensors
        return {name: x.to(dtype) if x.dtype in HALF else x for name, x in tensors.items()}

    def stored(self) -> list[Tensor]:
        """The tensors that the module itself holds, without asking for each by its name."""
        return [*self._parameters.values(), *self._buffers.values()]  # type: ignore[list-item]

    def floating(self) -> list[Tensor]:
        """The trained tensors, as the layer sees them: pruned or parametrised, if they are."""
        return [x for x in self().values() if x.is_floating_point()]


def _take_stored_sizes(module: OwnedTensors, state_dict: Any, prefix: str, *rest: Any) -> None:
    stored = {name: state_dict.get(prefix + name) for name in module._names}
    whole = {name: x for name, x in stored.items() if x is not None}
    if module._check is not None and len(whole) == len(stored) and concrete(*whole.values()):
        module._check(whole)
    for name in module.ragged:
        present = getattr(module, name)
        if name in whole and whole[name].shape != present.shape:
            present.data = present.data.new_empty(whole[name].shape)
