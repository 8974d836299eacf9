"""Checks at the boundary, as `slicekit.checks` makes them of tensors: the same words for arrays.

Shapes and dtypes are always checked, under `jax.jit` while it traces. Checks that must read the
data are made only where there are data to read, see `concrete`.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from slicekit.descriptions.checks import Size, check_sizes, place

HALF = (jnp.bfloat16, jnp.float16)
"""Dtypes in which recurrences are not computed: they are carried out in float32."""

Lengths: TypeAlias = Array | np.ndarray | Sequence[int]


def is_half(dtype: Any) -> bool:
    """Whether a dtype is one of `HALF`."""
    return any(dtype == half for half in HALF)


def concrete(*arrays: Any) -> bool:
    """Whether the data of all arrays may be read here, and not only their shapes.

    >>> concrete(jnp.zeros(2)), jax.eval_shape(lambda x: jnp.ones(int(concrete(x))), 1.0).shape
    (True, (0,))
    """
    return not any(isinstance(x, Tracer) for x in arrays)


def check_array(name: str, value: object) -> None:
    """Raise TypeError unless the value is an array.

    >>> check_array("values", [1.0])
    Traceback (most recent call last):
    TypeError: values is a list; expected a jax.Array
    """
    if not isinstance(value, jax.Array | np.ndarray):
        raise TypeError(f"{name} is a {type(value).__name__}; expected a jax.Array")


def check_shape(name: str, array: Any, expected: tuple[Size, ...]) -> None:
    """Raise ValueError unless the array has the expected shape (TypeError if it is no array)."""
    check_array(name, array)
    check_sizes(name, tuple(array.shape), expected)


def check_floating(name: str, array: Any) -> None:
    """Raise TypeError unless the array has a real floating dtype.

    >>> check_floating("values", jnp.arange(3))
    Traceback (most recent call last):
    TypeError: values has dtype int32; expected a floating dtype such as float32
    """
    check_array(name, array)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(
            f"{name} has dtype {array.dtype}; expected a floating dtype such as float32"
        )


def check_same(name_a: str, a: Any, name_b: str, b: Any) -> None:
    """Raise TypeError unless both arrays have one dtype."""
    if a.dtype != b.dtype:
        raise TypeError(
            f"{name_a} has dtype {a.dtype}, but {name_b} has {b.dtype}; expected one dtype"
        )


def check_range(
    name: str, index: Any, low: int, high: int, axes: Sequence[str], because: str = ""
) -> None:
    """Raise ValueError where an integer leaves low..high; read only if concrete and on the CPU.

    >>> check_range("index", jnp.array([[3, 61]]), -1, 59, ("batch", "position"))
    Traceback (most recent call last):
    ValueError: index holds 61 at batch 0, position 1; expected -1..59
    """
    if not concrete(index) or index.size == 0 or not _on_cpu(index):
        return
    numbers = np.asarray(index)
    wrong = (numbers < low) | (numbers > high)
    if not wrong.any():
        return
    position = tuple(int(i) for i in np.argwhere(wrong)[0])
    message = f"{name} holds {int(numbers[position])} at {place(position, axes)}"
    raise ValueError(f"{message}; expected {low}..{high} {because}".rstrip())


def check_lengths(lengths: Lengths, batch: int | None, length: int) -> Array:
    """The lengths of a padded batch as an integer array, checked.

    Args:
        lengths: (batch,) integers in 0..length; 0 is an empty series, all identity.
        batch: the size of the batch, or None for any.
        length: the padded length.

    Returns:
        (batch,) integers.

    Raises:
        TypeError: if the lengths are no integers.
        ValueError: if their shape is not (batch,), or one of them is out of range.

    >>> check_lengths([3, 5], batch=2, length=4)
    Traceback (most recent call last):
    ValueError: lengths holds 5 at batch 1; expected 0..4 for a padded length of 4
    """
    given = jnp.asarray(lengths)
    check_shape("lengths", given, ("batch" if batch is None else batch,))
    if given.size == 0:
        return given.astype(int)
    if not jnp.issubdtype(given.dtype, jnp.integer):
        raise TypeError(f"lengths has dtype {given.dtype}; expected integers")
    check_range("lengths", given, 0, length, ("batch",), f"for a padded length of {length}")
    return given.astype(int)


def _on_cpu(array: Any) -> bool:
    return isinstance(array, np.ndarray) or all(d.platform == "cpu" for d in array.devices())
