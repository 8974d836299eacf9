"""The short way to all states of a plain recurrence: one operator around one kernel.

    h_0 = W x_0 + b, or given;   h_{l+1} = M(Δω_l) h_l,   Δω_l = x_l or pace (1, x_l)

x may be bfloat16, and so are all states then: the kernel reads and writes them as such, also on the
way back, and computes in float32. The last state, and all that is not as long as x, is float32.
With a pace, the increments are never written down: the kernel takes x. It writes all states where
they are wanted: after an element that drives nothing (a *still* one) stands the state before it.
The way is open where nothing but autograd looks on, for states that are vectors and structures that
one panel kernel takes; `made` takes all others. Both hand the same problem, `Panels`, to the same
kernel. They are two because of what stands before it: a description that can be traced, checks of
the state, a source and a list of scans to choose from take half as long again as all of a tiny
solve does on this way, and a layer's initial state and drive are part of the operator here alone.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from slicekit.flows import Flow
from slicekit.handles import recall
from slicekit.native import available
from slicekit.native.kernel import plain
from slicekit.native.panels import HALF, Panels
from slicekit.operators import PLAIN, Operator, unseen
from slicekit.scans import choice, lowering
from slicekit.scans.base import Scan
from slicekit.scans.native.policy import Native
from slicekit.scans.native.runs import PANELS, REAL, Run, run_named, runs_of
from slicekit.scans.operands import expected_shapes
from slicekit.structures import Parameters, Structure


def alike(x: Tensor, others: Sequence[Tensor]) -> bool:
    """Whether the kernel takes a path and all that goes with it, by their dtypes."""
    half = x.dtype is HALF
    dtypes = (HALF, torch.float32) if half else (x.dtype,)
    return (half or x.dtype in REAL) and all(y.dtype in dtypes for y in others)


def only_run(structure: Structure, flow: Flow) -> Run | None:
    """The only run of a structure that can't change, if the panel kernel takes it."""
    runs = runs_of(structure, flow) if structure.handle.shared else ""
    if isinstance(runs, str) or len(runs) != 1 or runs[0].kernel != PANELS or not available():
        return None
    return runs[0]


def native_scan(scan: Scan | None) -> Native | None:
    """The scan, or the first to choose from, if it is `Native` itself."""
    taken = choice.BACKENDS[0] if scan is None else scan
    return taken if type(taken) is Native else None


def solve_at_once(
    structure: Structure,
    flow: Flow,
    parameters: Parameters,
    increments: Any,
    state: Any,
    scan: Scan | None,
) -> tuple[Tensor, Tensor] | None:
    """All states and the last one, as `solve` gives them.

    None where this way is not open, or an argument does not fit and has to be refused elsewhere.

    Args:
        structure, parameters, increments, scan: as `solve` is given them.
        flow: the one to use.
        state: what was given as the initial one.
    """
    native = native_scan(scan)
    if native is None or type(increments) not in PLAIN or not increments.is_cpu or not unseen():
        return None
    shape = increments.shape
    if len(shape) != 3 or 0 in shape or type(parameters) is not dict:
        return None
    given = (state, *parameters.values())
    if any(type(x) not in PLAIN or not x.is_cpu for x in given) or not alike(increments, given):
        return None
    run = _fitting_run(structure, flow, parameters, shape[2])
    if run is None or state.shape != (shape[0], run.dim):
        return None
    operands = [increments, state, *(parameters[name] for name in run.names)]
    states, last = run_at_once((structure, run, False, False, 0.0, native.limit), True, operands)
    return states, last


def _fitting_run(
    structure: Structure, flow: Flow, parameters: Parameters, channels: int
) -> Run | None:
    """The only run of a structure whose parameters these are."""
    handle = structure.handle if isinstance(structure, Structure) else None
    if handle is None or not handle.shared:
        return None
    shapes = {name: x.shape for name, x in parameters.items()}
    key = ("run", lowering.generation, flow.key, channels, *shapes.items())
    run = handle.known.get(key)
    if run is None and shapes == expected_shapes(structure, channels):
        run = only_run(structure, flow)
        if run is not None:
            handle.known[key] = run
    return run


def run_at_once(plan: tuple, ends: bool, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """All states (batch, length, dim), and the last one if asked for.

    Args:
        plan: the settings of `FUSED` but the last two.
        ends: whether to give the last state.
        operands: x (batch, length, channels), W and b or h_0 (batch, dim), and the parameters in
            the order of the run; `alike`.
    """
    if operands[0].dtype is HALF:
        operands = [operands[0], *(x.float() for x in operands[1:])]
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in operands)
    return tuple(FUSED.at_once((*plan, ends, keep), operands, keep)[: 1 + ends])


class _Pass:
    """One call, forwards or backwards.

    Attributes:
        x: (batch, length, channels).
        start: W (dim, channels) and b (dim,), or the initial state (batch, dim).
        parameters: as the kernel takes them.
    """

    def __init__(
        self,
        structure: Any,
        run: Run | str,
        affine: bool,
        still: bool,
        pace: float,
        limit: int,
        ends: bool,
        keep: bool,
        operands: Any,
    ) -> None:
        run = run_named(run) if isinstance(run, str) else run
        self.run, self.affine, self.still, self.pace = run, affine, still, pace
        self.limit, self.ends, self.keep = limit, ends, keep
        self.first = 3 if affine else 2
        self.x, *self.start = map(plain, operands[: self.first])
        parameters = [plain(x) for x in operands[self.first :]]
        self.parameters = run.bind(parameters) if run.bounded else parameters

    def initial(self) -> Tensor:
        """h_0, (batch, dim)."""
        if not self.affine:
            return self.start[0]
        return torch.nn.functional.linear(self.first_element(), *self.start)

    def first_element(self) -> Tensor:
        """x_0 in full precision, (batch, channels)."""
        return self.x.select(1, 0).to(self.start[0].dtype)

    def panels(self, state: Tensor) -> Panels:
        """The problem of the kernel, from the state at the beginning."""
        given = (tuple(self.parameters), self.x, None, state, None, 0)
        return Panels(self.run.parts, *given, pace=self.pace, still=self.still)


def _forward(*args: Any) -> list[Tensor]:
    """All states, the last if asked for; that at the beginning if made, transitions if kept."""
    this = _Pass(*args)
    state = this.initial()
    panels = this.panels(state)
    numbers = panels.worth_keeping(this.limit) if this.keep else 0
    kept = [state.new_empty(numbers)] if numbers else []
    last = torch.empty_like(state) if this.ends and this.x.dtype is HALF else None
    states, _ = panels.forward(kept[0] if kept else None, last=last)
    if this.ends and last is None:
        last = states.select(1, -1).clone()
    return [states, *([] if last is None else [last]), *([state] if this.affine else []), *kept]


def _shapes(*args: Any) -> list[Tensor]:
    this = _Pass(*args)
    state = this.start[0].new_empty(this.x.shape[0], this.run.dim)
    kept = this.panels(state).worth_keeping(this.limit) if this.keep else 0
    states = this.x.new_empty(*this.x.shape[:2], this.run.dim)
    shapes = [*[state.shape] * (this.ends + this.affine), *([(kept,)] if kept else [])]
    return [states, *(state.new_empty(shape) for shape in shapes)]


def _backward(*args: Any) -> list[Tensor | None]:
    (states, *rest), (in_states, *in_ends), needed = args[-3:]
    this = _Pass(*args[:-3])
    rest = [plain(x) for x in rest[this.ends :]]
    state, *kept = rest if this.affine else [this.start[0], *rest]
    in_last = in_ends[0] if this.ends else None
    in_parameters, in_x, in_state, _ = this.panels(state).backward(
        plain(states),
        None,
        kept[0] if kept else None,
        torch.zeros_like(states) if in_states is None else plain(in_states),
        None if in_last is None else plain(in_last),
        needed[0],
        any(needed[this.first :]),
    )
    if this.run.bounded:
        in_parameters = this.run.pull(this.parameters, in_parameters)
    if not this.affine:
        return [in_x, in_state, *in_parameters]
    weight = this.start[0]
    if needed[0]:
        in_x.select(1, 0).add_(torch.mm(in_state, weight))
    in_weight = torch.mm(in_state.t(), this.first_element()) if needed[1] else None
    return [in_x, in_weight, in_state.sum(0) if needed[2] else None, *in_parameters]


def _flops(structure: str, *rest: Any) -> int:
    """Making the transitions and applying them."""
    batch, length, channels = rest[-1][0]
    return 2 * batch * length * recall(structure).step_cost(channels + bool(rest[-5]))


def _outputs(*plan: Any) -> int:
    return 1 + plan[-2]


FUSED = Operator(
    "fused",
    "str structure, str run, bool affine, bool still, float pace, int limit, bool ends, bool keep",
    _forward,
    _shapes,
    _backward,
    flops=_flops,
    outputs=_outputs,
    partial=True,
    subject="Chunked() and Native() give",
    advice="use scan=Recurrent(), where a scan can be chosen",
)
