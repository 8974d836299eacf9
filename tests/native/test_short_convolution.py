"""The short convolution's kernel against torch's conv1d, in values and all gradients."""

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit.mixers.convolution import (
    ShortConvolution,
    in_torch,
    short_convolution,
)
from slicekit.native import available, library, reason
from slicekit.native.sequences import SHORT_CONVOLUTION, no_convolution
from slicekit.native.sequences import ShortConvolution as Task
from tests.operator_checks import check_operators

pytestmark = [
    pytest.mark.skipif(not available(), reason=f"no native library: {reason()}"),
    pytest.mark.usefixtures("poisoned_memory"),
]

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 2e-6, torch.float64: 4e-15}
OK, BAD_SIZE, BAD_POINTER, BAD_OPTION, BAD_WORKSPACE = range(5)


def problem(
    batch: int, length: int, channels: int, size: int, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """x, window, weight and bias."""
    shapes = (
        (batch, length, channels),
        (batch, size - 1, channels),
        (channels, 1, size),
        (channels,),
    )
    return [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes]


def convolved(operands: Sequence[Tensor], activation: bool, run: Any = short_convolution) -> Tensor:
    """Of three operands or, with a bias, four."""
    x, window, weight, *bias = operands
    return run(x, window, weight, bias[0] if bias else None, activation)


def agrees_with_torch(operands: list[Tensor], bias: bool, activation: bool) -> None:
    """Values and gradients are those of conv1d in double precision."""
    operands = operands if bias else operands[:3]
    found, expected = [], []
    gradient = torch.randn_like(operands[0])
    for run, place in ((short_convolution, found), (in_torch, expected)):
        wide = torch.float64 if place is expected else gradient.dtype
        leaves = [x.to(wide, copy=True).requires_grad_() for x in operands]
        y = convolved(leaves, activation, run)
        place += [y.detach(), *torch.autograd.grad(y, leaves, gradient.to(wide))]
    for x, true in zip(found, expected, strict=True):
        assert x.shape == true.shape
        if x.numel():
            bound = TOLERANCE[x.dtype] * true.abs().max().clamp(min=1)
            assert (x - true).abs().max() <= bound


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", [False, True], ids=["plain", "silu"])
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_it_is_the_convolution_of_torch(
    size: int, bias: bool, activation: bool, dtype: torch.dtype
) -> None:
    for batch, length, channels in [(1, 1, 1), (2, 2, 3), (2, 9, 13), (1, 20, 16)]:
        agrees_with_torch(problem(batch, length, channels, size, dtype), bias, activation)


def test_many_channels_are_cut_into_pieces() -> None:
    agrees_with_torch(problem(2, 5, 1030, 4, torch.float32), True, True)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("channels", [5, 70])
def test_threads_change_no_bit(batch: int, channels: int) -> None:
    operands, before = problem(batch, 11, channels, 4, torch.float32), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            (y,) = SHORT_CONVOLUTION.forward(True, operands)
            found.append([y, *SHORT_CONVOLUTION.backward(True, operands, [y], [y], [])])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


def test_gradcheck_to_second_order() -> None:
    leaves = [x.requires_grad_() for x in problem(2, 5, 3, 4)]
    for activation in (False, True):
        run = partial(short_convolution, activation=activation)
        torch.autograd.gradcheck(run, leaves)
        torch.autograd.gradgradcheck(run, leaves)


@pytest.mark.parametrize("dtype", DTYPES)
def test_silu_keeps_its_limits(dtype: torch.dtype) -> None:
    """Where e^x over- and underflows, value and slope are those of torch."""
    x = torch.tensor([-1e4, -800.0, -88.6, -88.0, 0.0, 88.6, 800.0, 1e4], dtype=dtype)
    x = x.reshape(1, -1, 1).requires_grad_()
    one, none = torch.ones(1, 1, 1, dtype=dtype), torch.zeros(1, 0, 1, dtype=dtype)
    y = short_convolution(x, none, one, None, True)
    true = torch.nn.functional.silu(x)
    torch.testing.assert_close(y, true, atol=1e-35, rtol=1e-6)
    slopes = (torch.autograd.grad(z.sum(), x)[0] for z in (y, true))
    torch.testing.assert_close(*slopes, atol=1e-35, rtol=1e-6)


@pytest.mark.parametrize("activation", [False, True])
def test_parts_make_the_whole(activation: bool) -> None:
    convolution = ShortConvolution(5, 4, activation=activation).double()
    x = torch.randn(2, 11, 5, dtype=torch.float64)
    whole, last = convolution(x, convolution.window(2, x))
    window, outputs = convolution.window(2, x), []
    for part in x.split([1, 1, 6, 3], 1):
        y, window = convolution(part, window)
        outputs.append(y)
    torch.testing.assert_close(torch.cat(outputs, 1), whole, rtol=0, atol=1e-15)
    assert torch.equal(window, last)


def test_the_window_is_that_of_the_last_elements_that_count() -> None:
    convolution, lengths = ShortConvolution(2, 4), torch.tensor([0, 1, 5])
    x, before = torch.randn(3, 5, 2), torch.randn(3, 3, 2)
    after = convolution(x, before, lengths)[1]
    for i, length in enumerate(lengths.tolist()):
        assert torch.equal(after[i], torch.cat([before[i], x[i, :length]])[-3:])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    operands = problem(2, 6, 3, 4, dtype)
    y = convolved(operands, True)
    assert torch.equal(y, convolved([x.float() for x in operands], True).to(dtype))


def test_empty_batches_have_empty_results() -> None:
    operands = problem(0, 5, 3, 4)
    (y,) = SHORT_CONVOLUTION.forward(False, operands)
    gradients = SHORT_CONVOLUTION.backward(False, operands, [y], [y], [])
    assert y.shape == (0, 5, 3)
    for gradient, x in zip(gradients, operands, strict=True):
        assert gradient is not None and gradient.shape == x.shape and not gradient.any()


def test_strides_make_no_difference() -> None:
    operands = problem(2, 6, 5, 3)
    turned = [x.mT.contiguous().mT for x in operands[:3]]
    assert torch.equal(convolved(turned, False), convolved(operands[:3], False))


def test_the_operators_are_sound() -> None:
    x, window, weight, bias = problem(2, 7, 3, 4)
    for constant in (None, bias):
        moved = x.clone().requires_grad_()
        check_operators(
            lambda x=moved, b=constant: (
                short_convolution(x, window, weight, b, True).sum().backward()
            )
        )


def loss(x: Tensor, window: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A number that depends on all outputs."""
    return short_convolution(x, window, weight, bias, True).square().sum()


def test_a_compiled_graph_holds_it_whole() -> None:
    leaves = [x.requires_grad_() for x in problem(2, 10, 3, 4)]
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(*leaves), leaves)
    expected = torch.autograd.grad(loss(*leaves), leaves)
    assert all(torch.allclose(x, y) for x, y in zip(found, expected, strict=True))
    with torch.no_grad():
        assert torch.allclose(compiled(*leaves), loss(*leaves))


def test_vmap_and_grad_go_through() -> None:
    operands, every = problem(2, 4, 3, 4), (0, 1, 2, 3)
    stacked = [torch.stack([x, x / 2]) for x in operands]
    found = torch.vmap(torch.func.grad(loss, every))(*stacked)
    leaves = [(x / 2).requires_grad_() for x in operands]
    expected = torch.autograd.grad(loss(*leaves), leaves)
    assert all(torch.allclose(x[1], y) for x, y in zip(found, expected, strict=True))


def test_it_is_used_where_it_applies() -> None:
    assert not no_convolution(torch.zeros(1, 2, 3)) and not no_convolution(
        torch.zeros(1, 2, 3).double()
    )
    assert no_convolution(torch.zeros(1, 0, 3))
    assert no_convolution(torch.zeros(1, 2, 3, dtype=torch.bfloat16))
    assert no_convolution(torch.zeros(1, 2, 3, device="meta"))
    operands = problem(1, 4, 3, 4)
    assert torch.equal(convolved(operands, True), SHORT_CONVOLUTION.forward(True, operands)[0])


def status(direction: str, spare: Any = 0, **changed: Any) -> int:
    """What a pass returns for a small sound problem with some of the task changed."""
    found = library()
    assert found is not None
    operands = problem(1, 5, 3, 4)
    arrays = dict(zip(Task.operands, operands, strict=True))
    arrays |= {f"in_{name}": x.clone() for name, x in arrays.items()}
    arrays |= {"outputs": operands[0].clone(), "in_outputs": operands[0]}
    task = Task(real=8, batch=1, length=5, channels=3, size=4, activation=1, threads=1)
    for name, x in arrays.items():
        setattr(task, name, x.data_ptr())
    for name, value in changed.items():
        setattr(task, name, value)
    measure = found.c.slicekit_short_convolution_work
    run = getattr(found.c, f"slicekit_short_convolution_{direction}")
    measure.restype = run.restype = ctypes.c_int64
    needed = measure(ctypes.byref(task))
    work = torch.empty(max(needed, 1), dtype=torch.uint8)
    if "work" not in changed:
        task.work = work.data_ptr()
    task.work_bytes = needed + spare
    return run(ctypes.byref(task))


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_faults_are_named(direction: str) -> None:
    assert status(direction) == OK
    assert status(direction, bias=None, in_bias=None) == OK
    assert status(direction, batch=0, x=None) == OK
    assert status(direction, real=2) == BAD_OPTION
    assert status(direction, activation=2) == BAD_OPTION
    for wrong in ({"batch": -1}, {"length": 0}, {"channels": 0}, {"size": 0}, {"threads": 0}):
        assert status(direction, **wrong) == BAD_SIZE
    for wrong in ({"threads": 10**6}, {"batch": 2**62}, {"channels": 2**39, "size": 2**39}):
        assert status(direction, **wrong) == BAD_SIZE
    for name in ("x", "window", "weight", "work"):
        assert status(direction, **{name: None}) == BAD_POINTER
    assert status(direction, spare=-1) == BAD_WORKSPACE


def test_each_pass_needs_its_results() -> None:
    assert status("forward", outputs=None) == BAD_POINTER
    for name in ("in_outputs", "in_x", "in_window", "in_weight"):
        assert status("backward", **{name: None}) == BAD_POINTER
        assert status("forward", **{name: None}) == OK


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("window", ((1, 3, 8), (1, 1, 8), (8, 1, 4), (8,))),
        ("window", ((3, 3, 8), (1, 3, 8), (8, 1, 4), (8,))),
        ("weight", ((1, 3, 8), (1, 3, 8), (4, 1, 4), (8,))),
        ("bias", ((1, 3, 8), (1, 3, 8), (8, 1, 4), (1,))),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    name: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    x, window, weight, bias = (torch.ones(shape) for shape in shapes)
    with pytest.raises(ValueError, match=f"{name} has shape"):
        short_convolution(x, window, weight, bias)
