"""The layer: a structured linear controlled differential equation driven by its input.

    dh = Σ_i A^i h dω^i (+ B dω),   h_{l+1} = M(Δω_l) h_l (+ B Δω_l)

Glossary: structure and A hold A^1..A^dω; drive makes Δω from the input X; initial makes h_0 from
x_0 (the paper's ξ); flow makes M from A(Δω); scan runs the steps; affine is B.
"""

import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from slicekit.descriptions.checks import check_whole
from slicekit.jax.checks import (
    Lengths,
    check_floating,
    check_lengths,
    check_shape,
    concrete,
    is_half,
)
from slicekit.jax.flows import Flow, LogODE, resolve
from slicekit.jax.layers.drives import Drive, TimeAndInput
from slicekit.jax.layers.initial_states import FirstInput, InitialState
from slicekit.jax.layers.state import State, after, last_valid, nothing_after, prepend
from slicekit.jax.paths import LieBasis, Tabulated, mask_past_end
from slicekit.jax.paths.cutting import OpenWindow, cut, ends
from slicekit.jax.scans import Projective, Scan, Sharded, solve
from slicekit.jax.structures import Structure


class Places(NamedTuple):
    """Where the outputs of a layer that changes the length stand in its input.

    Attributes:
        counts: (batch,) integers, how many outputs each sequence has, a provisional one included.
        closed: (batch,) integers, how many of them are final.
        elements: (batch, outputs) integers, the last input element that each output has seen.
    """

    counts: Array
    closed: Array
    elements: Array

    def select(self, x: Array) -> Array:
        """Those elements of x: (batch, length, size) -> (batch, outputs, size)."""
        return jnp.take_along_axis(x, jnp.maximum(self.elements, 0)[..., None], axis=1)


class SLiCE(eqx.Module):
    """A structured linear CDE layer: (batch, length, channels) -> (batch, length, dim).

    Args:
        channels: size of an input element.
        structure: what the matrices A^i look like; its dim is the size of the output.
        drive: how the input becomes increments; `TimeAndInput()` by default.
        initial: where the state starts; `FirstInput()` by default, as in the paper.
        flow: `Euler()`, `Exponential()`, or None for the structure's own. With `LogODE(...)` the
            output has one element for each window of the input: see `output_lengths`.
        scan: how the steps are run, or None for the fastest way that applies.
        affine: whether B Δω is added after each step.
        projective: whether direction and norm are carried apart; the output is then the direction,
            and the state neither overflows nor underflows at any length.
        key: source of randomness for the initialisation.

    >>> from slicekit.jax import BlockDiagonal
    >>> layer = SLiCE(3, BlockDiagonal(dim=8, block=4), key=jax.random.key(0))
    >>> layer(jnp.ones((2, 10, 3))).shape
    (2, 10, 8)
    """

    A: dict[str, Array]
    start: dict[str, Array]
    B: Array | None
    drive: Drive
    channels: int = eqx.field(static=True)
    structure: Structure = eqx.field(static=True)
    initial: InitialState = eqx.field(static=True)
    flow: Flow | None = eqx.field(static=True)
    scan: Scan | None = eqx.field(static=True)
    projective: bool = eqx.field(static=True)
    basis: LieBasis | None = eqx.field(static=True)

    def __init__(
        self,
        channels: int,
        structure: Structure,
        *,
        drive: Drive | None = None,
        initial: InitialState | None = None,
        flow: Flow | None = None,
        scan: Scan | None = None,
        affine: bool = False,
        projective: bool = False,
        key: Array,
    ) -> None:
        """Make the parameters."""
        check_whole("channels", channels)
        if not isinstance(structure, Structure):
            raise TypeError(f"structure={structure!r}; expected a structure such as BlockDiagonal")
        drive = TimeAndInput() if drive is None else drive
        initial = FirstInput() if initial is None else initial
        if isinstance(drive, type) or not isinstance(drive, Drive):
            raise TypeError(f"drive={drive!r}; expected a drive such as TimeAndInput()")
        if not isinstance(initial, InitialState):
            raise TypeError(f"initial={initial!r}; expected an initial state such as Learned()")
        if scan is not None and not isinstance(scan, Scan):
            raise TypeError(f"scan={scan!r}; expected a scan such as Chunked(), or None")
        if affine and projective:
            raise ValueError(
                "affine=True with projective=True: an affine recurrence does not only scale, so "
                "direction and norm can't be carried apart"
            )
        resolve(structure, flow)
        if affine and isinstance(flow, LogODE):
            raise ValueError(
                "affine=True with LogODE(): an affine input has no place in a window's "
                "log-signature"
            )
        if isinstance(scan, Sharded) and (isinstance(flow, LogODE) or not drive.pointwise):
            what = f"flow={flow!r}" if isinstance(flow, LogODE) else f"drive={drive!r}"
            raise ValueError(
                f"scan={scan!r} with {what}: it needs elements that lie on another device; "
                "expected a flow of single steps and a drive of single elements"
            )
        self.channels, self.structure = channels, structure
        self.drive, self.initial, self.flow, self.scan = drive, initial, flow, scan
        self.projective = projective
        width = drive.channels(channels)
        self.basis = flow.basis(structure, width) if isinstance(flow, LogODE) else None
        for_a, for_start, for_b = jax.random.split(key, 3)
        self.A = structure.init(width, for_a, increment=drive.scale)
        self.start = initial.init(channels, structure.dim, for_start)
        shape = (structure.dim, width)
        self.B = jax.random.normal(for_b, shape) * width**-0.5 if affine else None

    @property
    def outputs(self) -> int:
        """Size of an output element: the structure's dim."""
        return self.structure.dim

    @property
    def pointwise(self) -> bool:
        """Whether discrete tokens may come as `Tabulated`."""
        return self.drive.pointwise

    @property
    def windowed(self) -> bool:
        """Whether outputs stand at the ends of windows, and not at every element."""
        return isinstance(self.flow, LogODE)

    def __call__(
        self,
        x: Array | Tabulated,
        state: State | None = None,
        lengths: Lengths | None = None,
        return_state: bool = False,
    ) -> Any:
        """The states along a batch of sequences.

        Args:
            x: (batch, length, channels), or `Tabulated` inputs for discrete tokens.
            state: where an earlier part of the sequences ended; no element is special then.
            lengths: (batch,) integers; past the end the state stays as it is.
            return_state: whether to return the final state as well.

        Returns:
            h (batch, length, dim) in the dtype of x, the direction if projective; with
            return_state, (h, state). Under `LogODE` the length is that of `output_lengths`, and an
            element for a window that is not over is provisional.
        """
        states, final = self.trajectory(x, state, lengths)
        h = states.direction if isinstance(states, Projective) else states
        return (h, final) if return_state else h

    def step(self, x: Array, state: State | None = None) -> tuple[Array, State]:
        """One element: x (batch, channels) -> h (batch, dim), and the state after it.

        Under `LogODE` too, h is the state now, also inside a window.
        """
        check_shape("x", x, ("batch", self.channels))
        states, final = self.trajectory(x[:, None], state)
        h = states.direction if isinstance(states, Projective) else states
        if isinstance(self.flow, LogODE) and not isinstance(self.flow.window, int):
            return last_valid(h, self.places(x[:, None], state).counts), final
        return h[:, 0], final

    def output_lengths(self, lengths: Any) -> Any:
        """How many outputs sequences of these lengths have: (batch,) integers -> (batch,).

        As many, but with windows of some steps one for each window, and one before them if the
        first element drives nothing (`FirstInput()`).

        Raises:
            ValueError: if windows are given in time: their number depends on the input.
        """
        if not isinstance(self.flow, LogODE):
            return lengths
        if not isinstance(self.flow.window, int):
            raise ValueError(
                f"window={self.flow.window!r}: how many windows there are depends on the input; "
                "see `places`"
            )
        skip = 0 if self.initial.drives_first else 1
        rest = jnp.maximum(jnp.asarray(lengths) - skip, 0)
        return skip + (rest + self.flow.window - 1) // self.flow.window

    def places(
        self, x: Array | Tabulated, state: State | None = None, lengths: Lengths | None = None
    ) -> Places:
        """Where the outputs stand in the input of the same call.

        Raises:
            ValueError: unless the flow is `LogODE`; otherwise outputs stand where inputs do.
        """
        if not isinstance(self.flow, LogODE):
            raise ValueError(f"flow={self.flow!r} keeps the length; expected LogODE(...)")
        batch, length = x.shape[:2]
        skip = 0 if state is not None or self.initial.drives_first else 1
        steps = None
        if lengths is not None:
            steps = jnp.maximum(check_lengths(lengths, batch, length) - skip, 0)
        filled = None if state is None else state["filled"]
        if isinstance(self.flow.window, int):  # only how many increments there are matters
            path = jnp.zeros((batch, length - skip, 1))
        else:
            path = _dense(self._increments(_full(x), state, skip))
        places = ends(path, self.flow.window, filled, steps)
        elements = places.last + skip
        if skip:
            elements = jnp.pad(elements, ((0, 0), (1, 0)))
        return Places(places.counts + skip, places.closed + skip, elements)

    def trajectory(
        self,
        x: Array | Tabulated,
        state: State | None = None,
        lengths: Lengths | None = None,
    ) -> tuple[Any, State]:
        """As the call, but projective layers give directions and log-norms, and always the state.

        Returns:
            States (batch, length, dim) or `Projective` ones, and the final state.
        """
        if isinstance(x, Tabulated) and not self.pointwise:
            x = x.dense()
        self._check(x, state)
        if lengths is not None:
            lengths = check_lengths(lengths, x.shape[0], x.shape[1])
            self._check_started(state, lengths)
            # Padding may hold anything, and 0 * NaN would reach the gradients of the drive.
            x = x.masked(lengths) if isinstance(x, Tabulated) else mask_past_end(x, lengths)
        given = x.dtype
        states, final = self._trajectory(_full(x), state, lengths)
        _warn_if_exploded(final["hidden"])
        if isinstance(states, Projective):
            return Projective(states.direction.astype(given), states.log_norm), final
        return states.astype(given), final

    def _trajectory(self, x: Any, state: State | None, lengths: Array | None) -> tuple[Any, State]:
        hidden, skip = self._start(x, state)
        increments = self._increments(x, state, skip)
        steps = None if lengths is None else jnp.maximum(lengths - skip, 0)
        opened = None
        if isinstance(self.flow, LogODE):
            states, last, opened = self._windows(increments, hidden, state, steps)
        elif increments.shape[1] == 0:
            states, last = nothing_after(hidden), hidden
        else:
            weights = _widened(self.A, x.dtype)
            states, last = solve(
                self.structure,
                weights,
                increments,
                hidden,
                self.flow,
                self.scan,
                self._affine(increments),
                steps,
            )
        if skip:
            states = prepend(hidden, states)
        return states, self._final(x, last, state, lengths, opened)

    def _windows(
        self, increments: Any, hidden: Any, state: State | None, steps: Array | None
    ) -> tuple[Any, Any, OpenWindow]:
        """One step a window, from the state at the start of the one that is open."""
        flow, basis = self.flow, self.basis
        assert isinstance(flow, LogODE) and basis is not None
        path = _dense(increments)
        if path.shape[1] == 0:
            return nothing_after(hidden), hidden, OpenWindow.empty(path, basis, flow.window)
        path = path if steps is None else mask_past_end(path, steps)
        before = None
        if state is not None:
            before = OpenWindow(state["window"].astype(path.dtype), state["filled"])
        windows = cut(path, basis, flow.window, before, steps)
        regular = steps is None and before is None and isinstance(flow.window, int)
        states, _ = solve(
            flow.lift(self.structure),
            self.structure.lift_parameters(_widened(self.A, path.dtype), basis),
            windows.signatures,
            hidden,
            flow.flow,
            self.scan,
            None,
            None if regular else windows.within,
        )
        return states, after(states, hidden, windows.closed), windows.open

    def _increments(self, x: Any, state: State | None, skip: int) -> Any:
        """What drives the steps, without the elements that drive none."""
        if isinstance(x, Tabulated):
            return x.map(self.drive).part(skip)
        return self.drive(x, self._previous(x, state))[:, skip:]

    def _previous(self, x: Any, state: State | None) -> Array | None:
        previous = None if state is None else state.get("previous")
        return None if previous is None else previous.astype(x.dtype)

    def _start(self, x: Any, state: State | None) -> tuple[Any, int]:
        """The state to start from, and how many elements drive nothing."""
        if state is not None:
            hidden = state["hidden"].astype(x.dtype)
            if not self.projective:
                return hidden, 0
            return Projective(hidden, state["log_norm"].astype(x.dtype)), 0
        if isinstance(self.scan, Sharded) and self.initial.needs_first:
            raise ValueError(
                f"scan={self.scan!r} with initial={self.initial!r}: the first element of the "
                "sequence lies on one device alone; expected Learned(), or a state to go on from"
            )
        first = x.part(0, 1).dense()[:, 0] if isinstance(x, Tabulated) else x[:, 0]
        hidden = self.initial.start(_widened(self.start, x.dtype), first)
        skip = 0 if self.initial.drives_first else 1
        return (Projective.of(hidden) if self.projective else hidden), skip

    def _affine(self, increments: Any) -> Array | None:
        if self.B is None:
            return None
        weight = self.B.astype(increments.dtype)
        if isinstance(increments, Tabulated):
            return increments.map(lambda table: table @ weight.T).dense()
        return increments @ weight.T

    def _final(
        self,
        x: Any,
        last: Any,
        state: State | None,
        lengths: Array | None,
        opened: OpenWindow | None,
    ) -> State:
        arrays = {"hidden": last}
        if isinstance(last, Projective):
            arrays = {"hidden": last.direction, "log_norm": last.log_norm}
        if opened is not None:
            arrays |= {"window": opened.signature, "filled": opened.filled}
        if not self.drive.pointwise:
            newest = last_valid(x, lengths)
            before = self._previous(x, state)
            if lengths is not None and before is not None:
                newest = jnp.where(lengths[:, None] > 0, newest, before)
            arrays["previous"] = newest
        return State(arrays)

    def regularisation(self) -> Array:
        """Sum of the Frobenius norms of the structure's arrays, the paper's penalty."""
        floating = [x for x in self.A.values() if jnp.issubdtype(x.dtype, jnp.floating)]
        return jnp.stack([jnp.sqrt(jnp.sum(x * x)) for x in floating]).sum()

    def _check(self, x: Any, state: State | None) -> None:
        if isinstance(x, Tabulated):
            check_shape("x.table", x.table, ("vocabulary", self.channels))
        else:
            check_shape("x", x, ("batch", "length", self.channels))
            check_floating("x", x)
        if x.shape[1] < 1:
            raise ValueError("x has length 0; an empty sequence has no steps")
        held_in = next(a.dtype for a in self.A.values() if jnp.issubdtype(a.dtype, jnp.floating))
        if x.dtype != held_in and not is_half(x.dtype) and not is_half(held_in):
            raise TypeError(
                f"x has dtype {x.dtype}, but the layer has {held_in}; expected one dtype"
            )
        if state is None:
            return
        if not isinstance(state, State):
            raise TypeError(f"state is a {type(state).__name__}; expected a State, or None")
        sizes: dict[str, tuple[int, ...]] = {
            "hidden": (self.structure.dim,),
            "log_norm": (),
            "previous": (self.channels,),
        }
        if self.basis is not None:
            sizes |= {"window": (self.basis.size,), "filled": ()}
        for name, size in sizes.items():
            held = state.get(name)
            if held is not None:
                check_shape(f"state[{name!r}]", held, (x.shape[0], *size))

    def _check_started(self, state: State | None, lengths: Array) -> None:
        special = self.initial.needs_first or not self.drive.pointwise
        if state is not None or not special or not concrete(lengths):
            return
        empty = np.flatnonzero(np.asarray(lengths) < 1)
        if empty.size:
            raise ValueError(
                f"lengths holds 0 at batch {int(empty[0])}; expected at least 1, because the "
                "first element of a sequence is needed to start this layer"
            )


def _full(x: Any) -> Any:
    """Half precision as float32."""
    if not is_half(x.dtype):
        return x
    if isinstance(x, Tabulated):
        return x.map(lambda table: table.astype(jnp.float32))
    return x.astype(jnp.float32)


def _dense(x: Any) -> Array:
    """Every element of tokens, or x itself."""
    return x.dense() if isinstance(x, Tabulated) else x


def _widened(arrays: dict[str, Array], dtype: Any) -> dict[str, Array]:
    return {name: x.astype(dtype) if is_half(x.dtype) else x for name, x in arrays.items()}


def _warn_if_exploded(last: Array) -> None:
    """A linear recurrence that has left the range of its dtype stays out of it: look at the end."""
    if concrete(last) and not bool(jnp.isfinite(last).all()):
        warnings.warn(
            "the state of a SLiCE is no longer finite: it overflowed on the way, or its input was "
            "not finite. Use projective=True, an Orthogonal structure or smaller increments",
            RuntimeWarning,
            stacklevel=4,
        )
