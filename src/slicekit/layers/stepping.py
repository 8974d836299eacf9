"""The short way through `SLiCE.step`: one call of a kernel, with no allocation beyond its output.

It is taken where nothing is differentiated, traced or transformed, which is how a model is served.
"""

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch._C._functorch import peek_interpreter_stack

from slicekit.flows import LogODE, resolve
from slicekit.layers.drives import TimeAndInput
from slicekit.layers.state import State
from slicekit.native import available
from slicekit.native.step import (
    HADAMARD,
    LARGEST_EXPONENTIAL,
    SHARED_FACTORS,
    SPARSE,
    StepPlan,
)
from slicekit.scans.native_runs import PANELS, runs_of
from slicekit.scans.native_runs import SPARSE as SPARSE_KERNEL

if TYPE_CHECKING:
    from slicekit.layers.slice import SLiCE

Pieces = tuple[list[tuple[int, int, int, int]], list[tuple[str, ...]]]

_plans: WeakKeyDictionary["SLiCE", tuple[tuple, StepPlan]] = WeakKeyDictionary()


def quick_step(layer: "SLiCE", x: Tensor, state: State | None) -> tuple[Tensor, State, bool] | None:
    """The state after x, as output and as `State`, and whether it is finite.

    None where this way is not open, or an argument does not fit and has to be refused elsewhere.
    """
    if state is None or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return None
    hidden = state.tensors.get("hidden")
    if hidden is None or type(x) is not Tensor or type(hidden) is not Tensor:
        return None
    if x.dtype != hidden.dtype or not (x.is_cpu and hidden.is_cpu):
        return None
    if not (x.is_contiguous() and hidden.is_contiguous()):
        return None
    if x.ndim != 2 or hidden.shape != (x.shape[0], layer.structure.dim):
        return None
    if x.shape[1] != layer.channels or _surrounded():
        return None
    plan = _plan(layer, x)
    if plan is None:
        return None
    out, finite = plan.run(x, hidden)
    return out, State({"hidden": out}), finite


def _surrounded() -> bool:
    """Whether a transform or a dispatch mode is at work, which must see every operation."""
    return peek_interpreter_stack() is not None or torch._C._len_torch_dispatch_stack() > 0


def _plan(layer: "SLiCE", x: Tensor) -> StepPlan | None:
    stored = layer.A.stored()
    key = (x.shape[0], x.dtype, [p.data_ptr() for p in stored])
    known = _plans.get(layer)
    if known is not None and known[0] == key:
        return known[1]
    tensors = layer.A()
    if len(tensors) != len(stored):  # pruned or parametrised: made anew at every call
        return None
    plan = _make(layer, tensors, x)
    if plan is not None:
        _plans[layer] = (key, plan)
    return plan


def _make(layer: "SLiCE", tensors: dict[str, Tensor], x: Tensor) -> StepPlan | None:
    drive = layer.drive
    if not available() or type(drive) is not TimeAndInput or layer.scan is not None:
        return None
    if isinstance(layer.flow, LogODE):
        return None
    if layer.B is not None or layer.projective or x.dtype not in (torch.float32, torch.float64):
        return None
    for p in tensors.values():
        floating = p.is_floating_point()
        if not (p.is_cpu and p.is_contiguous()) or (floating and p.dtype != x.dtype):
            return None
    pieces = _pieces(layer, tensors)
    if pieces is None:
        return None
    parts, names = pieces
    own = [tuple(tensors[name] for name in group) for group in names]
    return StepPlan(parts, own, x.shape[0], layer.channels + 1, drive.dt)


def _pieces(layer: "SLiCE", tensors: dict[str, Tensor]) -> Pieces | None:
    """Kind, dim, size and option of each part, and the names of its parameters."""
    runs = runs_of(layer.structure, resolve(layer.structure, layer.flow))
    if isinstance(runs, str):
        return None
    parts: list[tuple[int, int, int, int]] = []
    names: list[tuple[str, ...]] = []
    for run in runs:
        if run.kernel != PANELS:
            kept = tensors[run.names[0]]
            if run.kernel == SPARSE_KERNEL:
                parts.append((SPARSE, run.dim, kept.numel(), 0))
            else:
                parts.append((SHARED_FACTORS, run.dim, tensors[run.names[1]].shape[-1], 0))
            names.append(run.names)
            continue
        at = 0
        for part in run.parts:
            own = run.names[at : at + part.tensors]
            at += part.tensors
            if part.exponential and part.size > LARGEST_EXPONENTIAL:
                return None
            option = own[0] in run.bounded if part.kind == HADAMARD else part.exponential
            parts.append((part.kind, part.dim, part.size, int(option)))
            names.append(own)
    return parts, names
