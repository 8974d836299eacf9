"""The short way through `SLiCE.step`: one call of a kernel, and a copy of what it gives.

It is taken where nothing is differentiated, traced or transformed, which is how a model is served.
What the kernel is told of a layer is written down once, and looked at again at every step: a layer
whose parts were exchanged since gets another plan, or goes the long way.
"""

from dataclasses import dataclass
from operator import is_, itemgetter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from slicekit.choices import kernel_serves, noting
from slicekit.dispatch import surrounded
from slicekit.flows import resolve
from slicekit.layers.drives import TimeAndInput
from slicekit.layers.plainness import TOLD, changed, stored
from slicekit.layers.state import State
from slicekit.native import available
from slicekit.native.kernel import Kind, fits
from slicekit.native.step import LARGEST_EXPONENTIAL, StepPlan
from slicekit.scans.lowering import lower
from slicekit.scans.operands import expected_shapes

if TYPE_CHECKING:
    from slicekit.layers.slice import SLiCE

Pieces = tuple[list[tuple[Kind, int, int, int]], list[tuple[str, ...]]]


@dataclass(frozen=True, eq=False)
class _Known:
    """A plan, and the parameters and the parts of a layer that it was made for."""

    key: list
    told: tuple
    plan: StepPlan


_told = itemgetter(*TOLD)
_plans: WeakKeyDictionary["SLiCE", _Known] = WeakKeyDictionary()


def quick_step(layer: "SLiCE", x: Tensor, state: State | None) -> tuple[Tensor, State, bool] | None:
    """The state after x, as output and as `State`, in memory of their own; whether it is finite.

    None where this way is not open, or an argument does not fit and has to be refused elsewhere.
    """
    if state is None or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return None
    hidden = state.tensors.get("hidden")
    if hidden is None or type(x) is not Tensor or type(hidden) is not Tensor or surrounded():
        return None
    log_norm = state.tensors.get("log_norm") if layer.projective else None
    if layer.projective and type(log_norm) is not Tensor:
        return None
    moved = _moved(layer, x, hidden, log_norm)
    if noting():
        why = "it takes plain layers and tensors, and neither B nor scan" if moved is None else None
        kernel_serves("step", why, "a pass over one element")
    if moved is None:
        return None
    hidden, log_norm, finite = moved
    tensors = {"hidden": hidden} if log_norm is None else {"hidden": hidden, "log_norm": log_norm}
    return hidden.clone(), State(tensors), finite


def _moved(
    layer: "SLiCE", x: Tensor, hidden: Tensor, log_norm: Tensor | None
) -> tuple[Tensor, Tensor | None, bool] | None:
    """What a plan gives: that of the step before, or one for a layer or an x that differs."""
    tensors = stored(layer, "A")
    kept = layer.__dict__
    if tensors is None or layer._parameters.get("B") is not None or kept.get("B") is not None:
        return None
    try:
        told = _told(kept)
    except KeyError:  # a module now, or gone
        return None
    key: list = [type(layer)]
    for p in tensors:
        key += p.data_ptr(), p.shape, p.dtype, p.is_contiguous(), p.is_neg()
    known = _plans.get(layer)
    if known is not None and known.key == key and all(map(is_, told, known.told)):
        moved = known.plan.run(x, hidden, log_norm)
        if moved is not None:
            return moved
    plan = _make(layer, dict(zip(layer.A._names, tensors, strict=True)), x)
    if plan is None:
        return None
    _plans[layer] = _Known(key, told, plan)
    return plan.run(x, hidden, log_norm)


def _make(layer: "SLiCE", tensors: dict[str, Tensor], x: Tensor) -> StepPlan | None:
    drive, structure = layer.drive, layer.structure
    if not available() or type(drive) is not TimeAndInput or layer.scan is not None:
        return None
    if layer.windowed or changed(type(layer)):
        return None
    if layer.B is not None or x.dtype not in (torch.float32, torch.float64):
        return None
    channels = layer.channels + 1
    shapes = expected_shapes(structure, channels)
    if x.ndim != 2 or shapes.keys() != tensors.keys():
        return None
    for name, p in tensors.items():
        size = p.numel() if name in structure.ragged else shapes[name]
        if not fits(p, size, x.dtype if p.is_floating_point() else torch.int64):
            return None
    pieces = _pieces(layer, tensors)
    if pieces is None:
        return None
    parts, names = pieces
    run_parameters = [tuple(tensors[name] for name in group) for group in names]
    return StepPlan(parts, run_parameters, x.shape[0], channels, drive.dt)


def _pieces(layer: "SLiCE", tensors: dict[str, Tensor]) -> Pieces | None:
    """Kind, dim, size and option of each part, and the names of its parameters."""
    lowered = lower(layer.structure, resolve(layer.structure, layer.flow))
    if isinstance(lowered, str):
        return None
    parts: list[tuple[Kind, int, int, int]] = []
    for part in lowered:
        size, sizes = part.size, [tensors[name].numel() for name in part.names]
        if part.kind is Kind.SPARSE:
            size = sizes[0]
            if sizes[1] != size:
                return None
        small = part.kind in (Kind.BLOCKS, Kind.SKEW) and size <= LARGEST_EXPONENTIAL
        if part.exponential and not small:
            return None
        option = part.bounded if part.kind is Kind.HADAMARD else part.exponential
        parts.append((part.kind, part.dim, size, int(option)))
    return parts, [part.names for part in lowered]
