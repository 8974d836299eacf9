"""Times of observations, and time as the first channel of a path.

With time as a channel, d_ω = channels + 1. A path (t, X) never retraces itself, so its signature,
and with it the states it can drive, tells any two series apart that differ by more than a shift.
"""

import torch
from torch import Tensor

from slicekit.checks import (
    Lengths,
    check_floating,
    check_lengths,
    check_positive,
    check_same_device,
    check_shape,
    check_tensor,
    concrete,
    first_true,
    place,
)
from slicekit.paths.lengths import valid_mask


def with_time(
    values: Tensor, times: Tensor | float | None = None, *, lengths: Lengths | None = None
) -> Tensor:
    """Prepend time as channel 0.

    Args:
        values: (batch, length, channels).
        times: strictly increasing, (length,) for all series or (batch, length); or the step of a
            regular grid that starts at 0; None is a step of one.
        lengths: (batch,) integers, a tensor or a list: times past the end are not checked.

    Returns:
        (batch, length, channels + 1), in the dtype of the values.

    Raises:
        TypeError: if values are not floating, times not real, or the step is no number.
        ValueError: if shapes or devices do not fit, times do not increase strictly (also once they
            are in the dtype of the values), or a step is not positive.

    >>> with_time(torch.tensor([[[5.0], [7.0]]]), torch.tensor([0.0, 0.5]))
    tensor([[[0.0000, 5.0000],
             [0.5000, 7.0000]]])
    >>> with_time(torch.tensor([[[5.0], [7.0]]]), 0.25)
    tensor([[[0.0000, 5.0000],
             [0.2500, 7.0000]]])
    """
    check_shape("values", values, ("batch", "length", "channels"))
    check_floating("values", values)
    batch, length, _ = values.shape
    if isinstance(times, Tensor):
        valid = None
        if lengths is not None:
            valid = valid_mask(check_lengths(lengths, batch, length, device=values.device), length)
        grid = check_times(times, values, valid).to(values.dtype)
        _check_strict(times.to(values.dtype), valid, f" in {values.dtype}, the dtype of values")
    else:
        step = 1.0 if times is None else times
        check_positive("times", step)
        grid = torch.arange(length, dtype=values.dtype, device=values.device)[None] * step
    return torch.cat([grid[..., None].expand(batch, length, 1), values], dim=-1)


def check_times(times: Tensor, values: Tensor, valid: Tensor | None = None) -> Tensor:
    """Check the times of observations, and give them a batch axis.

    Args:
        times: (length,) for all series or (batch, length), of any real dtype.
        values: (batch, length, channels), what was observed.
        valid: (batch, length) bool, false where there is only padding; None is true everywhere.

    Returns:
        (1, length) or (batch, length), in the dtype of the times.

    Raises:
        TypeError: if times are not real numbers.
        ValueError: if the shape or device does not fit the values, or times do not increase
            strictly to finite values within a series.

    >>> check_times(torch.tensor([0.0, 2.0, 2.0]), torch.zeros(1, 3, 1))
    Traceback (most recent call last):
    ValueError: times must increase strictly: 2.0 at position 2 comes after 2.0
    """
    batch, length, _ = values.shape
    check_tensor("times", times)
    if times.shape not in ((length,), (batch, length)):
        raise ValueError(
            f"times has shape {tuple(times.shape)}; expected ({length},) or ({batch}, {length})"
        )
    if times.is_complex() or times.dtype == torch.bool:
        raise TypeError(f"times has dtype {times.dtype}; expected real numbers")
    check_same_device("times", times, "values", values)
    _check_strict(times, valid)
    return times if times.dim() == 2 else times[None]


def _check_strict(times: Tensor, valid: Tensor | None, where: str = "") -> None:
    if not concrete(times):
        return
    axes = ("batch", "position")[2 - times.dim() :]
    wrong = ~times.isfinite()
    wrong[..., 1:] |= times[..., 1:] <= times[..., :-1]
    if valid is not None:
        wrong &= valid if times.dim() == 2 else valid.any(dim=0)
    if not wrong.any():
        return
    position = first_true(wrong)
    time = times[position].item()
    message = f"times must increase strictly{where}: {time} at {place(position, axes)}"
    if not times[position].isfinite():
        raise ValueError(f"{message} is not finite")
    before = times[(*position[:-1], position[-1] - 1)].item()
    raise ValueError(f"{message} comes after {before}")
