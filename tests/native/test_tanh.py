"""Hyperbolic tangents of parameters against torch's."""

import pytest
import torch

from slicekit.native import available, reason, tanh
from tests.native.increment_scans import BAD_OPTION, BAD_POINTER, BAD_SIZE, status

pytestmark = pytest.mark.skipif(not available(), reason=f"no native library: {reason()}")

FEW, MANY = (3, 5), (9, 4003)
"""Torch's own, and so many that the kernel has several parts of them, the last not a whole one."""


@pytest.mark.parametrize("shape", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.usefixtures("every_isa", "poisoned_memory")
def test_values_and_gradients_are_those_of_torch(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    source = torch.Generator().manual_seed(0)
    size = 10.0 ** torch.linspace(-12, 2, shape[-1], dtype=torch.float64)
    x = (torch.randn(shape, dtype=torch.float64, generator=source) * size).to(dtype)
    x, cotangent = x.double().requires_grad_(), torch.randn(shape, generator=source).double()
    expected = torch.tanh(x)
    (in_x,) = torch.autograd.grad(expected, x, cotangent)
    y = tanh.forward(x.detach().to(dtype))
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(y.double(), expected, rtol=4 * eps, atol=0)
    found = tanh.pullback(y, cotangent.to(dtype))
    torch.testing.assert_close(found.double(), in_x, rtol=4 * eps, atol=30 * eps)


@pytest.mark.usefixtures("every_isa")
def test_numbers_that_are_none_stay_so_and_infinite_ones_end_at_one() -> None:
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0]).repeat(tanh.FEWEST)
    y = tanh.forward(x)
    assert y[::5].isnan().all()
    assert torch.equal(y[1::5], torch.ones(tanh.FEWEST))
    assert torch.equal(y[2::5], -torch.ones(tanh.FEWEST))
    assert not y[3::5].any() and not y[4::5].any()


def test_what_is_missing_or_unknown_is_refused() -> None:
    room = torch.empty(8)
    held = {"x": room.data_ptr(), "y": room.data_ptr()}
    given = tanh.Tanh(real=4, batch=8, threads=1)
    assert status("slicekit_tanh_forward", given, **held) == 0
    assert status("slicekit_tanh_forward", given, x=held["x"]) == BAD_POINTER
    assert status("slicekit_tanh_forward", given, y=held["y"]) == BAD_POINTER
    assert status("slicekit_tanh_forward", given, **held, real=2) == BAD_OPTION
    assert status("slicekit_tanh_forward", given, **held, batch=-1) == BAD_SIZE
