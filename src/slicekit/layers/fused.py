"""The short way through `SLiCE.forward`: initial state, drive and steps by one operator.

It is taken by plain layers. What the operator is told of one is written down once for each layer
and shape, and compared at every call: a layer whose parts were exchanged since is looked at again.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from torch import Tensor

from slicekit.flows import resolve
from slicekit.layers.drives import TimeAndInput
from slicekit.layers.initial_states import FirstInput, Learned
from slicekit.layers.plainness import TOLD, changed, stored
from slicekit.layers.state import State
from slicekit.operators import PLAIN, unseen
from slicekit.scans import choice, lowering
from slicekit.scans.native.fused import alike, native_scan, only_run, run_at_once
from slicekit.scans.operands import expected_shapes

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
    layer: "SLiCE", x: Any, state: State | None, ends: bool
) -> tuple[Tensor, ...] | None:
    """All states (batch, length, dim), and the last one if asked for.

    None where this way is not open, or an argument does not fit and has to be refused elsewhere.
    """
    if type(x) not in PLAIN or not unseen():
        return None
    parameters, start = stored(layer, "A"), stored(layer, "start")
    if parameters is None or start is None:
        return None
    if state is not None:
        if not isinstance(state, State) or state.tensors.keys() != {"hidden"}:
            return None
        start = [state.tensors["hidden"]]
    known = _look_up(layer, [x, *start, *parameters], state is None)
    if known is None or known.plan is None:
        return None
    if state is None and type(layer.initial) is Learned:
        start = [start[0].expand(x.shape[0], -1)]  # type: ignore[union-attr]
    operands: list[Any] = [x, *start, *(parameters[i] for i in known.order)]
    return run_at_once(known.plan, ends, operands)


def _look_up(layer: "SLiCE", operands: list[Any], begins: bool) -> _Known | None:
    kept = layer.__dict__
    told = [kept.get(name) for name in (*TOLD, "initial")]
    key = [
        type(layer),
        choice.BACKENDS[0],
        lowering.generation,
        begins,
        *map(id, told),
        layer._parameters.get("B") is None,
    ]
    for p in operands:
        if type(p) not in PLAIN or not p.is_cpu:
            return None
        key += p.shape, p.dtype
    known = _known.get(layer)
    if known is None or known.key != key:
        known = _known[layer] = _Known(key, told, *_plan(layer, operands, begins))
    return known


def _plan(layer: "SLiCE", operands: list[Tensor], begins: bool) -> tuple[tuple, tuple] | tuple[()]:
    """Plan and order; nothing where the layer or its input is not plain."""
    x, drive, initial, structure = operands[0], layer.drive, layer.initial, layer.structure
    scan = native_scan(layer.scan)
    if scan is None or layer.B is not None or layer.projective or layer.windowed:
        return ()
    if changed(type(layer)) or type(drive) is not TimeAndInput:
        return ()
    if type(initial) not in (FirstInput, Learned):
        return ()
    if not alike(x, operands[1:]):
        return ()
    if x.ndim != 3 or x.shape[2] != layer.channels or 0 in x.shape:
        return ()
    affine = begins and type(initial) is FirstInput
    hidden = (structure.dim,) if begins else (x.shape[0], structure.dim)
    starts = [(structure.dim, layer.channels), (structure.dim,)] if affine else [hidden]
    names = layer.A._names
    shapes = expected_shapes(structure, layer.channels + 1)
    if names != tuple(shapes) or [p.shape for p in operands[1:]] != [*starts, *shapes.values()]:
        return ()
    flow = resolve(structure, layer.flow)
    run = only_run(structure, flow)
    if run is None:
        return ()
    still = begins and not initial.drives_first
    plan = (structure, run, affine, still, drive.dt, scan.limit)
    return plan, tuple(names.index(name) for name in run.names)
