"""Windows given in time: [0, T), [T, 2T), ... by the path's own time channel.

A segment that crosses an edge is cut there; the path is linear, so its pieces are fractions of the
segment. Cutting changes no signature.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax

from slicekit.descriptions import durations as descriptions
from slicekit.descriptions.checks import check_size
from slicekit.jax.checks import Lengths, concrete
from slicekit.jax.paths.clocks import Clock
from slicekit.jax.paths.lie_bases import LieBasis
from slicekit.jax.paths.log_signatures import between, check_increments


@dataclass(frozen=True, repr=False)
class Duration(descriptions.Duration):
    """A window's length in time.

    How many windows a path enters depends on its times, and a compiled program has one number for
    all data. Outside `jax.jit` and `jax.vmap` it is read from the data, as in torch; inside, say
    the most there may be.

    A position within a millionth of a window from an edge is on it. Steps in float32 are off by up
    to 6e-8 of themselves, and so are sums of them: where windows should end with a step, far along
    a path (after 17 windows at the worst, some 70 with steps of 0.1) they may end just beside it,
    with a window of next to nothing. Steps that float32 holds exactly never do: count time in
    steps, such as `Differences(times=1.0)` with `Duration(5.0)` for 0.1 with 0.5, or take float64.

    Args:
        time: how long a window is, in the units of the time channel; positive.
        channel: which channel of the path is time.
        most: how many windows there are room for, inside `jax.jit` and outside; those that a path
            does not enter leave the state as it is. None reads it from the data. A path that has
            more is refused: under `jax.jit` when the program runs.

    Raises:
        TypeError: if time is no number, or channel no integer.
        ValueError: if time is not positive, channel negative, or most less than one.

    >>> Duration(0.5), Duration(0.5, most=8)
    (Duration(time=0.5, channel=0), Duration(time=0.5, channel=0, most=8))
    """

    most: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check what was given."""
        super().__post_init__()
        if self.most is not None:
            check_size("most", self.most)

    def __repr__(self) -> str:
        """As torch's, which has no such bound."""
        bound = "" if self.most is None else f", most={self.most}"
        return f"Duration(time={self.time!r}, channel={self.channel!r}{bound})"

    def count(
        self, increments: Array, elapsed: Array | None = None, lengths: Lengths | None = None
    ) -> tuple[Array, Array]:
        """How many windows a path enters, and how much of the last one has passed.

        Args:
            increments: (batch, length, channels), with steps of time that are not negative.
            elapsed: (batch,), what has passed of the first window before; None for nothing.
            lengths: (batch,) integers, the number of increments of each path; None for all.

        Returns:
            counts: (batch,) integers, a last window that is not over included.
            elapsed: (batch,) in the widest floats that JAX holds, zero where the last window is
                over.

        Raises:
            TypeError: if increments are not floating or lengths no integers.
            ValueError: if shapes do not fit, the channel is not there, or time goes back.

        >>> counts, elapsed = Duration(0.5).count(jnp.full((1, 3, 1), 0.4))
        >>> counts.tolist(), elapsed.round(3).tolist()
        ([3], [0.20000000298023224])
        """
        clock = self._clock(increments, elapsed, lengths)
        return clock.counts, lax.stop_gradient(clock.elapsed)

    def ends(
        self, increments: Array, elapsed: Array | None = None, lengths: Lengths | None = None
    ) -> Array:
        """The last increment that is wholly inside each window or before it.

        Args:
            increments: (batch, length, channels), with steps of time that are not negative.
            elapsed: (batch,), what has passed of the first window before; None for nothing.
            lengths: (batch,) integers, the number of increments of each path; None for all.

        Returns:
            (batch, most windows) integers; -1 where there is none.

        Raises:
            TypeError: as `count` does.
            ValueError: as `count` does, and if `most` is missing or too small.

        >>> Duration(0.5).ends(jnp.array([[[0.4], [0.4], [0.2]]])).tolist()
        [[0, 2]]
        """
        clock = self._clock(increments, elapsed, lengths)
        edges = jnp.arange(1, self.room(clock.counts) + 1)
        places = jax.vmap(lambda last: jnp.searchsorted(last, edges, side="right"))(clock.last)
        return jnp.minimum(places.astype(int), clock.lengths[:, None]) - 1

    def room(self, counts: Array) -> int:
        """How many windows an array must hold for paths that enter these (batch,), at least one.

        Raises:
            ValueError: if they are not known yet and `most` is None, or there are too many.
        """
        if not concrete(counts):
            if self.most is None:
                raise ValueError(
                    f"window={self!r}: how many windows there are depends on the times, which "
                    "traced data can't tell; give the most there may be, such as "
                    f"Duration({self.time!r}, most=64), or call it outside jax.jit and jax.vmap"
                )
            return self.most
        largest = max(1, int(counts.max())) if counts.size else 1
        descriptions.check_windows(largest)
        if self.most is None:
            return largest
        if largest > self.most:
            raise ValueError(f"a path has {largest} windows; expected at most most={self.most}")
        return self.most

    def _clock(self, increments: Array, elapsed: Array | None, lengths: Lengths | None) -> Clock:
        return Clock.of(increments, self.time, self.channel, elapsed, lengths)


class Pieces(NamedTuple):
    """Increments cut at the edges of windows.

    Attributes:
        increments: (batch, pieces, channels), zero past the last piece of a path.
        edges: (batch, windows + 1) integers: window w has pieces edges[w] to edges[w + 1] - 1.
        counts: (batch,) integers, how many windows a path enters, one that is not over included.
        elapsed: (batch,), how much of the last window has passed; zero if it is over.
    """

    increments: Array
    edges: Array
    counts: Array
    elapsed: Array


def split_at(
    increments: Array,
    duration: Duration,
    elapsed: Array | None = None,
    lengths: Lengths | None = None,
) -> Pieces:
    """Cut increments wherever a window of time ends.

    Args:
        increments: (batch, length, channels), with steps of time that are not negative.
        duration: of a window.
        elapsed: (batch,), what has passed of the first window before; None for nothing.
        lengths: (batch,) integers, the number of increments of each path; None for all.

    Returns:
        The pieces, differentiable in the increments, those of time included.

    Raises:
        TypeError: if increments are not floating or lengths no integers.
        ValueError: if shapes do not fit, the channel is not there, time goes back, or there are
            more windows than there is room for.

    >>> pieces = split_at(jnp.array([[[1.0, 4.0], [0.5, 1.0]]]), Duration(0.5))
    >>> pieces.increments.tolist(), pieces.edges.tolist()
    ([[[0.5, 2.0], [0.5, 2.0], [0.5, 1.0]]], [[0, 1, 2, 3]])
    """
    if increments.shape[1] == 0:
        increments = jnp.pad(increments, ((0, 0), (0, 1), (0, 0)))
    clock = Clock.of(increments, duration.time, duration.channel, elapsed, lengths)
    windows, crossed = duration.room(clock.counts), clock.crossed
    batch, length = increments.shape[:2]
    starts = jnp.pad(jnp.cumsum(1 + crossed, 1), ((0, 0), (1, 0)))
    total = length + windows  # a window's edge makes at most one piece more
    if duration.most is None:
        total = int(starts[:, -1].max()) if batch else 0
    number = jnp.arange(total)
    source = jax.vmap(lambda ends: jnp.searchsorted(ends, number, side="right"))(starts[:, 1:])
    inside = source < length
    source = jnp.minimum(source, length - 1)

    def of_source(x: Array) -> Array:
        """(batch, length, ...) -> (batch, pieces, ...)."""
        return x[jnp.arange(batch)[:, None], source]

    nth = number - of_source(starts[:, :-1])
    alone = of_source(crossed) == 0
    part = jnp.where(nth == of_source(crossed), of_source(clock.behind), 1)
    part = jnp.where(nth == 0, of_source(clock.ahead), part)
    share = jnp.where(alone, 1, part / jnp.where(alone, 1, of_source(clock.span)))
    kept = inside & (source < clock.lengths[:, None])
    pieces = jnp.where(kept[..., None], of_source(increments) * share[..., None], 0)

    window = jnp.where(inside, of_source(clock.first) + nth, windows)
    numbers = jnp.arange(windows + 1)
    edges = jax.vmap(lambda numbered: jnp.searchsorted(numbered, numbers))(window).astype(int)
    if not concrete(clock.counts):
        pieces = eqx.error_if(
            pieces,
            clock.counts.max(initial=0) > windows,
            f"a path has more windows than most={windows}",
        )
    return Pieces(pieces, edges, clock.counts, clock.elapsed)


def log_signatures_in_time(
    increments: Array,
    basis: LieBasis,
    duration: Duration,
    elapsed: Array | None = None,
    lengths: Lengths | None = None,
) -> tuple[Array, Array, Array]:
    """The log-signature of each window of time.

    Args:
        increments: (batch, length, channels), with steps of time that are not negative.
        basis: of the coefficients.
        duration: of a window, with `most` where data are traced.
        elapsed: (batch,), what has passed of the first window before these increments; None for
            nothing. The first coefficients are of the rest of that window: `chen` completes them.
        lengths: (batch,) integers, the number of increments of each path; None for all.

    Returns:
        coefficients: (batch, most windows, basis.size), zero past the last window of a path; there
            is at least one window.
        counts: (batch,) integers, how many windows each path enters, one that is not over included.
        elapsed: (batch,), how much of the last window has passed; zero if it is over.

    Raises:
        TypeError: if increments are not floating or lengths no integers.
        ValueError: if shapes do not fit, the channel is not there, time goes back, or there are
            more windows than there is room for.

    >>> from slicekit.jax.paths import hall
    >>> steps = jnp.array([[[1.0, 4.0], [0.5, 1.0]]])
    >>> log_signatures_in_time(steps, hall(2, 1), Duration(1.0))[0].tolist()
    [[[1.0, 4.0], [0.5, 1.0]]]
    """
    check_increments(increments, basis)
    pieces = split_at(increments, duration, elapsed, lengths)
    coefficients = between(pieces.increments, basis, pieces.edges)
    return coefficients, pieces.counts, pieces.elapsed
