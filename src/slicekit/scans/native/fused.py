"""The short way to all states of a plain recurrence: one operator around one kernel.

    h_0 = W x_0 + b, or given;   h_{l+1} = M(Δω_l) h_l,   Δω_l = x_l or pace (1, x_l)

With a pace, the increments are never written down: the kernel takes x. It writes all states where
they are wanted: after an element that drives nothing (a *still* one) stands the state before it.
The way is open where nothing but autograd looks on, for states that are vectors and structures that
one panel kernel takes; `made` takes all others. Both hand the same problem (`Run.panels`) to the
same kernel. They are two because of what stands before it: a description that can be traced, checks
of the state, a source and a list of scans to choose from take half as long again as all of a tiny
solve does on this way, and a layer's initial state and drive are part of the operator here alone.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C import _get_tracing_state
from torch.autograd import forward_ad
from torch.nn import Parameter

from slicekit.choices import noting
from slicekit.dispatch import autocast_off, surrounded
from slicekit.flows import Flow, flow_named
from slicekit.handles import recall
from slicekit.native import available
from slicekit.native.arrays import address, plain
from slicekit.native.panels import KERNEL, Panels, Plan, instructions, multiplications
from slicekit.native.threads import threads
from slicekit.operators import Operator
from slicekit.scans import choice
from slicekit.scans.base import Scan
from slicekit.scans.native.policy import Native
from slicekit.scans.native.runs import PANELS, REAL, Run, runs_of
from slicekit.structures import Parameters, Structure

PLAIN = (Tensor, Parameter)


def unseen() -> bool:
    """Whether nothing but autograd looks on, or autocast, which `run_at_once` switches off."""
    return not (
        torch.compiler.is_compiling()
        or surrounded()
        or noting()
        or _get_tracing_state()
        or forward_ad._current_level >= 0
    )


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
    increments: Tensor,
    state: Any,
    scan: Scan | None,
) -> tuple[Tensor, Tensor] | None:
    """All states and the last one, as `solve` gives them; None where this way is not open.

    Args:
        structure, flow, parameters, increments: checked.
        state: what was given as the initial one.
        scan: what was asked for.
    """
    native = native_scan(scan)
    if native is None or type(state) not in PLAIN or not unseen():
        return None
    if state.shape != (increments.shape[0], structure.dim) or increments.dtype not in REAL:
        return None
    run = only_run(structure, flow)
    if run is None or increments.shape[0] == 0:
        return None
    operands = [increments, state, *(parameters[name] for name in run.names)]
    dtype = increments.dtype
    if any(type(x) not in PLAIN or x.dtype != dtype or not x.is_cpu for x in operands):
        return None
    plan = (structure.key, flow.key, False, False, 0.0, native.limit)
    states, last = run_at_once(plan, True, operands, (structure, flow))
    return states, last


def run_at_once(
    plan: tuple, ends: bool, operands: Sequence[Tensor], held: tuple[object, ...]
) -> tuple[Tensor, ...]:
    """All states (batch, length, dim), and the last one if asked for.

    Args:
        plan: the settings of `FUSED` but the last two.
        ends: whether to give the last state.
        operands: x (batch, length, channels), W and b or h_0 (batch, dim), and the parameters in
            the order of the run.
        held: what the handles in the plan are of.
    """
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in operands)
    with autocast_off(operands[0].device):
        return tuple(FUSED((*plan, ends, keep), operands, held)[: 1 + ends])


MOST_PLANS = 256
"""Plans that are remembered."""

_plans: dict[tuple, Plan] = {}


class _Pass:
    """One call, forwards or backwards.

    Attributes:
        x: (batch, length, channels).
        start: W (dim, channels) and b (dim,), or the initial state (batch, dim).
        parameters: as the kernel takes them.
        shape: of all states, (batch, length, dim).
    """

    def __init__(
        self,
        structure: str,
        flow: str,
        affine: bool,
        still: bool,
        pace: float,
        limit: int,
        ends: bool,
        keep: bool,
        operands: Any,
    ) -> None:
        run = only_run(recall(structure), flow_named(flow))
        assert run is not None
        self.run, self.affine, self.still, self.pace = run, affine, still, pace
        self.limit, self.ends, self.keep = limit, ends, keep
        self.first = 3 if affine else 2
        self.x, *self.start = map(plain, operands[: self.first])
        self.parameters = run.bind([plain(x) for x in operands[self.first :]])
        self.shape = (*self.x.shape[:2], run.dim)

    def initial(self) -> Tensor:
        """h_0, (batch, dim)."""
        if not self.affine:
            return self.start[0]
        return torch.nn.functional.linear(self.x.select(1, 0), *self.start)

    def panels(self, state: Tensor) -> Panels:
        given = (self.x, None, state.unsqueeze(-1), None, 0, self.pace, self.still)
        return self.run.panels(self.parameters, *given)

    def plan(self, state: Tensor) -> Plan:
        """What follows from the run, the settings, and shapes and dtypes alone.

        When it is made, all tensors are looked at as a kernel does; equal ones fit as well.
        """
        batch, length, channels = self.x.shape
        steps, channels = batch * length, channels + bool(self.pace)
        team = threads(multiplications(self.run.cost, steps, steps, channels, 1))
        key: list[Any] = [self.run, self.pace, self.still, team, instructions()]
        for x in (self.x, state, *self.parameters):
            key += x.shape, x.dtype, x.is_cpu
        plan = _plans.get(tuple(key))
        if plan is None:
            panels = self.panels(state)
            panels.check()
            if len(_plans) >= MOST_PLANS:
                _plans.clear()
            plan = _plans[tuple(key)] = panels.plan
        return plan

    def problem(self, plan: Plan, state: Tensor) -> Any:
        """For the kernel, but for what it writes."""
        problem = plan.problem(self.parameters)
        problem.increments, problem.state = self.x.data_ptr(), state.data_ptr()
        return problem


def _forward(*args: Any) -> list[Tensor]:
    """All states, the last one if asked for; that at the beginning, the transitions if kept."""
    this = _Pass(*args)
    state = this.initial()
    plan = this.plan(state)
    problem = this.problem(plan, state)
    states = state.new_empty(this.shape)
    problem.states = states.data_ptr()
    numbers = plan.worth_keeping(this.limit) if this.keep else 0
    kept = [state.new_empty(numbers)] if numbers else []
    plan.keep(problem, kept[0] if kept else None)
    KERNEL.run("forward", problem, plan.bytes("forward", problem))
    begun = state if this.affine else state.new_empty(0)
    ends = [states.select(1, -1).clone()] if this.ends else []
    return [states, *ends, begun, *kept]


def _shapes(*args: Any) -> list[Tensor]:
    this = _Pass(*args)
    state = this.x.new_empty(this.shape[0], this.run.dim)
    kept = this.panels(state).worth_keeping(this.limit) if this.keep else 0
    shapes = [this.shape, *([state.shape] if this.ends else [])]
    shapes += [state.shape if this.affine else (0,), *([(kept,)] if kept else [])]
    return [this.x.new_empty(shape) for shape in shapes]


def _backward(*args: Any) -> list[Tensor | None]:
    (states, *rest), (in_states, *in_ends), needed = args[-3:]
    this = _Pass(*args[:-3])
    begun, *kept = rest[this.ends :]
    state = plain(begun) if this.affine else this.start[0]
    in_states = torch.zeros_like(states) if in_states is None else plain(in_states)
    in_x, in_state, in_parameters = _pulled(
        this,
        state,
        plain(states),
        plain(kept[0]) if kept else None,
        in_states,
        plain(in_ends[0]) if this.ends and in_ends[0] is not None else None,
        (needed[0], any(needed[this.first :])),
    )
    if not this.affine:
        return [in_x, in_state, *in_parameters]
    first = this.x.select(1, 0)
    if in_x is not None:
        in_x.select(1, 0).addmm_(in_state, this.start[0])
    in_weight = torch.mm(in_state.t(), first) if needed[1] else None
    return [in_x, in_weight, in_state.sum(0) if needed[2] else None, *in_parameters]


def _pulled(
    this: _Pass,
    state: Tensor,
    states: Tensor,
    kept: Tensor | None,
    in_states: Tensor,
    in_last: Tensor | None,
    needed: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor, Sequence[Tensor | None]]:
    """Gradients of x and of the parameters, each where it is needed, and of the initial state."""
    plan = this.plan(state)
    problem, expected = this.problem(plan, state), (this.shape, state.dtype)
    problem.states = address("states", states, expected)
    problem.in_states = address("in_states", in_states, expected)
    if in_last is not None:
        problem.in_last = address("in_last", in_last, (state.shape, state.dtype))
    plan.keep(problem, kept)
    in_state = torch.empty_like(state)
    problem.in_state = in_state.data_ptr()
    wanted, trained = needed
    in_x = torch.empty_like(this.x) if wanted else None
    if in_x is not None:
        problem.in_increments = in_x.data_ptr()
    in_parameters = [torch.empty_like(x) for x in this.parameters] if trained else []
    if trained:
        problem.in_parameters = plan.pointers(in_parameters)
    KERNEL.run("backward", problem, plan.bytes("backward", problem))
    if this.shape[0] == 0:
        for x in (in_x, *in_parameters):
            if x is not None:
                x.zero_()
    if not trained:
        return in_x, in_state, [None] * len(this.parameters)
    return in_x, in_state, this.run.pull(this.parameters, in_parameters)


def _flops(structure: str, *rest: Any) -> int:
    """Making the transitions and applying them."""
    batch, length, channels = rest[-1][0]
    return 2 * batch * length * recall(structure).step_cost(channels + bool(rest[-5]))


def _outputs(*plan: Any) -> int:
    return 1 + plan[-2]


FUSED = Operator(
    "fused",
    "str structure, str flow, bool affine, bool still, float pace, int limit, bool ends, bool keep",
    _forward,
    _shapes,
    _backward,
    flops=_flops,
    outputs=_outputs,
    partial=True,
    subject="Chunked() and Native() give",
    advice="use scan=Recurrent(), where a scan can be chosen",
)
