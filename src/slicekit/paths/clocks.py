"""Time along a path, counted in windows.

Positions are in units of a window, and one that is within `SNAP` of an edge is on it, so that times
such as 0.1 + 0.2 begin no window of nothing. They need float64: where the path's device has none,
time is counted on the CPU.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.checks import (
    Lengths,
    check_floating,
    check_lengths,
    check_shape,
    concrete,
    first_true,
)
from slicekit.descriptions.durations import SNAP, backwards, check_channel, check_windows
from slicekit.devices import widest
from slicekit.paths.lengths import valid_mask


@dataclass(frozen=True, eq=False)
class Clock:
    """Where the increments of a path stand, in units of a window.

    Attributes:
        before, after: (batch, length) float64, positions before and after each increment, perhaps
            on the CPU.
        counts: (batch,) int64, how many windows a path enters, one that is not over included.
        elapsed: (batch,), how much time has passed of the last one; zero if it is over. It is in
            the widest numbers of the path's device, and there, as are counts.
        lengths: (batch,) int64, the number of increments of each path, with before and after.
    """

    before: Tensor
    after: Tensor
    counts: Tensor
    elapsed: Tensor
    lengths: Tensor

    @staticmethod
    def of(
        increments: Tensor,
        time: float,
        channel: int,
        elapsed: Tensor | None,
        lengths: Lengths | None,
    ) -> "Clock":
        """Of increments (batch, length, channels) in windows of `time`.

        Raises:
            TypeError: if increments are not floating or lengths no integers.
            ValueError: if shapes do not fit, the channel is not there, or time goes back.
        """
        check_shape("increments", increments, ("batch", "length", "channels"))
        check_floating("increments", increments)
        batch, length = increments.shape[:2]
        check_channel(channel, increments.shape)
        everything = torch.full((batch,), length)
        given = everything if lengths is None else lengths
        home, wide = increments.device, widest(increments.device)
        ground = home if wide == torch.float64 else torch.device("cpu")
        lengths = check_lengths(given, batch, length, device=ground)
        valid = valid_mask(lengths, length)
        steps = increments[..., channel].to(ground).to(torch.float64).where(valid, 0)
        _check_forward(steps, channel)
        if elapsed is None:
            elapsed = steps.new_zeros(batch)
        check_shape("elapsed", elapsed, (batch,))
        elapsed = elapsed.to(ground).to(torch.float64)
        start = elapsed / time
        passed = torch.nn.functional.pad(steps.cumsum(1), (1, 0)) / time
        positions = _snapped(start[:, None] + passed)
        before, after, end = positions[:, :-1], positions[:, 1:], positions[:, -1]

        # On an edge, a window is open only if a step without time has begun it.
        jumps = (before == end[:, None]) & (after == end[:, None]) & valid
        begun = (jumps & (increments != 0).any(-1).to(ground)).any(1) | ((end == 0) & (elapsed > 0))
        on_edge = end == end.floor()
        counts = (end.ceil() + (on_edge & begun)).to(torch.int64)
        least = torch.finfo(wide).tiny
        rest = torch.where(on_edge, begun.to(end) * least, (end - end.floor()) * time)
        return Clock(before, after, counts.to(home), rest.to(wide).to(home), lengths)

    def most(self) -> int:
        """The largest number of windows of a path, at least one."""
        most = max(1, int(self.counts.max())) if self.counts.numel() else 1
        check_windows(most)
        return most


def _snapped(positions: Tensor) -> Tensor:
    edges = positions.detach().round()
    return torch.where((positions - edges).abs() < SNAP, edges, positions)


def _check_forward(steps: Tensor, channel: int) -> None:
    if not concrete(steps):
        return
    wrong = ~((steps >= 0) & steps.isfinite())
    if wrong.any():
        position = first_true(wrong)
        raise backwards(float(steps[position]), position, channel)
