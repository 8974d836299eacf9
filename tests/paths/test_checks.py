"""Checks say what was given and what was expected, and read data only where they may."""

from collections.abc import Callable

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from slicekit.checks import (
    Lengths,
    Size,
    check_finite,
    check_floating,
    check_lengths,
    check_positive,
    check_range,
    check_same,
    check_shape,
    check_tensor,
    concrete,
)


def test_data_may_be_read_in_plain_code() -> None:
    assert concrete()
    assert concrete(torch.zeros(2), torch.zeros(3))


def test_data_may_not_be_read_where_there_are_none() -> None:
    with FakeTensorMode():
        fake = torch.zeros(2)
    assert not concrete(torch.zeros(2), fake)
    assert not concrete(torch.zeros(2, device="meta"))


def test_data_may_not_be_read_inside_transforms() -> None:
    seen: list[bool] = []

    def square(x: torch.Tensor) -> torch.Tensor:
        seen.append(concrete(x))
        return (x * x).sum()

    torch.func.vmap(square)(torch.ones(2, 3))
    torch.func.grad(square)(torch.ones(3))
    torch.func.jvp(square, (torch.ones(3),), (torch.ones(3),))
    assert seen == [False, False, False]


def test_data_may_not_be_read_while_compiling() -> None:
    def marked(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if concrete(x) else x + 2

    compiled = torch.compile(marked, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.zeros(1)), torch.tensor([2.0]))


@pytest.mark.parametrize(
    "expected",
    [
        ("batch", "length", "channels"),
        (2, 3, 4),
        (2, None, "channels"),
        (..., 4),
        (2, ...),
        (2, ..., 4),
        (2, 3, ..., 4),
        (...,),
    ],
)
def test_shapes_that_fit_pass(expected: tuple[Size, ...]) -> None:
    check_shape("x", torch.zeros(2, 3, 4), expected)


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (("batch", "length"), "(batch, length)"),
        (("batch",), "(batch,)"),
        (("batch", "length", 5), "(batch, length, 5)"),
        ((None, None, 5), "(any, any, 5)"),
        ((..., 5), "(..., 5)"),
        ((3, ...), "(3, ...)"),
        ((2, 3, ..., 3, 4), "(2, 3, ..., 3, 4)"),
        ((), "()"),
    ],
)
def test_shapes_that_do_not_fit_are_named(expected: tuple[Size, ...], words: str) -> None:
    with pytest.raises(ValueError) as error:
        check_shape("increments", torch.zeros(2, 3, 4), expected)
    assert str(error.value) == f"increments has shape (2, 3, 4); expected {words}"


def test_checks_trace_with_symbolic_sizes() -> None:
    def checked(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        check_shape("x", x, (..., "length", 3))
        check_shape("x", x, (x.shape[0], x.shape[1], "channels"))
        check_floating("x", x)
        check_same("x", x, "x", x)
        return x * check_lengths(lengths, x.shape[0], x.shape[1])[:, None, None]

    compiled = torch.compile(checked, backend="eager", fullgraph=True, dynamic=True)
    for batch in (2, 5):
        x, lengths = torch.ones(batch, 4, 3), torch.arange(batch) % 4
        assert torch.equal(compiled(x, lengths), checked(x, lengths))


def test_what_is_no_tensor_is_named() -> None:
    with pytest.raises(TypeError, match=r"^values is a list; expected a torch.Tensor$"):
        check_tensor("values", [1.0])


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_dtypes_that_are_not_floating_are_named(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match=rf"^values has dtype {dtype}; expected a floating dtype"):
        check_floating("values", torch.zeros(2, dtype=dtype))


def test_two_dtypes_or_devices_are_named() -> None:
    single = torch.zeros(2)
    with pytest.raises(TypeError, match=r"a has dtype torch.float64, but b has torch.float32"):
        check_same("a", single.double(), "b", single)
    with pytest.raises(ValueError, match=r"a is on meta, but b is on cpu; expected one device"):
        check_same("a", single.to("meta"), "b", single)
    check_same("a", single, "b", single)


@pytest.mark.parametrize("outside", [-2, 60, 61])
def test_integers_out_of_range_are_located(outside: int) -> None:
    index = torch.zeros(2, 4, dtype=torch.int64)
    index[1, 3] = outside
    message = f"^index holds {outside} at batch 1, position 3; expected -1..59$"
    with pytest.raises(ValueError, match=message):
        check_range("index", index, -1, 59, ("batch", "position"))
    check_range("index", index.to("meta"), -1, 59, ("batch", "position"))


@pytest.mark.parametrize(
    "lengths",
    [[0, 3, 2], (0, 3, 2), torch.tensor([0, 3, 2]), torch.tensor([0, 3, 2], dtype=torch.uint8)],
)
def test_lengths_become_an_integer_tensor(lengths: Lengths) -> None:
    checked = check_lengths(lengths, 3, 3)
    assert checked.dtype == torch.int64
    assert checked.tolist() == [0, 3, 2]


def test_lengths_go_to_the_device() -> None:
    assert check_lengths([1, 2], 2, 3, device=torch.device("meta")).is_meta


def test_lengths_of_an_empty_batch() -> None:
    assert check_lengths([], 0, 3).dtype == torch.int64


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        ([1, 4], ValueError, "lengths holds 4 at batch 1; expected 0..3 for a padded length of 3"),
        ([-1, 3], ValueError, "lengths holds -1 at batch 0; expected 0..3"),
        ([1, 2, 3], ValueError, r"lengths has shape \(3,\); expected \(2,\)"),
        (torch.ones(2, 1), ValueError, r"lengths has shape \(2, 1\); expected \(2,\)"),
        ([1.0, 2.5], TypeError, "lengths has dtype torch.float32; expected integers"),
        ([True, False], TypeError, "lengths has dtype torch.bool; expected integers"),
    ],
)
def test_wrong_lengths_are_named(lengths: Lengths, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_lengths(lengths, 2, 3)


@pytest.mark.parametrize("value", [0, -1, 0.0, float("nan"), float("inf")])
def test_numbers_that_are_not_positive_are_named(value: float) -> None:
    with pytest.raises(ValueError, match=f"^dim={value}; expected a positive number$"):
        check_positive("dim", value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_named(value: float) -> None:
    with pytest.raises(ValueError, match=f"^initial={value}; expected a finite number$"):
        check_finite("initial", value)


@pytest.mark.parametrize("check", [check_finite, check_positive])
@pytest.mark.parametrize("value", ["4", True, None])
def test_what_is_no_number_is_named(check: Callable[[str, object], None], value: object) -> None:
    with pytest.raises(TypeError, match=f"^dim={value!r} is a {type(value).__name__}; expected a "):
        check("dim", value)


def test_numbers_that_fit_pass() -> None:
    check_positive("dim", 3)
    check_positive("dt", 0.025)
    check_finite("initial", -1.5)
