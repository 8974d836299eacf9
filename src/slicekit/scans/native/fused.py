"""The short way to all states of a recurrence, or their directions: one operator around one kernel.

    h_0 = W x_0 + b, or given;   h_{l+1} = M(Δω_l) h_l,   Δω_l = x_l or pace (1, x_l)

x may be bfloat16, and so are all states then: the kernel reads and writes them as such, also on the
way back, and computes in float32. The last state, and all that is not as long as x, is float32: so
are tables and parameters, of which a copy is made where they are not.
With a pace, increments of panels are never written down: the kernel takes x. All states are written
where they are wanted: after an element that drives nothing (a *still* one), the state before it.
Of tokens x is the table, and one more operand is their index, where −1 drives nothing. Of a padded
batch it is the lengths.
Of projective states, divided every `rescale` steps, it gives the directions; see `projective`.
The way is open where nothing but autograd looks on, for states that are vectors and structures that
one kernel takes; `passes` takes all others. Both hand the same problem, `Panels` or `Alone`, to the
same kernel. They are two because of what stands before it: a description that can be traced, checks
of the state, a source and a list of scans to choose from take half as long again as all of a tiny
solve does on this way, and a layer's initial state and drive are part of the operator here alone.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from slicekit.flows import Flow
from slicekit.handles import recall
from slicekit.native import available, tanh
from slicekit.native.kernel import HALF, plain
from slicekit.native.panels import Panels
from slicekit.operators import PLAIN, Operator, unseen
from slicekit.paths import Tabulated
from slicekit.scans import choice, lowering
from slicekit.scans.base import Scan
from slicekit.scans.native.assignment import PANELS, REAL, Run, runs_of
from slicekit.scans.native.policy import Native
from slicekit.scans.native.tokens import Alone
from slicekit.scans.operands import expected_shapes
from slicekit.scans.projective import powers_of_two, strained, window_of
from slicekit.structures import Parameters, Structure

LARGE = 2**14
"""Numbers of a state that is one for all sequences, from which on to copy it takes longer than a
word to the tape."""


def alike(x: Tensor, others: Sequence[Tensor]) -> bool:
    """Whether the kernel takes a path and all that goes with it, by their dtypes."""
    half = x.dtype is HALF
    dtypes = (HALF, torch.float32) if half else (x.dtype,)
    return (half or x.dtype in REAL) and all(y.dtype in dtypes for y in others)


def only_run(structure: Structure, flow: Flow) -> Run | None:
    """The only run of a structure that can't change, if there is one kernel for it."""
    runs = runs_of(structure, flow) if structure.handle.shared else ""
    if isinstance(runs, str) or len(runs) != 1 or not available():
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
    """All states and the last one, as `solve` gives them, and from what it is given.

    None where this way is not open, or an argument does not fit and has to be refused elsewhere.
    """
    native, path, index = native_scan(scan), increments, []
    if type(increments) is Tabulated:
        path, index = increments.table, [increments.index]
    if native is None or any(type(x) not in PLAIN or not x.is_cpu for x in (path, *index)):
        return None
    if not unseen() or (index and 0 in path.shape):
        return None
    shape = increments.shape
    if len(shape) != 3 or 0 in shape or type(parameters) is not dict:
        return None
    given = (state, *parameters.values())
    if any(type(x) not in PLAIN or not x.is_cpu for x in given) or not alike(path, given):
        return None
    run = _fitting_run(structure, flow, parameters, shape[2])
    if run is None or state.shape != (shape[0], run.dim):
        return None
    operands = [path, state, *(parameters[name] for name in run.names), *index]
    plan = (structure, run, False, False, False, 0.0, native.limit, 0)
    states, last = run_at_once(plan, True, operands)
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
        if run is None or run.kernel != PANELS:
            return None
        handle.known[key] = run
    return run


def run_at_once(plan: tuple, ends: bool, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """All states (batch, length, dim) or directions, and the last state if asked for.

    Args:
        plan: the settings of `FUSED` but the last two.
        ends: whether to give the last state, which none of directions is.
        operands: x (batch, length, channels), W and b or h_0 (batch, dim), and the parameters in
            the order of the run; `alike`. Of tokens x is (vocabulary, channels), and the last
            operand is the index (batch, length); of a padded batch it is the lengths (batch,).
    """
    operands = list(operands)
    if operands[0].dtype is HALF:
        operands[1:] = [x.float() if x.is_floating_point() else x for x in operands[1:]]
    if operands[1].numel() >= LARGE:
        operands[1] = operands[1].contiguous()  # or the way back would do it again
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in operands)
    return tuple(FUSED.at_once((*plan, ends, keep), operands, keep)[: 1 + ends])


class _Pass:
    """One call, forwards or backwards, with the settings of `FUSED` and its operands.

    Attributes:
        x: (batch, length, channels), or the table (vocabulary, channels).
        half: whether x and all states are bfloat16; the table is float32 here.
        index: of tokens, (batch, length).
        lengths: of a padded batch, (batch,).
        start: W (dim, channels) and b (dim,), or the initial state (batch, dim).
        parameters: as the structure has them; after `bind`, as the kernel takes them.
        bounded: places of those whose tanh it takes.
    """

    def __init__(self, *plan: Any) -> None:
        _, run, self.affine, self.still, padded, self.pace, self.limit, *rest = plan
        self.rescale, self.ends, self.keep, operands = rest
        self.run: Run = recall(run) if isinstance(run, str) else run
        self.first = 3 if self.affine else 2
        self.x, *self.start = map(plain, operands[: self.first])
        end = self.first + len(self.run.names)
        self.parameters = [*map(plain, operands[self.first : end])]
        self.bounded = [*map(self.run.names.index, self.run.bounded)]
        tail = plain(operands[end]) if len(operands) > end else None
        self.index, self.lengths = (None, tail) if padded else (tail, None)
        self.half = self.x.dtype is HALF
        if self.index is not None:
            self.x = self.x.to(self.start[0].dtype)

    def bind(self, made: Sequence[Tensor] = ()) -> list[Tensor]:
        """Puts tanh in the place of each bounded parameter, made already or not, and gives them."""
        bound = list(made) or [tanh.forward(self.parameters[i]) for i in self.bounded]
        for i, x in zip(self.bounded, bound, strict=True):
            self.parameters[i] = x
        return bound

    def blank_directions(self) -> Tensor:
        """Room for them, (batch, length, dim)."""
        steps = (self.x if self.index is None else self.index).shape[:2]
        dtype = HALF if self.half else self.x.dtype
        return self.x.new_empty(*steps, self.run.dim, dtype=dtype)

    @property
    def makes(self) -> bool:
        """Whether the state that the steps start from is made here."""
        return self.affine or self.rescale > 0

    def initial(self) -> Tensor:
        """h_0, (batch, dim); of tokens, once for each where they are fewer."""
        if not self.affine:
            return self.start[0]
        if not self.by_rows:
            return torch.nn.functional.linear(self.first_element(), *self.start)
        rows = torch.nn.functional.linear(self.x, *self.start)
        rows = torch.cat([rows, self.start[1].unsqueeze(0)])  # of token -1, whose x is zero
        return rows.index_select(0, self.first_tokens())

    @property
    def by_rows(self) -> bool:
        """Whether the initial state is made for each row of a table."""
        return self.index is not None and self.x.shape[0] <= self.index.shape[0]

    def first_element(self) -> Tensor:
        """x_0 in full precision, (batch, channels)."""
        if self.index is None:
            return self.x.select(1, 0).to(self.start[0].dtype)
        first = self.index.select(1, 0)
        rows = self.x.index_select(0, first.clamp_min(0))
        return rows.masked_fill_((first < 0).unsqueeze(1), 0)

    def first_tokens(self) -> Tensor:
        """The first token of each sequence, (batch,), where the last row stands for -1."""
        assert self.index is not None
        return self.index.select(1, 0).remainder(self.x.shape[0] + 1)

    def pull_initial(
        self, in_state: Tensor, in_x: Tensor, needed: list[bool]
    ) -> list[Tensor | None]:
        """Gradients of W and b, from that of h_0; that of x is added where it belongs."""
        in_bias = in_state.sum(0) if needed[2] else None
        first = self.x if self.by_rows else self.first_element()
        if self.by_rows:
            in_rows = in_state.new_zeros(self.x.shape[0] + 1, self.run.dim)
            in_state = in_rows.index_add_(0, self.first_tokens(), in_state)[:-1]
        if needed[0]:
            in_first = torch.mm(in_state, self.start[0])
            if self.index is None:
                in_x.select(1, 0).add_(in_first)
            elif self.by_rows:
                in_x.add_(in_first)
            else:
                tokens = self.index.select(1, 0)
                in_first.masked_fill_((tokens < 0).unsqueeze(1), 0)
                in_x.index_add_(0, tokens.clamp_min(0), in_first)
        in_weight = torch.mm(in_state.t(), first) if needed[1] else None
        return [in_weight, in_bias]

    def problem(self, state: Tensor) -> Panels | Alone:
        """That of the kernel, from the first state."""
        by_panels = self.run.kernel == PANELS
        made: Any = partial(Panels, self.run.parts) if by_panels else partial(Alone, self.run)
        given = (self.parameters, self.x, self.index, state, None, self.rescale)
        return made(
            *given,
            pace=self.pace,
            still=self.still,
            lengths=self.lengths,
            half=self.half,
            directed=self.rescale > 0,
        )

    def run_forward(
        self, state: Tensor, last: Tensor | None, directions: Tensor | None
    ) -> tuple[Tensor, Tensor | None, list[Tensor]]:
        """States, factors, and what is kept; `last` and `directions` are filled."""
        problem = self.problem(state)
        numbers = problem.worth_keeping(self.limit) if self.keep else 0
        kept = [state.new_empty(numbers)] if numbers else []
        states, factors = problem.forward(kept[0] if kept else None, False, last, directions)
        return states, factors, kept

    def rounded(self, in_x: Tensor) -> Tensor:
        """The gradient of x in its own precision."""
        return in_x.to(HALF) if self.half else in_x


def _forward(*args: Any) -> list[Tensor]:
    """All states, the last if asked for; that at the beginning if made, and what is kept or bound.

    Of projective states the directions; and, to be pulled back, states and factors, and what the
    first state was divided by.
    """
    this = _Pass(*args)
    bound = this.bind() if this.bounded else []
    state = this.initial()
    sizes = []
    if this.rescale:
        sizes = [powers_of_two(state.abs().amax(1, keepdim=True))]
        state = state / sizes[0]
    last = torch.empty_like(state) if this.ends and this.half else None
    directions = this.blank_directions() if this.rescale else None
    states, factors, kept = this.run_forward(state, last, directions)
    if factors is not None and strained(state, states.select(1, -1), factors):
        this.rescale = 1
        states, factors, kept = this.run_forward(state, last, directions)
    if this.ends and last is None:
        last = states.select(1, -1).clone()
    scales = []
    if factors is not None and directions is not None:
        scales = [states, factors, *sizes] if this.keep else []
        states = directions
    first = [state] if this.makes else []
    bound = bound if this.keep else []
    return [states, *([] if last is None else [last]), *scales, *first, *kept, *bound]


def _backward(*args: Any) -> list[Tensor | None]:
    (states, *rest), (in_states, *in_ends), needed = args[-3:]
    this = _Pass(*args[:-3])
    rest = [plain(x) for x in rest[this.ends :]]
    cut = len(rest) - len(this.bounded)
    rest, bound = rest[:cut], this.bind(rest[cut:])
    in_states = torch.zeros_like(states) if in_states is None else plain(in_states)
    factors, sizes = None, None
    if this.rescale:
        states, factors, sizes, *rest = rest
        this.rescale = window_of(factors, states.shape[1], this.rescale)
    state, *kept = rest if this.makes else [this.start[0], *rest]
    in_last, trained = in_ends[0] if this.ends else None, any(needed[this.first :])
    in_parameters, in_x, in_state, _ = this.problem(state).backward(
        plain(states),
        factors,
        kept[0] if kept else None,
        in_states,
        None if in_last is None else plain(in_last),
        needed[0],
        trained,
    )
    if trained:
        for i, y in zip(this.bounded, bound, strict=True):
            in_parameters[i] = tanh.pullback(y, in_parameters[i])
    in_state = in_state if sizes is None else in_state / sizes
    tail = [] if this.index is None and this.lengths is None else [None]
    first = this.pull_initial(in_state, in_x, needed) if this.affine else [in_state]
    return [this.rounded(in_x), *first, *in_parameters, *tail]


def _flops(structure: str, *rest: Any) -> int:
    """Making the transitions and applying them."""
    path, *others = rest[-1]
    steps = math.prod(path[:2] if len(path) == 3 else others[-1])  # or the index
    return 2 * steps * recall(structure).step_cost(path[-1] + bool(rest[-6]))


FUSED = Operator(
    "fused",
    "str structure, str run, bool affine, bool still, bool padded, float pace, int limit, "
    "int rescale, bool ends, bool keep",
    _forward,
    None,
    _backward,
    flops=_flops,
    outputs=lambda *plan: 1 + plan[-2],
    partial=True,
    subject="Chunked() and Native() give",
    advice="use scan=Recurrent(), where a scan can be chosen",
)
