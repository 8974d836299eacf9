"""Whether modules are what they were made as, so that something else may do their work.

A kernel is told of a `SLiCE` once and for all, and what is done to every position may be done once
for each token instead.
"""

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn.modules import module as modules

from slicekit.layers.owned_tensors import OwnedTensors

if TYPE_CHECKING:
    from slicekit.layers.slice import SLiCE

TOLD = ("structure", "flow", "drive", "scan", "projective", "channels")
"""Attributes of a layer that say what it computes."""

DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)

_METHODS = ("trajectory", "_trajectory", "_start", "_increments", "_affine", "_final", "forward")


def unhooked(module: nn.Module) -> bool:
    """Whether a call of a module is one of its `forward`, and nobody else hears of it."""
    return not (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or modules._global_forward_hooks
        or modules._global_forward_pre_hooks
        or modules._global_backward_hooks
        or modules._global_backward_pre_hooks
        or "forward" in module.__dict__
    )


def table_of(embedding: nn.Module) -> Tensor | None:
    """The tensor that an embedding looks its rows up in, if that is all it does.

    None where its rows or their gradients are changed on the way: by hooks, a parametrisation, a
    class of the user's, or options of torch's own.
    """
    if type(embedding) is not nn.Embedding or not unhooked(embedding):
        return None
    if embedding.padding_idx is not None or embedding.max_norm is not None:
        return None
    if embedding.scale_grad_by_freq or embedding.sparse:
        return None
    return embedding._parameters.get("weight")


def repeats(module: nn.Module) -> bool:
    """Whether equal elements come out equal, as far as it shows: no dropout at work, no hooks."""
    return all(
        unhooked(m) and not (m.training and isinstance(m, DROPOUT) and m.p > 0)
        for m in module.modules()
    )


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
