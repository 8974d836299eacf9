"""A path cut into windows, also where it comes in parts that end in the middle of one.

Glossary: a window is closed when all of it has passed, and open before; the open window of a part
is gone on with by the next part. An open window gives a signature too, of what has come of it.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from slicekit.jax.checks import concrete
from slicekit.jax.paths.lie_bases import LieBasis
from slicekit.jax.paths.log_signatures import chen, log_signatures
from slicekit.jax.paths.windows import Duration, log_signatures_in_time


class OpenWindow(NamedTuple):
    """What has come of a window that is not over.

    Attributes:
        signature: (batch, β), the log-signature so far.
        filled: (batch,), how much of it has passed: in steps (integers), or in time.
    """

    signature: Array
    filled: Array

    @classmethod
    def empty(cls, increments: Array, basis: LieBasis, window: int | Duration) -> "OpenWindow":
        """A window that is about to begin, for increments (batch, length, channels)."""
        batch = increments.shape[0]
        filled = jnp.zeros(batch, int if isinstance(window, int) else float)
        return cls(jnp.zeros((batch, basis.size), increments.dtype), filled)


class Windows(NamedTuple):
    """A part of a path, cut.

    Attributes:
        signatures: (batch, windows, β), log-signatures, zero past the last window of a path.
        counts: (batch,) integers, how many windows each path has here, an open one included.
        closed: (batch,) integers, how many of them are over.
        open: the window at the end, empty where a window ends there.
    """

    signatures: Array
    counts: Array
    closed: Array
    open: OpenWindow

    @property
    def within(self) -> Array:
        """(batch,) integers, how many windows each path has of those that there is room for."""
        return jnp.minimum(self.counts, self.signatures.shape[1])


def cut(
    increments: Array,
    basis: LieBasis,
    window: int | Duration,
    before: OpenWindow | None = None,
    lengths: Array | None = None,
) -> Windows:
    """Cut a part of a path into windows.

    Args:
        increments: (batch, length, channels), zero past the end of a path.
        basis: of the log-signatures.
        window: in steps, or in time.
        before: the window that the part before left open.
        lengths: (batch,) integers, the number of increments of each path; None for all.

    Returns:
        The windows; the first of them goes on with the one left open. How many of its steps have
        passed is not known while tracing, so there is then room for one window more.
    """
    if isinstance(window, int):
        return _cut_by_steps(increments, basis, window, before, lengths)
    return _cut_by_time(increments, basis, window, before, lengths)


def _cut_by_steps(
    increments: Array,
    basis: LieBasis,
    window: int,
    before: OpenWindow | None,
    lengths: Array | None,
) -> Windows:
    batch, length, channels = increments.shape
    if lengths is None:
        lengths = jnp.full((batch,), length)
    filled = jnp.zeros_like(lengths) if before is None else before.filled
    if before is None:
        signatures = log_signatures(increments, basis, window)
    elif length == 1:
        signatures = jnp.pad(increments, ((0, 0), (0, 0), (0, basis.size - channels)))
    else:
        signatures = log_signatures(_shift(increments, filled, window), basis, window)
    signatures = _go_on(signatures, basis, before)
    total = filled + lengths
    counts, closed = (total + window - 1) // window, total // window
    rest = total % window
    return Windows(signatures, counts, closed, _left_open(signatures, closed, rest, rest > 0))


def _cut_by_time(
    increments: Array,
    basis: LieBasis,
    window: Duration,
    before: OpenWindow | None,
    lengths: Array | None,
) -> Windows:
    filled = None if before is None else before.filled
    signatures, counts, elapsed = log_signatures_in_time(increments, basis, window, filled, lengths)
    closed = counts - (elapsed > 0)
    # No time has passed, but the path may have jumped: its first window is open.
    timeless = counts == 0
    jump = jnp.pad(increments.sum(1), ((0, 0), (0, basis.size - basis.channels)))
    first = jnp.where(timeless[:, None], jump, signatures[:, 0])
    signatures = _go_on(signatures.at[:, 0].set(first), basis, before)
    left = _left_open(signatures, closed, elapsed, (elapsed > 0) | timeless)
    return Windows(signatures, _at_least_one(counts, lengths), closed, left)


def _at_least_one(counts: Array, lengths: Array | None) -> Array:
    """A window for every path that has an increment, even if no time has passed."""
    return jnp.maximum(counts, 1 if lengths is None else jnp.minimum(lengths, 1))


def _go_on(signatures: Array, basis: LieBasis, before: OpenWindow | None) -> Array:
    """Put what came of the first window before in front of it."""
    if before is None:
        return signatures
    first = chen(basis, before.signature.astype(signatures.dtype), signatures[:, 0])
    return jnp.concatenate([first[:, None], signatures[:, 1:]], 1)


def _left_open(signatures: Array, closed: Array, filled: Array, begun: Array) -> OpenWindow:
    last = jnp.minimum(closed, signatures.shape[1] - 1)[:, None, None]
    left = jnp.take_along_axis(signatures, last, axis=1)[:, 0]
    return OpenWindow(jnp.where(begun[:, None], left, 0), filled)


def most_filled(filled: Array, window: int) -> int:
    """The largest number of steps that may have passed of an open window."""
    return int(filled.max()) if concrete(filled) and filled.size else window - 1


def _shift(increments: Array, filled: Array, window: int) -> Array:
    """Increments moved to the right by what has passed of their first window."""
    length, most = increments.shape[1], most_filled(filled, window)
    source = jnp.arange(length + most) - filled[:, None]
    inside = (source >= 0) & (source < length)
    index = jnp.clip(source, 0, length - 1)[..., None]
    return jnp.take_along_axis(increments, index, axis=1) * inside[..., None]


class Ends(NamedTuple):
    """Where the windows of a part of a path end.

    Attributes:
        counts: (batch,) integers, how many windows each path has here, an open one included.
        closed: (batch,) integers, how many of them are over.
        last: (batch, windows) integers, the last increment that is wholly inside each window or
            before it; -1 where that was in the part before.
    """

    counts: Array
    closed: Array
    last: Array


def ends(
    increments: Array,
    window: int | Duration,
    filled: Array | None = None,
    lengths: Array | None = None,
) -> Ends:
    """Where the windows end that `cut` makes of the same arguments.

    Args:
        increments: (batch, length, channels), zero past the end of a path.
        window: in steps, or in time.
        filled: (batch,), what has passed of the first window.
        lengths: (batch,) integers, the number of increments of each path; None for all.
    """
    batch, length = increments.shape[:2]
    if length == 0:
        none = jnp.zeros(batch, int)
        return Ends(none, none, jnp.zeros((batch, 0), int))
    if not isinstance(window, int):
        counts, elapsed = window.count(increments, filled, lengths)
        last = window.ends(increments, filled, lengths)
        return Ends(_at_least_one(counts, lengths), counts - (elapsed > 0), last)
    if lengths is None:
        lengths = jnp.full((batch,), length)
    most = 0 if filled is None else (0 if length == 1 else most_filled(filled, window))
    filled = jnp.zeros_like(lengths) if filled is None else filled
    total = filled + lengths
    counts, closed = (total + window - 1) // window, total // window
    windows = (length + most + window - 1) // window
    edges = jnp.arange(1, windows + 1) * window - filled[:, None]
    return Ends(counts, closed, jnp.minimum(edges, lengths[:, None]) - 1)
