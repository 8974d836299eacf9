"""A layer under the Log-ODE method: one state at the end of each window of its input.

The state that is carried holds h at the start of the window that is still open, the log-signature
of what has come of it, and how much of it has passed. An output inside a window is provisional: it
is the state now, and the state at the window's end takes its place.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from slicekit.checks import concrete
from slicekit.dispatch import surrounded
from slicekit.layers.state import State
from slicekit.paths.cutting import OpenWindow, ends
from slicekit.paths.lie_bases import LieBasis
from slicekit.scans import Projective, Scan
from slicekit.scans.entry import solve_steps
from slicekit.structures import Parameters, Structure

if TYPE_CHECKING:
    from slicekit.layers.slice import SLiCE


@dataclass(frozen=True, eq=False)
class _Lifted:
    """Parameters of the brackets, and all that they were made from."""

    structure: Structure
    basis: LieBasis
    parameters: Parameters
    brackets: Parameters


_lifted: WeakKeyDictionary["SLiCE", _Lifted] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Places:
    """Where the outputs of a layer that changes the length stand in its input.

    Args:
        counts: (batch,) int64, how many outputs each sequence has, a provisional one included.
        closed: (batch,) int64, how many of them are final.
        elements: (batch, outputs) int64, the last input element that each output has seen; the
            outputs past a sequence's count repeat its last.
    """

    counts: Tensor
    closed: Tensor
    elements: Tensor

    def select(self, x: Tensor) -> Tensor:
        """Those elements of x: (batch, length, size) -> (batch, outputs, size)."""
        index = self.elements.clamp_min(0).unsqueeze(-1).expand(-1, -1, x.shape[-1])
        return x.gather(1, index)


def open_window(state: State | None, dtype: torch.dtype) -> OpenWindow | None:
    """What a state holds of a window."""
    if state is None:
        return None
    return OpenWindow(state["window"].to(dtype), state["filled"])


def run_windows(
    layer: "SLiCE",
    increments: Tensor,
    hidden: Any,
    before: OpenWindow | None,
    scan: Scan | None,
    steps: Tensor | None,
) -> tuple[Any, Any, OpenWindow]:
    """One step a window.

    Args:
        layer: whose flow is `LogODE`.
        increments: (batch, length, channels).
        hidden: (batch, dim) or `Projective`, at the start of the open window.
        before: the open window.
        scan: how the steps are run.
        steps: (batch,) int64, the number of increments of each sequence, or None for all.

    Returns:
        States at the ends of the windows, the state at the start of the window that is open at the
        end, and that window.
    """
    flow = layer.log_ode
    assert flow is not None
    lift = partial(_lift, layer, increments.dtype)
    made = flow.steps(layer.structure, lift, increments, before, steps)
    windows = made.windows
    collective = scan is not None and scan.collective
    if collective:  # a step of zero before the others, after which stands the state they start from
        signatures = torch.nn.functional.pad(windows.signatures, (0, 0, 1, 0))
        counts = None if made.counts is None else made.counts + 1
        made = replace(made, windows=replace(windows, signatures=signatures), counts=counts)
    states, _ = solve_steps(flow, made, hidden, scan)
    if collective:
        hidden, states = _split_first(states)
    return states, _after(states, hidden, windows.closed), windows.open


def _split_first(states: Any) -> tuple[Any, Any]:
    """The first of some states, and the others."""
    if isinstance(states, Projective):
        first, rest = _split_first(states.direction)
        log_norm, norms = _split_first(states.log_norm)
        return Projective(first, log_norm), Projective(rest, norms)
    return states[:, 0], states[:, 1:]


def _lift(layer: "SLiCE", dtype: torch.dtype, basis: LieBasis) -> Parameters:
    """The parameters of the brackets; kept while nothing is trained, because steps ask again."""
    parameters, structure = layer.A(dtype), layer.structure
    if torch.is_grad_enabled() or not concrete(*parameters.values()) or surrounded():
        return structure.lift_parameters(parameters, basis)
    known = _lifted.get(layer)
    made_from = known is not None and known.structure is structure and known.basis == basis
    # By value: neither address nor version tells when a fused optimiser has changed a weight.
    if known is None or not made_from or not _same(known.parameters, parameters):
        kept = {name: x.clone() for name, x in parameters.items()}
        brackets = structure.lift_parameters(parameters, basis)
        known = _lifted[layer] = _Lifted(structure, basis, kept, brackets)
    return known.brackets


def _same(kept: Parameters, current: Parameters) -> bool:
    pairs = ((kept[name], x) for name, x in current.items())
    return kept.keys() == current.keys() and all(
        a.dtype == b.dtype and a.device == b.device and torch.equal(a, b) for a, b in pairs
    )


def _after(states: Any, hidden: Any, closed: Tensor) -> Any:
    """The state after as many windows as are closed."""
    if isinstance(states, Projective):
        direction = _after(states.direction, hidden.direction, closed)
        return Projective(direction, _after(states.log_norm, hidden.log_norm, closed))
    if states.shape[1] == 0:
        return hidden
    rows = torch.arange(states.shape[0], device=states.device)
    last = states[rows, (closed - 1).clamp_min(0)]
    none = closed == 0
    return torch.where(none if hidden.ndim == 1 else none.unsqueeze(-1), hidden, last)


def places(
    layer: "SLiCE", increments: Tensor, skip: int, state: State | None, lengths: Tensor | None
) -> Places:
    """Where the outputs stand.

    Args:
        layer: whose flow is `LogODE`.
        increments: (batch, length - skip, channels).
        skip: how many elements drive nothing, and give an output of their own.
        state: where an earlier part ended.
        lengths: (batch,) int64, or None for all.
    """
    assert layer.log_ode is not None
    steps = None if lengths is None else (lengths - skip).clamp_min(0)
    filled = None if state is None else state["filled"]
    places = ends(increments, layer.log_ode.window, filled, steps)
    elements = places.last + skip
    if skip:
        elements = torch.nn.functional.pad(elements, (1, 0))
    return Places(places.counts + skip, places.closed + skip, elements)
