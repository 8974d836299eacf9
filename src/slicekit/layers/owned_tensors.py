"""The tensors of a frozen description, owned by a module."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from slicekit.checks import HALF, concrete


class OwnedTensors(nn.Module):
    """Floating and complex tensors as trained parameters, integer tensors (a pattern) as buffers.

    Complex ones keep their dtype where a module is cast to a real one (`.double()`, `.half()`).

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
            if _is_trained(x):
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

    def trained(self) -> list[Tensor]:
        """The trained tensors, as the layer sees them: pruned or parametrised, if they are."""
        return [x for x in self().values() if _is_trained(x)]

    def floating(self) -> list[Tensor]:
        """Those of the trained tensors that are real."""
        return [x for x in self.trained() if x.is_floating_point()]

    def held_in(self, otherwise: torch.dtype) -> torch.dtype:
        """The dtype of the floating tensors, or another where there are none."""
        return next((x.dtype for x in self().values() if x.is_floating_point()), otherwise)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """As torch moves and casts a module, whose `to` would drop the imaginary parts."""

        def change(x: Tensor) -> Tensor:
            changed = fn(x.new_empty(0)) if x.is_complex() else x
            real = x.is_complex() and not changed.is_complex()
            return x.to(changed.device) if real else fn(x)

        return super()._apply(change, recurse)


def _is_trained(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _take_stored_sizes(module: OwnedTensors, state_dict: Any, prefix: str, *rest: Any) -> None:
    stored = {name: state_dict.get(prefix + name) for name in module._names}
    whole = {name: x for name, x in stored.items() if x is not None}
    if module._check is not None and len(whole) == len(stored) and concrete(*whole.values()):
        module._check(whole)
    for name in module.ragged:
        present = getattr(module, name)
        if name in whole and whole[name].shape != present.shape:
            present.data = present.data.new_empty(whole[name].shape)
