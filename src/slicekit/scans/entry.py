"""The two functional entries: `solve` makes transitions from increments and runs them; `propagate`
runs transitions that someone else made.
"""

from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from slicekit.checks import (
    HALF,
    Lengths,
    check_floating,
    check_lengths,
    check_same_device,
    check_shape,
)
from slicekit.dispatch import autocast_off
from slicekit.flows import Flow, LogODE, WindowSteps, resolve
from slicekit.paths import Tabulated, mask_past_end, valid_mask
from slicekit.paths.tabulated import densely, full_precision
from slicekit.scans.base import Outer, Recurrence, Scan
from slicekit.scans.choice import fastest, taken
from slicekit.scans.native.fused import solve_at_once
from slicekit.scans.native.tokens import with_kernel
from slicekit.scans.operands import cast, check_length, check_parameters, computed, widened
from slicekit.scans.projective import Projective, normalise
from slicekit.scans.sources import FromTable, FromTransitions, Made, Source
from slicekit.structures import Parameters, Structure, Transition

Carried = TypeVar("Carried", bound=Tensor | Projective)


def solve(
    structure: Structure,
    parameters: Parameters,
    increments: Tensor | Tabulated,
    initial_state: Carried,
    flow: Flow | None = None,
    scan: Scan | None = None,
    inputs: Tensor | Outer | None = None,
    lengths: Lengths | None = None,
) -> tuple[Carried, Carried]:
    """Solve dh = Σ_i A^i h dω^i along a path given by its increments.

    Args:
        structure: what A^1..A^channels look like.
        parameters: the tensors of A^1..A^channels, as `structure.init` makes them.
        increments: Δω, (batch, length, channels), or `Tabulated` for discrete tokens.
        initial_state: h_0, (batch, dim), or (batch, dim, columns) for matrix states; `Projective`
            carries direction and log-norm apart.
        flow: `Euler()`, `Exponential()`, or None for the structure's own; with `LogODE(...)` a
            step is a whole window, and length below is the number of windows.
        scan: `Native()`, `Chunked()`, `Associative()`, `Recurrent()`, or None for the fastest that
            applies.
        inputs: affine inputs u_l, added after each step: (batch, length, dim),
            (batch, length, dim, columns), or `Outer` for matrix states.
        lengths: (batch,) integers; steps past the end are the identity.

    Returns:
        The states after each step, (batch, length, dim[, columns]), in the dtype of the increments,
        and the last state, in the precision it was computed in (float32 for half precision).

    Raises:
        ValueError, TypeError: naming the argument, what it is and what was expected.

    Example:
        >>> from slicekit import Dense, Exponential, solve
        >>> quarter = torch.tensor([[[0.0, -torch.pi / 2], [torch.pi / 2, 0.0]]])
        >>> parameters = {"blocks": quarter.unsqueeze(1)}
        >>> steps = torch.ones(1, 2, 1)
        >>> h, last = solve(Dense(2), parameters, steps, torch.tensor([[1.0, 0.0]]), Exponential())
        >>> last.round().abs()
        tensor([[1., 0.]])
    """
    flow = resolve(structure, flow)
    if isinstance(flow, LogODE):
        return _solve_windows(
            structure, parameters, increments, initial_state, flow, scan, inputs, lengths
        )
    if inputs is None and lengths is None:
        quick: Any = solve_at_once(structure, flow, parameters, increments, initial_state, scan)
        if quick is not None:
            return quick
    path, parameters, lengths = _checked(structure, parameters, increments, lengths)
    if isinstance(path, Tabulated):
        table = FromTable(structure, flow, parameters, *path.with_identity())
        source: Source = with_kernel(table) if scan is None else table
    else:
        source = Made(structure, flow, parameters, path)
    return _run(source, initial_state, path, scan, inputs, None, lengths, increments.dtype)


def _checked(
    structure: Structure,
    parameters: Parameters,
    increments: Tensor | Tabulated,
    lengths: Lengths | None,
) -> tuple[Any, Parameters, Tensor | None]:
    """Increments, parameters and lengths in the dtype of the computation, still past the end."""
    if not isinstance(increments, Tabulated):
        check_shape("increments", increments, ("batch", "length", "channels"))
        check_floating("increments", increments)
    batch, length, channels = increments.shape
    check_length("increments", length)
    moved = full_precision(increments)
    check_parameters(structure, parameters, channels, moved)
    if lengths is not None:
        lengths = check_lengths(lengths, batch, length, device=moved.device)
        tabulated = isinstance(moved, Tabulated)
        moved = moved.masked(lengths) if tabulated else mask_past_end(moved, lengths)
    return moved, computed(parameters), lengths


def _solve_windows(
    structure: Structure,
    parameters: Parameters,
    increments: Tensor | Tabulated,
    initial_state: Any,
    flow: LogODE,
    scan: Scan | None,
    inputs: Tensor | Outer | None,
    lengths: Lengths | None,
) -> Any:
    """One step for each window, by its log-signature."""
    if inputs is not None:
        raise ValueError(
            "inputs with LogODE(): an affine input has no place in a window's log-signature"
        )
    path = densely(increments)
    moved, parameters, lengths = _checked(structure, parameters, path, lengths)
    lift = partial(structure.lift_parameters, parameters)
    steps = flow.steps(structure, lift, moved, lengths=lengths)
    states, last = solve_steps(flow, steps, initial_state, scan)
    if isinstance(states, Projective):
        return Projective(states.direction.to(path.dtype), states.log_norm), last
    return states.to(path.dtype), last


def solve_steps(
    flow: LogODE, steps: WindowSteps, initial_state: Any, scan: Scan | None
) -> tuple[Any, Any]:
    """Run the windows of a path: what `solve` gives for their log-signatures."""
    given = (steps.structure, steps.parameters, steps.windows.signatures, initial_state)
    return solve(*given, flow.flow, scan, None, steps.counts)


def propagate(
    transitions: Transition,
    initial_state: Carried,
    inputs: Tensor | Outer | None = None,
    readout: Tensor | None = None,
    scan: Scan | None = None,
    lengths: Lengths | None = None,
) -> tuple[Carried, Carried]:
    """Run h_{l+1} = M_l h_l + u_l for transitions that someone else made.

    Args:
        transitions: M_l with leading shape (batch, length): `DiagonalTransition` (real or complex),
            `BlockTransition`, `LowRankTransition` or sums of them, from `slicekit.structures`.
        initial_state: h_0, (batch, dim) or (batch, dim, columns), or `Projective`.
        inputs: u_l, (batch, length, dim[, columns]), or `Outer` for matrix states.
        readout: q_l, (batch, length, dim): the outputs are q_l^T h_{l+1} (zero past the end) and
            no state but the last is stored.
        scan: as for `solve`. With a readout and large matrix states None may be `Chunked()`, whose
            products of a chunk's diagonals must not overflow.
        lengths: (batch,) integers; steps past the end are the identity. A diagonal that is an
            expanded tensor then has its gradient in the first row.

    Returns:
        The states after each step, or with a readout the outputs, (batch, length) or
        (batch, length, columns); and the last state.

    Example:
        >>> from slicekit import propagate
        >>> from slicekit.structures import DiagonalTransition
        >>> halve = DiagonalTransition(torch.full((1, 3, 1), 0.5))
        >>> propagate(halve, torch.ones(1, 1))[0].flatten()
        tensor([0.5000, 0.2500, 0.1250])
    """
    if not isinstance(transitions, Transition):
        raise TypeError(
            f"transitions is a {type(transitions).__name__}; expected a batch of transitions such "
            "as DiagonalTransition"
        )
    first = transitions.tensors()[0]
    batch, length = first.shape[:2]
    check_length("transitions", length)
    given = first.dtype
    if given in HALF:
        transitions = transitions.with_tensors(tuple(widened(x) for x in transitions.tensors()))
    if lengths is not None:
        lengths = check_lengths(lengths, batch, length, device=first.device)
        transitions = transitions.where(valid_mask(lengths, length))
    source, like = FromTransitions(transitions), transitions.tensors()[0]
    if readout is not None:
        check_shape("readout", readout, (batch, length, transitions.dim))
        if isinstance(initial_state, Projective):
            raise ValueError("readout with a Projective initial_state; read out its direction")
        readout = cast("readout", readout, like.dtype)
        readout = readout if lengths is None else mask_past_end(readout, lengths)
    return _run(source, initial_state, like, scan, inputs, readout, lengths, given)


def _start(
    given: Tensor | Projective, source: Source, like: Tensor | Tabulated
) -> tuple[Tensor, Tensor | None, bool]:
    """An initial state as scans take it, (batch, dim, columns), its log-norm if it is projective,
    and whether it is a matrix; `like` is the path, or transitions.
    """
    batch, dim = source.batch, source.dim
    state = given.direction if isinstance(given, Projective) else given
    matrix = isinstance(state, Tensor) and state.ndim == 3
    check_shape("initial_state", state, (batch, dim, "columns")[: 2 + matrix])
    check_same_device("initial_state", state, "increments or transitions", like)
    state = cast("initial_state", state, like.dtype)
    state = state if matrix else state.unsqueeze(-1)
    if not isinstance(given, Projective):
        return state, None, matrix
    direction, log_norm = normalise(state)
    check_shape("initial_state.log_norm", given.log_norm, (batch, "columns")[: 1 + matrix])
    before = given.log_norm if matrix else given.log_norm.unsqueeze(-1)
    return direction, log_norm + before, matrix


def _run(
    source: Source,
    initial_state: Tensor | Projective,
    like: Tensor | Tabulated,
    scan: Scan | None,
    inputs: Tensor | Outer | None,
    readout: Tensor | None,
    lengths: Tensor | None,
    dtype: torch.dtype,
) -> Any:
    state, log_norm, matrix = _start(initial_state, source, like)
    if scan is not None and not isinstance(scan, Scan):
        raise TypeError(f"scan={scan!r}; expected a scan such as Native() or Recurrent(), or None")
    if inputs is not None and log_norm is not None:
        raise ValueError(
            "inputs with a Projective initial_state: an affine recurrence does not only scale, "
            "so direction and norm can't be carried apart"
        )
    driven = _inputs(inputs, source, state, matrix, lengths)
    recurrence = Recurrence(source, state, driven, readout, log_norm)
    with autocast_off(state.device):
        scan = fastest(recurrence) if scan is None else taken(scan, recurrence, " (asked for)")
        solution = scan.run(recurrence)
    found: list[Any] = [solution.outputs, solution.last]
    if log_norm is not None:
        found += solution.log_norm, solution.last_log_norm
    outputs, last, *log_norms = found if matrix else [x.squeeze(-1) for x in found]
    outputs = outputs.to(dtype)
    if log_norm is None:
        return outputs, last
    return Projective(outputs, log_norms[0]), Projective(last, log_norms[1])


def _inputs(
    inputs: Tensor | Outer | None,
    source: Source,
    state: Tensor,
    matrix: bool,
    lengths: Tensor | None,
) -> Tensor | Outer | None:
    """Affine inputs, checked, zero past the end, and (batch, length, dim, columns) if dense."""
    if inputs is None:
        return None
    batch, length, dim = source.batch, source.length, source.dim
    columns = state.shape[-1]

    def ready(name: str, x: Tensor) -> Tensor:
        x = cast(name, x, state.dtype)
        return x if lengths is None else mask_past_end(x, lengths)

    if isinstance(inputs, Outer):
        if not matrix:
            raise ValueError(
                "inputs is Outer, which drives matrix states; expected initial_state of shape "
                f"({batch}, {dim}, columns), got ({batch}, {dim})"
            )
        check_shape("inputs.left", inputs.left, (batch, length, dim))
        check_shape("inputs.right", inputs.right, (batch, length, columns))
        return Outer(ready("inputs.left", inputs.left), ready("inputs.right", inputs.right))
    check_shape("inputs", inputs, (batch, length, dim, columns)[: 3 + matrix])
    dense = ready("inputs", inputs)
    return dense if matrix else dense.unsqueeze(-1)
