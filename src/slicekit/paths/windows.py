"""Windows given in time: [0, T), [T, 2T), ... by the path's own time channel.

A segment that crosses an edge is cut there; the path is linear, so its pieces are fractions of the
segment. Cutting changes no signature.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.checks import Lengths
from slicekit.descriptions import durations as descriptions
from slicekit.paths.clocks import Clock
from slicekit.paths.lie_bases import LieBasis
from slicekit.paths.log_signatures import check_increments
from slicekit.paths.window_signatures import run_windows


@dataclass(frozen=True)
class Duration(descriptions.Duration):
    """A window's length in time.

    A position within a millionth of a window from an edge is on it. Steps in float32 are off by up
    to 6e-8 of themselves, and so are sums of them: where windows should end with a step, far along
    a path (after 17 windows at the worst, some 70 with steps of 0.1) they may end just beside it,
    with a window of next to nothing. Steps that float32 holds exactly never do: count time in
    steps, such as `Differences(times=1.0)` with `Duration(5.0)` for 0.1 with 0.5, or take float64.

    Args:
        time: how long a window is, in the units of the time channel; positive.
        channel: which channel of the path is time.

    Raises:
        TypeError: if time is no number, or channel no integer.
        ValueError: if time is not positive, or channel negative.

    >>> Duration(0.5)
    Duration(time=0.5, channel=0)
    """

    def count(
        self, increments: Tensor, elapsed: Tensor | None = None, lengths: Lengths | None = None
    ) -> tuple[Tensor, Tensor]:
        """How many windows a path enters, and how much of the last one has passed.

        Args:
            increments: (batch, length, channels), with steps of time that are not negative.
            elapsed: (batch,), what has passed of the first window before; None for nothing.
            lengths: (batch,) integers, the number of increments of each path; None for all.

        Returns:
            counts: (batch,) int64, a last window that is not over included.
            elapsed: (batch,) float64 (float32 where the device has no other), zero where the last
                window is over.

        Raises:
            TypeError: if increments are not floating or lengths no integers.
            ValueError: if shapes do not fit, the channel is not there, or time goes back.

        >>> steps = torch.tensor([[[0.4], [0.4], [0.4]]])
        >>> counts, elapsed = Duration(0.5).count(steps)
        >>> counts, elapsed.round(decimals=3)
        (tensor([3]), tensor([0.2000], dtype=torch.float64))
        """
        clock = Clock.of(increments, self.time, self.channel, elapsed, lengths)
        return clock.counts.detach(), clock.elapsed.detach()

    def ends(
        self, increments: Tensor, elapsed: Tensor | None = None, lengths: Lengths | None = None
    ) -> Tensor:
        """The last increment that is wholly inside each window or before it.

        Args:
            increments: (batch, length, channels), with steps of time that are not negative.
            elapsed: (batch,), what has passed of the first window before; None for nothing.
            lengths: (batch,) integers, the number of increments of each path; None for all.

        Returns:
            (batch, most windows) int64; -1 where there is none.

        Raises:
            TypeError: as `count` does.
            ValueError: as `count` does.

        >>> Duration(0.5).ends(torch.tensor([[[0.4], [0.4], [0.2]]]))
        tensor([[0, 2]])
        """
        clock = Clock.of(increments, self.time, self.channel, elapsed, lengths)
        after = clock.after.detach().contiguous()
        edges = torch.arange(1, clock.most() + 1, device=after.device, dtype=after.dtype)
        places = torch.searchsorted(after, edges.expand(len(after), -1).contiguous(), right=True)
        return (torch.minimum(places, clock.lengths[:, None]) - 1).to(increments.device)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Increments cut at the edges of windows.

    Attributes:
        increments: (batch, pieces, channels), zero past the last piece of a path.
        edges: (batch, windows + 1) int64: window w has pieces edges[w] to edges[w + 1] - 1.
        counts: (batch,) int64, how many windows a path enters, one that is not over included.
        elapsed: (batch,) float64, how much of the last window has passed; zero if it is over.
    """

    increments: Tensor
    edges: Tensor
    counts: Tensor
    elapsed: Tensor


def split_at(
    increments: Tensor,
    duration: Duration,
    elapsed: Tensor | None = None,
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
        ValueError: if shapes do not fit, the channel is not there, or time goes back.

    >>> pieces = split_at(torch.tensor([[[1.0, 4.0], [0.5, 1.0]]]), Duration(0.5))
    >>> pieces.increments
    tensor([[[0.5000, 2.0000],
             [0.5000, 2.0000],
             [0.5000, 1.0000]]])
    >>> pieces.edges
    tensor([[0, 1, 2, 3]])
    """
    clock = Clock.of(increments, duration.time, duration.channel, elapsed, lengths)
    batch, length, channels = increments.shape
    windows = clock.most()
    first = clock.before.detach().floor()
    crossed = (clock.after.detach().ceil() - 1 - first).clamp_min(0).to(torch.int64)
    starts = torch.nn.functional.pad((1 + crossed).cumsum(1), (1, 0))
    total = int(starts[:, -1].max()) if batch else 0

    place, home = clock.before.device, increments.device
    number = torch.arange(total, device=place).expand(batch, -1).contiguous()
    source = torch.searchsorted(starts[:, 1:].contiguous(), number, right=True)
    inside = source < length
    source = source.clamp_max(max(length - 1, 0))
    nth = number - starts.gather(1, source)
    before, after = clock.before.gather(1, source), clock.after.gather(1, source)
    window = first.gather(1, source) + nth
    low = torch.where(nth == 0, before, window)
    high = torch.where(nth == crossed.gather(1, source), after, window + 1)
    span = after - before
    moving = span > 0
    fraction = torch.where(moving, (high - low) / torch.where(moving, span, 1), 1)
    kept = inside & (source < clock.lengths[:, None])
    pieces = increments.gather(1, source.to(home)[..., None].expand(-1, -1, channels))
    share = fraction.to(pieces.dtype).to(home)
    pieces = torch.where(kept.to(home)[..., None], pieces * share[..., None], 0)

    window = window.where(inside, windows).to(torch.int64)
    numbers = torch.arange(windows + 1, device=place).expand(batch, -1)
    edges = torch.searchsorted(window.contiguous(), numbers.contiguous()).to(home)
    return Pieces(pieces, edges, clock.counts, clock.elapsed)


def log_signatures_in_time(
    increments: Tensor,
    basis: LieBasis,
    duration: Duration,
    elapsed: Tensor | None = None,
    lengths: Lengths | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The log-signature of each window of time.

    How many windows there are depends on the data, so this is not for `torch.compile`.

    Args:
        increments: (batch, length, channels), with steps of time that are not negative.
        basis: of the coefficients.
        duration: of a window.
        elapsed: (batch,), what has passed of the first window before these increments; None for
            nothing. The first coefficients are of the rest of that window: `chen` completes them.
        lengths: (batch,) integers, the number of increments of each path; None for all.

    Returns:
        coefficients: (batch, most windows, basis.size), zero past the last window of a path; there
            is at least one window.
        counts: (batch,) int64, how many windows each path enters, one that is not over included.
        elapsed: (batch,) float64, how much of the last window has passed; zero if it is over.

    Raises:
        TypeError: if increments are not floating or lengths no integers.
        ValueError: if shapes do not fit, the channel is not there, or time goes back.

    >>> from slicekit.paths import hall
    >>> steps = torch.tensor([[[1.0, 4.0], [0.5, 1.0]]])
    >>> log_signatures_in_time(steps, hall(2, 1), Duration(1.0))[0]
    tensor([[[1.0000, 4.0000],
             [0.5000, 1.0000]]])
    """
    check_increments(increments, basis)
    pieces = split_at(increments, duration, elapsed, lengths)
    coefficients = run_windows(pieces.increments, basis, edges=pieces.edges)
    return coefficients, pieces.counts, pieces.elapsed
