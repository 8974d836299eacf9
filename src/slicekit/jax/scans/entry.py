"""The two functional entries: `solve` makes transitions from increments and runs them; `propagate`
runs transitions that someone else made. As `slicekit.solve` and `slicekit.propagate`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from slicekit.jax import native
from slicekit.jax.checks import Lengths, check_floating, check_lengths, check_shape, is_half
from slicekit.jax.flows import Flow, LogODE, resolve
from slicekit.jax.paths import Tabulated, mask_past_end, valid_mask
from slicekit.jax.paths.cutting import cut
from slicekit.jax.scans.base import (
    FromIncrements,
    FromTokens,
    FromTransitions,
    Outer,
    Recurrence,
    Scan,
    Source,
)
from slicekit.jax.scans.chunked import Chunked
from slicekit.jax.scans.native import Native, why_not
from slicekit.jax.scans.projective import Projective, normalise
from slicekit.jax.scans.recurrent import Recurrent
from slicekit.jax.structures import Parameters, Structure, Transition


def solve(
    structure: Structure,
    parameters: Parameters,
    increments: Array | Tabulated,
    initial_state: Array | Projective,
    flow: Flow | None = None,
    scan: Scan | None = None,
    inputs: Array | Outer | None = None,
    lengths: Lengths | None = None,
) -> tuple[Any, Any]:
    """Solve dh = Σ_i A^i h dω^i along a path given by its increments.

    Args:
        structure: what A^1..A^channels look like.
        parameters: the arrays of A^1..A^channels, as `structure.init` makes them.
        increments: Δω, (batch, length, channels), or `Tabulated` for discrete tokens.
        initial_state: h_0, (batch, dim), or (batch, dim, columns) for matrix states; `Projective`
            carries direction and log-norm apart.
        flow: `Euler()`, `Exponential()`, or None for the structure's own; with `LogODE(...)` a
            step is a whole window, and length below is the number of windows.
        scan: `Native()`, `Recurrent()`, `Chunked()`, `Associative()`, `Sharded()`, or None for
            the fastest.
        inputs: affine inputs u_l, added after each step: (batch, length, dim),
            (batch, length, dim, columns), or `Outer` for matrix states.
        lengths: (batch,) integers; steps past the end are the identity.

    Returns:
        The states after each step, (batch, length, dim[, columns]), in the dtype of the increments,
        and the last state, in the precision it was computed in (float32 for half precision).

    Raises:
        ValueError, TypeError: naming the argument, what it is and what was expected.

    >>> from slicekit.jax import Dense, Exponential, solve
    >>> quarter = jnp.array([[[0.0, -jnp.pi / 2], [jnp.pi / 2, 0.0]]])
    >>> parameters, steps = {"blocks": quarter[:, None]}, jnp.ones((1, 2, 1))
    >>> h, last = solve(Dense(2), parameters, steps, jnp.array([[1.0, 0.0]]), Exponential())
    >>> abs(last.round())
    Array([[1., 0.]], dtype=float32)
    """
    flow = resolve(structure, flow)
    if isinstance(flow, LogODE):
        return _solve_windows(
            structure, parameters, increments, initial_state, flow, scan, inputs, lengths
        )
    path = increments.table if isinstance(increments, Tabulated) else increments
    if not isinstance(increments, Tabulated):
        check_shape("increments", increments, ("batch", "length", "channels"))
        check_floating("increments", increments)
    batch, length, channels = increments.shape
    _check_length("increments", length)
    work = _work(path.dtype)
    check_parameters(structure, parameters, channels, work)
    parameters = computed(parameters)
    if lengths is not None:
        lengths = check_lengths(lengths, batch, length)
    source: Source
    if isinstance(increments, Tabulated):
        tokens = increments if lengths is None else increments.masked(lengths)
        table, index = tokens.with_identity()
        index = jnp.swapaxes(index, 0, 1)
        source = FromTokens(structure, flow, parameters, table.astype(work), index)
    else:
        moved = increments.astype(work)
        moved = moved if lengths is None else mask_past_end(moved, lengths)
        source = FromIncrements(structure, flow, parameters, jnp.swapaxes(moved, 0, 1))
    state = _State.of(initial_state, batch, structure.dim, work)
    return _run(source, state, scan, inputs, None, lengths, path.dtype)


def _solve_windows(
    structure: Structure,
    parameters: Parameters,
    increments: Array | Tabulated,
    initial_state: Any,
    flow: LogODE,
    scan: Scan | None,
    inputs: Array | Outer | None,
    lengths: Lengths | None,
) -> Any:
    """One step for each window, by its log-signature."""
    if inputs is not None:
        raise ValueError(
            "inputs with LogODE(): an affine input has no place in a window's log-signature"
        )
    path = increments.dense() if isinstance(increments, Tabulated) else increments
    check_shape("increments", path, ("batch", "length", "channels"))
    check_floating("increments", path)
    _check_length("increments", path.shape[1])
    given, path = path.dtype, path.astype(_work(path.dtype))
    check_parameters(structure, parameters, path.shape[-1], path.dtype)
    if lengths is not None:
        lengths = check_lengths(lengths, path.shape[0], path.shape[1])
        path = mask_past_end(path, lengths)
    basis = flow.basis(structure, path.shape[-1])
    windows = cut(path, basis, flow.window, None, lengths)
    ragged = lengths is not None or not isinstance(flow.window, int)
    states, last = solve(
        flow.lift(structure),
        structure.lift_parameters(computed(parameters), basis),
        windows.signatures,
        initial_state,
        flow.flow,
        scan,
        None,
        windows.within if ragged else None,
    )
    if isinstance(states, Projective):
        return Projective(states.direction.astype(given), states.log_norm), last
    return states.astype(given), last


def propagate(
    transitions: Transition,
    initial_state: Array | Projective,
    inputs: Array | Outer | None = None,
    readout: Array | None = None,
    scan: Scan | None = None,
    lengths: Lengths | None = None,
) -> tuple[Any, Any]:
    """Run h_{l+1} = M_l h_l + u_l for transitions that someone else made.

    Args:
        transitions: M_l with leading shape (batch, length): `DiagonalTransition` (real or complex),
            `BlockTransition`, `LowRankTransition` or sums of them, from `slicekit.jax.structures`.
        initial_state: h_0, (batch, dim) or (batch, dim, columns), or `Projective`.
        inputs: u_l, (batch, length, dim[, columns]), or `Outer` for matrix states.
        readout: q_l, (batch, length, dim): the outputs are q_l^T h_{l+1} (zero past the end) and
            no state but the last is stored.
        scan: as for `solve`.
        lengths: (batch,) integers; steps past the end are the identity.

    Returns:
        The states after each step, or with a readout the outputs, (batch, length) or
        (batch, length, columns); and the last state.

    >>> from slicekit.jax import propagate
    >>> from slicekit.jax.structures import DiagonalTransition
    >>> halve = DiagonalTransition(jnp.full((1, 3, 1), 0.5))
    >>> propagate(halve, jnp.ones((1, 1)))[0].ravel()
    Array([0.5  , 0.25 , 0.125], dtype=float32)
    """
    if not isinstance(transitions, Transition):
        raise TypeError(
            f"transitions is a {type(transitions).__name__}; expected a batch of transitions such "
            "as DiagonalTransition"
        )
    first = transitions.arrays()[0]
    (batch, length), given = first.shape[:2], first.dtype
    _check_length("transitions", length)
    work = _work(given)
    transitions = transitions.with_arrays(
        tuple(x.astype(_work(x.dtype)) for x in transitions.arrays())
    )
    if lengths is not None:
        lengths = check_lengths(lengths, batch, length)
        transitions = transitions.where(valid_mask(lengths, length))
    state = _State.of(initial_state, batch, transitions.dim, work)
    if readout is not None:
        check_shape("readout", readout, (batch, length, transitions.dim))
        if state.log_norm is not None:
            raise ValueError("readout with a Projective initial_state; read out its direction")
        readout = cast("readout", readout, work)
        readout = readout if lengths is None else mask_past_end(readout, lengths)
        readout = jnp.swapaxes(readout, 0, 1)
    source = FromTransitions(transitions.map(lambda x: jnp.swapaxes(x, 0, 1)))
    return _run(source, state, scan, inputs, readout, lengths, given)


def _work(dtype: Any) -> Any:
    return jnp.dtype(jnp.float32) if is_half(dtype) else dtype


def computed(parameters: Parameters) -> Parameters:
    """Half precision as float32."""
    return {name: x.astype(_work(x.dtype)) for name, x in parameters.items()}


def cast(name: str, x: Array, work: Any) -> Array:
    """x in the dtype of the computation: from half precision, or from real to complex."""
    real = {"complex64": "float32", "complex128": "float64"}.get(str(work))
    if x.dtype == work or is_half(x.dtype) or str(x.dtype) == real:
        return x.astype(work)
    raise TypeError(f"{name} has dtype {x.dtype}; expected {work}, as the path or the transitions")


def _check_length(name: str, length: int) -> None:
    if length < 1:
        raise ValueError(f"{name} has length 0; an empty sequence has no steps")


def check_parameters(
    structure: Structure, parameters: Parameters, channels: int, work: Any
) -> None:
    """Raise unless parameters are those of a structure, in the path's dtype."""
    if not isinstance(structure, Structure):
        raise TypeError(f"structure={structure!r}; expected a structure such as BlockDiagonal")
    if channels < 1:
        raise ValueError("increments has 0 channels; a path needs at least one")
    for name, x in parameters.items():
        if jnp.issubdtype(x.dtype, jnp.floating):
            cast(f"parameters[{name!r}]", x, work)
    expected = structure.shapes(channels)
    if parameters.keys() != expected.keys():
        raise ValueError(
            f"parameters holds {sorted(parameters)}; expected {sorted(expected)} for {structure!r}"
        )
    for name, x in parameters.items():
        if name not in structure.ragged and x.shape != expected[name]:
            raise ValueError(
                f"parameters[{name!r}] has shape {tuple(x.shape)}; expected "
                f"{tuple(expected[name])} for {structure!r} and {channels} channels"
            )


class _State(NamedTuple):
    """An initial state in the form that scans take, (batch, dim, columns)."""

    columns: Array
    matrix: bool
    log_norm: Array | None

    @classmethod
    def of(cls, given: Array | Projective, batch: int, dim: int, work: Any) -> "_State":
        state = given.direction if isinstance(given, Projective) else given
        matrix = getattr(state, "ndim", 0) == 3
        check_shape("initial_state", state, (batch, dim, "columns") if matrix else (batch, dim))
        state = cast("initial_state", jnp.asarray(state), work)
        columns = state if matrix else state[..., None]
        if not isinstance(given, Projective):
            return cls(columns, matrix, None)
        direction, log_norm = normalise(columns)
        check_shape("initial_state.log_norm", given.log_norm, (batch, "columns")[: 1 + matrix])
        before = given.log_norm if matrix else given.log_norm[..., None]
        return cls(direction, matrix, log_norm + before)

    def plain(self, columns: Array) -> Array:
        return columns if self.matrix else columns.squeeze(-1)


def _run(
    source: Source,
    state: _State,
    scan: Scan | None,
    inputs: Array | Outer | None,
    readout: Array | None,
    lengths: Array | None,
    dtype: Any,
) -> Any:
    if scan is not None and not isinstance(scan, Scan):
        raise TypeError(f"scan={scan!r}; expected a scan such as Native() or Recurrent(), or None")
    projective = state.log_norm is not None
    if inputs is not None and projective:
        raise ValueError(
            "inputs with a Projective initial_state: an affine recurrence does not only scale, "
            "so direction and norm can't be carried apart"
        )
    driven = _inputs(inputs, source, state, lengths)
    recurrence = Recurrence(source, state.columns, driven, readout, projective)
    solution = choose(scan, recurrence).run(recurrence)
    outputs = jnp.swapaxes(solution.outputs, 0, 1)
    if not projective:
        return state.plain(outputs).astype(dtype), state.plain(solution.last)
    assert solution.log_norm is not None and state.log_norm is not None
    log_norm = jnp.swapaxes(solution.log_norm, 0, 1) + state.log_norm[:, None]
    states = Projective(state.plain(outputs).astype(dtype), state.plain(log_norm))
    return states, Projective(state.plain(solution.last), state.plain(log_norm[:, -1]))


def choose(scan: Scan | None, recurrence: Recurrence) -> Scan:
    """The scan that was asked for, or the fastest.

    On a CPU that is a kernel where there is one and `lax.scan` otherwise; elsewhere chunks.
    """
    if scan is not None:
        return scan
    if jax.default_backend() != "cpu":
        return Chunked()
    native.warn_once()
    return Recurrent() if why_not(recurrence.source) else Native()


def _inputs(
    inputs: Array | Outer | None, source: Source, state: _State, lengths: Array | None
) -> Any:
    """Affine inputs, checked, zero past the end, time first; dense ones with columns."""
    if inputs is None:
        return None
    (batch, dim, columns), work = state.columns.shape, state.columns.dtype
    length = source.length

    def ready(name: str, x: Array) -> Array:
        x = cast(name, x, work)
        return jnp.swapaxes(x if lengths is None else mask_past_end(x, lengths), 0, 1)

    if isinstance(inputs, Outer):
        if not state.matrix:
            raise ValueError(
                "inputs is Outer, which drives matrix states; expected initial_state of shape "
                f"({batch}, {dim}, columns), got ({batch}, {dim})"
            )
        check_shape("inputs.left", inputs.left, (batch, length, dim))
        check_shape("inputs.right", inputs.right, (batch, length, columns))
        return ready("inputs.left", inputs.left), ready("inputs.right", inputs.right)
    shape = (batch, length, dim, columns) if state.matrix else (batch, length, dim)
    check_shape("inputs", inputs, shape)
    dense = ready("inputs", inputs)
    return dense if state.matrix else dense[..., None]
