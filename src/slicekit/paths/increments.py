"""Increments of the path through the observations.

Linear interpolation of ω^X on the grid t_0 < ... < t_n gives the flow
h_{t_{j+1}} = exp(Σ_i (ω^{X,i}_{t_{j+1}} − ω^{X,i}_{t_j}) A^i) h_{t_j}: the path enters only by its
increments Δω. There are as many increments as observations, so that increment l leads to
observation l; the first leads from the start of the path to X_0.
"""

import torch
from torch import Tensor

from slicekit.checks import (
    Lengths,
    check_floating,
    check_lengths,
    check_shape,
    concrete,
    first_true,
    place,
)
from slicekit.paths.gaps import Filling
from slicekit.paths.lengths import mask_past_end, valid_mask
from slicekit.paths.times import check_times


def increments(
    values: Tensor,
    times: Tensor | None = None,
    *,
    origin: bool = False,
    gaps: Filling | None = None,
    lengths: Lengths | None = None,
) -> Tensor:
    """The increments Δω of the path through the observations.

    Args:
        values: (batch, length, channels), the observations X.
        times: strictly increasing, (length,) for all series or (batch, length); time becomes
            channel 0 of the path. Differences are taken in the dtype of the times, so large
            timestamps lose nothing. None leaves time out.
        origin: whether the path starts at the origin, so that the first increment is X_0 itself
            (and t_0); otherwise it starts at X_0, and the first increment is zero.
        gaps: a policy that fills NaN in values (`Linear()`, `LastValue()`, `Causal()`); None says
            that there are no gaps, and NaN raises (where data can be read: not while compiling).
        lengths: (batch,) integers, a tensor or a list: increments past the end of a series are
            exactly zero, whatever stands in the padding.

    Returns:
        (batch, length, d_ω), in the dtype of the values; d_ω is the number of channels (twice that
        with `Causal()`), and one more with times.

    Raises:
        TypeError: if values are not floating, times not real or lengths no integers.
        ValueError: if shapes or devices do not fit, there are no observations, values hold NaN
            without a policy, times do not increase strictly, or a length is out of range.

    >>> values = torch.tensor([[[1.0], [3.0], [2.0]]])
    >>> increments(values).squeeze(-1)
    tensor([[ 0.,  2., -1.]])
    >>> increments(values, origin=True).squeeze(-1)
    tensor([[ 1.,  2., -1.]])
    >>> increments(values, torch.tensor([0.0, 0.5, 2.0]), lengths=[2])
    tensor([[[0.0000, 0.0000],
             [0.5000, 2.0000],
             [0.0000, 0.0000]]])
    """
    check_shape("values", values, ("batch", "length", "channels"))
    check_floating("values", values)
    batch, length, _ = values.shape
    if length == 0:
        raise ValueError(
            f"values has shape {tuple(values.shape)}; expected a length of at least one"
        )
    valid = None
    if lengths is not None:
        lengths = check_lengths(lengths, batch, length, device=values.device)
        valid = valid_mask(lengths, length)
    grid = None if times is None else check_times(times, values, valid)

    if gaps is None:
        _check_no_gaps(values, valid)
    else:
        values = gaps.fill(values, times, lengths)
    steps = _differences(values, origin)
    if grid is not None:
        time_steps = _differences(grid[..., None], origin).to(steps.dtype)
        steps = torch.cat([time_steps.expand(batch, -1, -1), steps], dim=-1)
    return steps if lengths is None else mask_past_end(steps, lengths)


def _differences(path: Tensor, origin: bool) -> Tensor:
    first = path[:, :1]
    return torch.diff(path, dim=1, prepend=torch.zeros_like(first) if origin else first)


def _check_no_gaps(values: Tensor, valid: Tensor | None) -> None:
    # Any NaN makes the sum NaN, and a sum costs a fraction of looking at each value.
    if not concrete(values) or not values.detach().sum().isnan():
        return
    missing = values.isnan()
    if valid is not None:
        missing &= valid[..., None]
    if missing.any():
        where = place(first_true(missing), ("batch", "position", "channel"))
        raise ValueError(
            f"values holds NaN at {where}; if it marks a gap, "
            "say how to fill it: gaps=Linear(), LastValue() or Causal()"
        )
