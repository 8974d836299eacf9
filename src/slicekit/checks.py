"""Checks at the boundary: each raises once, where the user's value enters, in the user's words.

Shapes and dtypes are always checked. Checks that must read the data (NaN, order of times, ranges of
indices) are made only when the data are there to be read, see `concrete`; ranges of indices only on
the CPU, so that no device has to wait for its host.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._C._functorch import peek_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensor

from slicekit.descriptions.checks import (
    Size,
    check_finite,
    check_positive,
    check_sizes,
    check_whole,
    place,
)

__all__ = [
    "HALF",
    "Lengths",
    "check_finite",
    "check_floating",
    "check_lengths",
    "check_positive",
    "check_range",
    "check_same",
    "check_same_device",
    "check_shape",
    "check_tensor",
    "check_whole",
    "concrete",
    "first_true",
    "place",
]

HALF = (torch.bfloat16, torch.float16)
"""Dtypes in which recurrences are not computed: they are carried out in float32."""

Lengths: TypeAlias = Tensor | Sequence[int]


def concrete(*tensors: Tensor) -> bool:
    """Whether the data of all tensors may be read here.

    They may not while `torch.compile` or `torch.export` traces, inside the transforms of
    `torch.func`, nor for fake and meta tensors, which have none.

    >>> concrete(torch.zeros(2)), concrete(torch.zeros(2), torch.zeros(2, device="meta"))
    (True, False)
    """
    if torch.compiler.is_compiling():
        return False
    if peek_interpreter_stack() is not None:
        return False
    return not any(tensor.is_meta or isinstance(tensor, FakeTensor) for tensor in tensors)


def first_true(mask: Tensor) -> tuple[int, ...]:
    """The first position at which a boolean tensor is true.

    >>> first_true(torch.tensor([[False, False], [False, True]]))
    (1, 1)
    """
    return tuple(mask.nonzero()[0].tolist())


def check_tensor(name: str, value: object) -> None:
    """Raise TypeError unless the value is a tensor.

    >>> check_tensor("values", [1.0])
    Traceback (most recent call last):
    TypeError: values is a list; expected a torch.Tensor
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}; expected a torch.Tensor")


def check_shape(name: str, tensor: Tensor, expected: tuple[Size, ...]) -> None:
    """Raise ValueError unless the tensor has the expected shape (TypeError if it is no tensor).

    Args:
        name: the argument's name, as the user knows it.
        tensor: what was given.
        expected: one entry per axis: a size, or a name or None for any size. One `...` may stand
            for any number of axes.

    >>> check_shape("increments", torch.zeros(3, 4), ("batch", "length", "channels"))
    Traceback (most recent call last):
    ValueError: increments has shape (3, 4); expected (batch, length, channels)
    >>> check_shape("state", torch.zeros(3, 4), (..., 4))
    """
    check_tensor(name, tensor)
    check_sizes(name, tuple(tensor.shape), expected)


def check_floating(name: str, tensor: Tensor) -> None:
    """Raise TypeError unless the tensor has a real floating dtype.

    >>> check_floating("values", torch.arange(3))
    Traceback (most recent call last):
    TypeError: values has dtype torch.int64; expected a floating dtype such as torch.float32
    """
    check_tensor(name, tensor)
    if not tensor.is_floating_point():
        raise TypeError(
            f"{name} has dtype {tensor.dtype}; expected a floating dtype such as torch.float32"
        )


def check_same_device(name_a: str, a: Tensor, name_b: str, b: Any) -> None:
    """Raise ValueError unless both, tensors or what is made of them, are on one device.

    >>> check_same_device("index", torch.zeros(2, device="meta"), "table", torch.zeros(2))
    Traceback (most recent call last):
    ValueError: index is on meta, but table is on cpu; expected one device
    """
    if a.device != b.device:
        raise ValueError(
            f"{name_a} is on {a.device}, but {name_b} is on {b.device}; expected one device"
        )


def check_same(name_a: str, a: Tensor, name_b: str, b: Tensor) -> None:
    """Raise TypeError unless both tensors have one dtype, ValueError unless one device.

    >>> check_same("inputs", torch.zeros(2).double(), "increments", torch.zeros(2))
    Traceback (most recent call last):
    TypeError: inputs has dtype torch.float64, but increments has torch.float32; expected one dtype
    """
    if a.dtype != b.dtype:
        raise TypeError(
            f"{name_a} has dtype {a.dtype}, but {name_b} has {b.dtype}; expected one dtype"
        )
    check_same_device(name_a, a, name_b, b)


def check_range(
    name: str, index: Tensor, low: int, high: int, axes: Sequence[str], because: str = ""
) -> None:
    """Raise ValueError where an integer leaves low..high; read only if concrete and on the CPU.

    Args:
        name: the argument's name, as the user knows it.
        index: integers, one axis for each name in `axes`.
        low: the smallest allowed value.
        high: the largest allowed value.
        axes: names of the axes, for the message.
        because: words that explain the range, for the message.

    >>> tokens = torch.tensor([[3, 61]])
    >>> check_range("index", tokens, -1, 59, ("batch", "position"), "for a table of 60 rows")
    Traceback (most recent call last):
    ValueError: index holds 61 at batch 0, position 1; expected -1..59 for a table of 60 rows
    """
    if not concrete(index) or index.device.type != "cpu" or index.numel() == 0:
        return
    smallest, largest = index.aminmax()
    if smallest >= low and largest <= high:
        return
    position = first_true((index < low) | (index > high))
    message = f"{name} holds {int(index[position])} at {place(position, axes)}"
    raise ValueError(f"{message}; expected {low}..{high} {because}".rstrip())


def check_lengths(
    lengths: Lengths,
    batch: int | None,
    length: int,
    *,
    device: torch.device | None = None,
) -> Tensor:
    """The lengths of a padded batch as an int64 tensor, checked.

    Args:
        lengths: (batch,) integers in 0..length, a tensor or a list; 0 is an empty series, all
            identity. Values are read only if concrete and on the CPU.
        batch: the size of the batch, or None for any.
        length: the padded length.
        device: where to put the result; None leaves it where it is.

    Returns:
        (batch,) int64.

    Raises:
        TypeError: if the lengths are no integers.
        ValueError: if their shape is not (batch,), or one of them is out of range.

    >>> check_lengths([3, 0], batch=2, length=4)
    tensor([3, 0])
    >>> check_lengths([3, 5], batch=2, length=4)
    Traceback (most recent call last):
    ValueError: lengths holds 5 at batch 1; expected 0..4 for a padded length of 4
    """
    given = torch.as_tensor(lengths)
    check_shape("lengths", given, ("batch" if batch is None else batch,))
    fractional = given.is_floating_point() or given.is_complex() or given.dtype == torch.bool
    if fractional and given.numel() > 0:
        raise TypeError(f"lengths has dtype {given.dtype}; expected integers")
    given = given.to(torch.int64)
    check_range("lengths", given, 0, length, ("batch",), f"for a padded length of {length}")
    return given.to(device)
