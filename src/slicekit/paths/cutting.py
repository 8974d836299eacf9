"""A path cut into windows, also where it comes in parts that end in the middle of one.

Glossary: a window is closed when all of it has passed, and open before; the open window of a part
is gone on with by the next part. An open window gives a signature too, of what has come of it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.devices import widest
from slicekit.paths.lie_bases import LieBasis
from slicekit.paths.log_signatures import chen, log_signatures
from slicekit.paths.windows import Duration, log_signatures_in_time


@dataclass(frozen=True, eq=False)
class OpenWindow:
    """What has come of a window that is not over.

    Args:
        signature: (batch, β), the log-signature so far.
        filled: (batch,), how much of it has passed: in steps (int64), or in time.
    """

    signature: Tensor
    filled: Tensor

    @classmethod
    def empty(cls, increments: Tensor, basis: LieBasis, window: "int | Duration") -> "OpenWindow":
        """A window that is about to begin, for increments (batch, length, channels)."""
        batch = increments.shape[0]
        whole = isinstance(window, int)
        filled = increments.new_zeros(
            batch, dtype=torch.int64 if whole else widest(increments.device)
        )
        return cls(increments.new_zeros(batch, basis.size), filled)


@dataclass(frozen=True, eq=False)
class Windows:
    """A part of a path, cut.

    Args:
        signatures: (batch, windows, β), log-signatures, zero past the last window of a path.
        counts: (batch,) int64, how many windows each path has here, an open one included.
        closed: (batch,) int64, how many of them are over.
        open: the window at the end, empty where a window ends there.
    """

    signatures: Tensor
    counts: Tensor
    closed: Tensor
    open: OpenWindow

    @classmethod
    def none(
        cls,
        increments: Tensor,
        basis: LieBasis,
        window: "int | Duration",
        before: OpenWindow | None,
    ) -> "Windows":
        """Those of a path without increments."""
        batch = increments.shape[0]
        counts = increments.new_zeros(batch, dtype=torch.int64)
        opened = before or OpenWindow.empty(increments, basis, window)
        return cls(increments.new_zeros(batch, 0, basis.size), counts, counts, opened)


def cut(
    increments: Tensor,
    basis: LieBasis,
    window: "int | Duration",
    before: OpenWindow | None = None,
    lengths: Tensor | None = None,
) -> Windows:
    """Cut a part of a path into windows.

    Args:
        increments: (batch, length, channels), zero past the end of a path.
        basis: of the log-signatures.
        window: in steps, or in time.
        before: the window that the part before left open.
        lengths: (batch,) int64, the number of increments of each path; None for all.

    Returns:
        The windows; the first of them goes on with the one left open.
    """
    if isinstance(window, int):
        return _cut_by_steps(increments, basis, window, before, lengths)
    return _cut_by_time(increments, basis, window, before, lengths)


def _cut_by_steps(
    increments: Tensor,
    basis: LieBasis,
    window: int,
    before: OpenWindow | None,
    lengths: Tensor | None,
) -> Windows:
    batch, length, channels = increments.shape
    if lengths is None:
        lengths = torch.full((batch,), length, device=increments.device)
    filled = torch.zeros_like(lengths) if before is None else before.filled
    if before is not None and length == 1:
        signatures = torch.nn.functional.pad(increments, (0, basis.size - channels))
    else:
        shifted = increments if before is None else _shift(increments, filled, window)
        signatures = log_signatures(shifted, basis, window)
    signatures = _go_on(signatures, basis, before)
    total = filled + lengths
    counts = (total + window - 1) // window
    closed = total // window
    return Windows(signatures, counts, closed, _left_open(signatures, closed, total % window))


def _shift(increments: Tensor, filled: Tensor, window: int) -> Tensor:
    """Increments moved to the right by what has passed of their first window."""
    length = increments.shape[1]
    unread = torch.compiler.is_compiling() or filled.numel() == 0
    most = window - 1 if unread else int(filled.max())
    if most == 0:
        return increments
    source = torch.arange(length + most, device=increments.device) - filled.unsqueeze(1)
    inside = (source >= 0) & (source < length)
    index = source.clamp(0, length - 1).unsqueeze(-1).expand(-1, -1, increments.shape[-1])
    return increments.gather(1, index) * inside.unsqueeze(-1)


def _cut_by_time(
    increments: Tensor,
    basis: LieBasis,
    window: Duration,
    before: OpenWindow | None,
    lengths: Tensor | None,
) -> Windows:
    filled = None if before is None else before.filled
    signatures, counts, elapsed = log_signatures_in_time(increments, basis, window, filled, lengths)
    closed = counts - (elapsed > 0).to(counts.dtype)
    # No time has passed, but the path may have jumped: its first window is open.
    timeless = counts == 0
    if signatures.shape[1] == 0:
        signatures = signatures.new_zeros(signatures.shape[0], 1, basis.size)
    jump = torch.nn.functional.pad(increments.sum(1), (0, basis.size - basis.channels))
    first = torch.where(timeless.unsqueeze(-1), jump, signatures[:, 0])
    signatures = torch.cat([first.unsqueeze(1), signatures[:, 1:]], 1)
    signatures = _go_on(signatures, basis, before)
    left = _left_open(signatures, closed, elapsed, timeless)
    return Windows(signatures, _at_least_one(counts, lengths), closed, left)


def _at_least_one(counts: Tensor, lengths: Tensor | None) -> Tensor:
    """A window for every path that has an increment, even if no time has passed."""
    return counts.clamp_min(1) if lengths is None else torch.maximum(counts, lengths.clamp_max(1))


def _go_on(signatures: Tensor, basis: LieBasis, before: OpenWindow | None) -> Tensor:
    """Put what came of the first window before in front of it."""
    if before is None:
        return signatures
    first = chen(basis, before.signature.to(signatures.dtype), signatures[:, 0])
    return torch.cat([first.unsqueeze(1), signatures[:, 1:]], 1)


def _left_open(
    signatures: Tensor, closed: Tensor, filled: Tensor, timeless: Tensor | None = None
) -> OpenWindow:
    rows = torch.arange(signatures.shape[0], device=signatures.device)
    last = signatures[rows, closed.clamp_max(signatures.shape[1] - 1)]
    begun = filled > 0 if timeless is None else (filled > 0) | timeless
    return OpenWindow(torch.where(begun.unsqueeze(-1), last, 0.0), filled)


@dataclass(frozen=True, eq=False)
class Ends:
    """Where the windows of a part of a path end.

    Args:
        counts: (batch,) int64, how many windows each path has here, an open one included.
        closed: (batch,) int64, how many of them are over.
        last: (batch, windows) int64, the last increment that is wholly inside each window or before
            it; -1 where that was in the part before.
    """

    counts: Tensor
    closed: Tensor
    last: Tensor


def ends(
    increments: Tensor,
    window: "int | Duration",
    filled: Tensor | None = None,
    lengths: Tensor | None = None,
) -> Ends:
    """Where the windows end that `cut` makes of the same arguments.

    Args:
        increments: (batch, length, channels), zero past the end of a path.
        window: in steps, or in time.
        filled: (batch,), what has passed of the first window.
        lengths: (batch,) int64, the number of increments of each path; None for all.
    """
    batch, length = increments.shape[:2]
    if length == 0:
        none = increments.new_zeros(batch, dtype=torch.int64)
        return Ends(none, none, none.new_zeros(batch, 0))
    if isinstance(window, int):
        if lengths is None:
            lengths = torch.full((batch,), length, device=increments.device)
        filled = torch.zeros_like(lengths) if filled is None else filled
        total = filled + lengths
        counts, closed = (total + window - 1) // window, total // window
        longest = int(filled.max()) if filled.numel() else window - 1
        most = (length + longest + window - 1) // window
        edges = torch.arange(1, most + 1, device=increments.device) * window - filled.unsqueeze(1)
        return Ends(counts, closed, torch.minimum(edges, lengths.unsqueeze(1)) - 1)
    counts, elapsed = window.count(increments, filled, lengths)
    last = window.ends(increments, filled, lengths)
    if last.shape[1] == 0:
        last = torch.full((batch, 1), length - 1, device=increments.device)
    closed = counts - (elapsed > 0).to(counts.dtype)
    return Ends(_at_least_one(counts, lengths), closed, last)
