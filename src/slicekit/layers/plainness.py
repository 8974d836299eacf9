"""Whether a `SLiCE` is what it was made as, so that a kernel may be told of it once and for all."""

from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn.modules import module as modules

from slicekit.layers.owned_tensors import OwnedTensors

if TYPE_CHECKING:
    from slicekit.layers.slice import SLiCE

TOLD = ("structure", "flow", "drive", "scan", "projective", "channels")
"""Attributes of a layer that say what it computes."""

_METHODS = ("trajectory", "_trajectory", "_start", "_increments", "_affine", "_final", "forward")


def stored(layer: "SLiCE", name: str) -> list[Tensor] | None:
    """The tensors that one of the layer's modules owns, in the order of their names.

    None where they are made anew at every call: pruned, parametrised or hooked.
    """
    held: Any = layer._modules.get(name)
    if type(held) is not OwnedTensors or held._forward_hooks or held._forward_pre_hooks:
        return None
    if modules._global_forward_hooks or modules._global_forward_pre_hooks:
        return None
    kept = held.__dict__
    tensors, buffers = kept["_parameters"], kept["_buffers"]
    inside = []
    for key in kept["_names"]:
        x = tensors.get(key)
        x = buffers.get(key) if x is None else x
        if x is None or key in kept:
            return None
        inside.append(x)
    return inside


def changed(kind: "type[SLiCE]") -> bool:
    """Whether a subclass has another way from input to state."""
    from slicekit.layers.slice import SLiCE

    ways = any(getattr(kind, name) is not getattr(SLiCE, name) for name in _METHODS)
    return ways or any(hasattr(kind, name) for name in TOLD)
