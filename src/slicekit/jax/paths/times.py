"""Times of observations, and time as the first channel of a path."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from slicekit.descriptions.checks import check_positive, place
from slicekit.jax.checks import (
    Lengths,
    check_array,
    check_floating,
    check_lengths,
    check_shape,
    concrete,
)
from slicekit.jax.paths.lengths import valid_mask


def with_time(
    values: Array, times: Array | float | None = None, *, lengths: Lengths | None = None
) -> Array:
    """Prepend time as channel 0.

    Args:
        values: (batch, length, channels).
        times: strictly increasing, (length,) for all series or (batch, length); or the step of a
            regular grid that starts at 0; None is a step of one.
        lengths: (batch,) integers: times past the end are not checked.

    Returns:
        (batch, length, channels + 1), in the dtype of the values.

    >>> with_time(jnp.array([[[5.0], [7.0]]]), 0.25)
    Array([[[0.  , 5.  ],
            [0.25, 7.  ]]], dtype=float32)
    """
    check_shape("values", values, ("batch", "length", "channels"))
    check_floating("values", values)
    batch, length, _ = values.shape
    if times is not None and not isinstance(times, int | float):
        valid = None
        if lengths is not None:
            valid = valid_mask(check_lengths(lengths, batch, length), length)
        grid = check_times(times, values, valid).astype(values.dtype)
        _check_strict(grid, valid, f" in {values.dtype}, the dtype of values")
    else:
        step = 1.0 if times is None else times
        check_positive("times", step)
        grid = jnp.arange(length, dtype=values.dtype)[None] * step
    return jnp.concatenate([jnp.broadcast_to(grid[..., None], (batch, length, 1)), values], -1)


def check_times(times: Array, values: Array, valid: Array | None = None) -> Array:
    """Check the times of observations, and give them a batch axis.

    >>> check_times(jnp.array([0.0, 2.0, 2.0]), jnp.zeros((1, 3, 1)))
    Traceback (most recent call last):
    ValueError: times must increase strictly: 2.0 at position 2 comes after 2.0
    """
    batch, length, _ = values.shape
    check_array("times", times)
    if times.shape not in ((length,), (batch, length)):
        raise ValueError(
            f"times has shape {tuple(times.shape)}; expected ({length},) or ({batch}, {length})"
        )
    if jnp.issubdtype(times.dtype, jnp.complexfloating) or times.dtype == bool:
        raise TypeError(f"times has dtype {times.dtype}; expected real numbers")
    _check_strict(times, valid)
    return times if times.ndim == 2 else times[None]


def _check_strict(times: Array, valid: Array | None, where: str = "") -> None:
    if not concrete(times) or (valid is not None and not concrete(valid)):
        return
    numbers = np.asarray(times)
    wrong = ~np.isfinite(numbers)
    wrong[..., 1:] |= numbers[..., 1:] <= numbers[..., :-1]
    if valid is not None:
        mask = np.asarray(valid)
        wrong &= mask if wrong.shape == mask.shape else mask.any(0)
    if not wrong.any():
        return
    position = tuple(int(i) for i in np.argwhere(wrong)[0])
    axes = ("batch", "position")[2 - numbers.ndim :]
    message = f"times must increase strictly{where}: {numbers[position]} at {place(position, axes)}"
    if not np.isfinite(numbers[position]):
        raise ValueError(f"{message} is not finite")
    before = numbers[(*position[:-1], position[-1] - 1)]
    raise ValueError(f"{message} comes after {before}")
