"""Discretisations against the equations they solve, and maps between real and complex vectors."""

import pytest
import torch
from torch import Tensor

from slicekit.mixers.complex_maps import to_complex, to_real
from slicekit.mixers.discretisation import (
    Bilinear,
    StepSizes,
    ZeroOrderHold,
    mean_of_exponential,
)


def random_rates(count: int) -> Tensor:
    return torch.complex(-torch.rand(count), torch.randn(count)).to(torch.complex128)


def test_zero_order_hold_is_the_exponential_of_the_augmented_matrix() -> None:
    rates, steps = random_rates(5), torch.rand(5, dtype=torch.float64)
    transition, gain = ZeroOrderHold().discretise(rates, steps)
    for a, step, moved, driven in zip(rates, steps, transition, gain, strict=True):
        augmented = torch.zeros(2, 2, dtype=torch.complex128)
        augmented[0, 0], augmented[0, 1] = a, 1
        flow = torch.matrix_exp(step * augmented)
        torch.testing.assert_close(torch.stack([moved, driven]), flow[0])


def test_bilinear_solves_the_trapezium_rule() -> None:
    rates, steps = random_rates(5), torch.rand(5, dtype=torch.float64)
    transition, gain = Bilinear().discretise(rates, steps)
    before, x = torch.randn(2, 5, dtype=torch.complex128)
    after = transition * before + gain * x
    torch.testing.assert_close(after, before + steps * (rates * (before + after) / 2 + x))


@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-7, 1e-3, 0.09, 0.11, 1.0, 30.0])
def test_the_mean_of_an_exponential_is_accurate_in_float32_near_zero_and_far(size: float) -> None:
    z = (size * torch.tensor([-1.0, -0.6 + 0.8j, -0.8j])).to(torch.complex64)
    found, exact = z.requires_grad_(), z.detach().to(torch.complex128).requires_grad_()
    mean = mean_of_exponential(found)
    nodes = torch.linspace(0, 1, 20001, dtype=torch.float64)
    expected = torch.trapezoid((exact.unsqueeze(-1) * nodes).exp(), nodes)
    torch.testing.assert_close(mean.to(torch.complex128), expected, rtol=2e-6, atol=2e-7)
    mean.real.sum().backward()
    expected.real.sum().backward()
    assert found.grad is not None and exact.grad is not None
    gradient = found.grad.to(torch.complex128)
    torch.testing.assert_close(gradient, exact.grad, rtol=2e-5, atol=2e-6)


def test_step_sizes_are_log_uniform_and_their_bias_inverts_softplus() -> None:
    steps = StepSizes(1e-3, 1e-1).draw(4000)
    assert steps.min() >= 1e-3 and steps.max() <= 0.1 * (1 + 1e-6)
    assert abs(float((steps < 1e-2).double().mean()) - 0.5) < 0.05
    raised = torch.nn.functional.softplus(StepSizes(1e-6, 1e-1, floor=1e-2).draw_bias(1000))
    assert raised.min() > 0.99e-2


def test_step_sizes_refuse_an_empty_range() -> None:
    with pytest.raises(ValueError, match=r"low=1\.0 is above high=0\.1"):
        StepSizes(1.0, 0.1)


def test_complex_maps_are_complex_matrix_products() -> None:
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    into = torch.randn(5, 4, dtype=torch.complex128)
    out = torch.randn(4, 5, dtype=torch.complex128)
    states = x.to(into.dtype) @ into.mT
    torch.testing.assert_close(to_complex(x, into), states)
    torch.testing.assert_close(to_real(states, out), (states @ out.mT).real)
