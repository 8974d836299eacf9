"""The short way through `SLiCE.forward`: initial state, drive and steps by one operator.

It is taken by plain layers, and by projective ones of which only directions are asked for. What the
operator is told of one is written down once for each layer and shape, and compared at every call: a
layer whose parts were exchanged since is looked at again.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from slicekit.checks import Lengths, check_lengths
from slicekit.flows import resolve
from slicekit.layers.drives import TimeAndInput
from slicekit.layers.initial_states import FirstInput, Learned
from slicekit.layers.plainness import TOLD, changed, stored
from slicekit.layers.slice_checks import check_started
from slicekit.layers.state import State
from slicekit.operators import PLAIN, unseen
from slicekit.paths import Tabulated
from slicekit.scans import choice, lowering
from slicekit.scans.native.assignment import PANELS
from slicekit.scans.native.fused import alike, native_scan, only_run, run_at_once
from slicekit.scans.operands import expected_shapes
from slicekit.scans.projective import WINDOW
from slicekit.structures import Structure

if TYPE_CHECKING:
    from slicekit.layers.slice import SLiCE


@dataclass(frozen=True, eq=False)
class _Known:
    """What is told of a layer, and the objects that the key names by their identity.

    Attributes:
        plan: as `run_at_once` takes it; None where the way is not open.
        order: places of the layer's parameters, as the kernel takes them.
    """

    key: list
    told: list
    plan: tuple | None = None
    order: tuple[int, ...] = ()


_known: WeakKeyDictionary["SLiCE", _Known] = WeakKeyDictionary()


def quick_pass(
    layer: "SLiCE", x: Any, state: State | None, lengths: Lengths | None, ends: bool
) -> tuple[Tensor, ...] | None:
    """All states (batch, length, dim) or directions, and the last state if asked for.

    None where this way is not open, or an argument does not fit and has to be refused elsewhere.
    """
    path = [x.table, x.index] if type(x) is Tabulated else [x]
    if layer.projective and (ends or state is not None):
        return None
    if type(path[0]) not in PLAIN or not unseen():
        return None
    parameters, start = stored(layer, "A"), stored(layer, "start")
    if parameters is None or start is None:
        return None
    if state is not None:
        if not isinstance(state, State) or state.tensors.keys() != {"hidden"}:
            return None
        start = [state.tensors["hidden"]]
    tokens = len(path) > 1
    padded = lengths is not None and not tokens  # of tokens, index -1 stands for padding
    settings = (state is None, tokens, padded)
    known = _look_up(layer, [path[0], *start, *parameters, *path[1:]], *settings)
    if known is None or known.plan is None:
        return None
    if state is None and type(layer.initial) is Learned:
        start = [start[0].expand(x.shape[0], -1)]  # type: ignore[union-attr]
    operands: list[Any] = [path[0], *start, *(parameters[i] for i in known.order), *path[1:]]
    if lengths is not None:
        lengths = check_lengths(lengths, *x.shape[:2], device=x.device)
        check_started(layer, state, lengths)
        operands[len(operands) - tokens :] = [x.masked(lengths).index if tokens else lengths]
    return run_at_once(known.plan, ends, operands)


def _look_up(
    layer: "SLiCE", operands: list[Any], begins: bool, tokens: bool, padded: bool
) -> _Known | None:
    kept = layer.__dict__
    told = [kept.get(name) for name in (*TOLD, "initial")]
    key = [
        type(layer),
        choice.BACKENDS[0],
        lowering.generation,
        begins,
        tokens,
        padded,
        *map(id, told),
        layer._parameters.get("B") is None,
    ]
    for p in operands:
        if type(p) not in PLAIN or not p.is_cpu:
            return None
        key += p.shape, p.dtype
    known = _known.get(layer)
    if known is None or known.key != key:
        known = _known[layer] = _Known(key, told, *_plan(layer, operands, begins, tokens, padded))
    return known


def _plan(
    layer: "SLiCE", operands: list[Tensor], begins: bool, tokens: bool, padded: bool
) -> tuple[tuple, tuple] | tuple[()]:
    """Plan and order; nothing where the layer or its input is not plain."""
    drive, initial, structure = layer.drive, layer.initial, layer.structure
    x, where = operands[0], operands[-1] if tokens else operands[0]
    operands = operands[:-1] if tokens else operands
    scan = native_scan(layer.scan)
    if scan is None or layer.B is not None or layer.windowed:
        return ()
    if changed(type(layer)) or type(drive) is not TimeAndInput:
        return ()
    if type(initial) not in (FirstInput, Learned):
        return ()
    floating = [p for p in operands[1:] if p.dtype is not torch.int64]
    if not alike(x, floating):
        return ()
    if x.ndim != 3 - tokens or x.shape[-1] != layer.channels or 0 in (*x.shape, *where.shape):
        return ()
    affine = begins and type(initial) is FirstInput
    hidden = (structure.dim,) if begins else (where.shape[0], structure.dim)
    starts = [(structure.dim, layer.channels), (structure.dim,)] if affine else [hidden]
    names, given = layer.A._names, operands[1 + len(starts) :]
    if [p.shape for p in operands[1 : 1 + len(starts)]] != starts:
        return ()
    if not _expected(structure, layer.channels + 1, names, given):
        return ()
    flow = resolve(structure, layer.flow)
    run = only_run(structure, flow)
    if run is None:
        return ()
    by_panels = run.kernel == PANELS
    if by_panels and len(floating) < len(operands) - 1:
        return ()
    order = tuple(names.index(name) for name in run.names)
    still = begins and not initial.drives_first
    rescale = WINDOW * layer.projective
    plan = (structure, run, affine, still, padded, drive.dt, scan.limit, rescale)
    return plan, order


def _expected(
    structure: Structure, channels: int, names: tuple[str, ...], given: list[Tensor]
) -> bool:
    """Whether parameters are those of a structure, by their names and shapes."""
    shapes = expected_shapes(structure, channels)
    if names != tuple(shapes) or len(names) != len(given):
        return False
    pairs = zip(names, given, strict=True)
    return all(name in structure.ragged or x.shape == shapes[name] for name, x in pairs)
