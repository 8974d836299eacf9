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


class OpenWindow(NamedTuple):
    """What has come of a window that is not over.

    Attributes:
        signature: (batch, β), the log-signature so far.
        filled: (batch,) integers, how many of its steps have passed.
    """

    signature: Array
    filled: Array

    @classmethod
    def empty(cls, increments: Array, basis: LieBasis) -> "OpenWindow":
        """A window that is about to begin, for increments (batch, length, channels)."""
        batch = increments.shape[0]
        return cls(jnp.zeros((batch, basis.size), increments.dtype), jnp.zeros(batch, int))


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


def cut(
    increments: Array,
    basis: LieBasis,
    window: int,
    before: OpenWindow | None = None,
    lengths: Array | None = None,
) -> Windows:
    """Cut a part of a path into windows.

    Args:
        increments: (batch, length, channels), zero past the end of a path.
        basis: of the log-signatures.
        window: in steps.
        before: the window that the part before left open.
        lengths: (batch,) integers, the number of increments of each path; None for all.

    Returns:
        The windows; the first of them goes on with the one left open. How much of it has passed is
        not known while tracing, so there is then room for one window more.
    """
    batch, length, channels = increments.shape
    if lengths is None:
        lengths = jnp.full((batch,), length)
    filled = jnp.zeros_like(lengths) if before is None else before.filled
    if before is None:
        signatures = log_signatures(increments, basis, window)
    else:
        if length == 1:
            room = ((0, 0), (0, 0), (0, basis.size - channels))
            signatures = jnp.pad(increments, room)
        else:
            signatures = log_signatures(_shift(increments, filled, window), basis, window)
        first = chen(basis, before.signature.astype(signatures.dtype), signatures[:, 0])
        signatures = jnp.concatenate([first[:, None], signatures[:, 1:]], 1)
    total = filled + lengths
    counts, closed = (total + window - 1) // window, total // window
    last = jnp.minimum(closed, signatures.shape[1] - 1)[:, None, None]
    left = jnp.take_along_axis(signatures, last, axis=1)[:, 0]
    rest = total % window
    return Windows(
        signatures, counts, closed, OpenWindow(jnp.where(rest[:, None] > 0, left, 0), rest)
    )


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
        last: (batch, windows) integers, the last increment of each window.
    """

    counts: Array
    closed: Array
    last: Array


def ends(batch: int, length: int, window: int, filled: Array | None, lengths: Array | None) -> Ends:
    """Where the windows end that `cut` makes of a part of that length."""
    if length == 0:
        none = jnp.zeros(batch, int)
        return Ends(none, none, jnp.zeros((batch, 0), int))
    if lengths is None:
        lengths = jnp.full((batch,), length)
    most = 0 if filled is None else (0 if length == 1 else most_filled(filled, window))
    filled = jnp.zeros_like(lengths) if filled is None else filled
    total = filled + lengths
    counts, closed = (total + window - 1) // window, total // window
    windows = (length + most + window - 1) // window
    edges = jnp.arange(1, windows + 1) * window - filled[:, None]
    return Ends(counts, closed, jnp.minimum(edges, lengths[:, None]) - 1)
