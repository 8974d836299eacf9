"""Controls against torchcde's interpolations, in value and gradient."""

import pytest
import torch
from torch import Tensor

from slicekit.mixers.controls import Control, CubicHermite, Linear

CONTROLS = {"linear": Linear(), "cubic": CubicHermite()}


def slopes(control: Control, x: Tensor, s: float | Tensor) -> Tensor:
    """At a fraction of every interval of x (batch, length, channels)."""
    left, right = x[:, :-1], x[:, 1:]
    previous = torch.cat([2 * x[:, :1] - x[:, 1:2], x[:, :-2]], 1)
    return control.derivative(s, previous, left, right)


@pytest.mark.parametrize("name", CONTROLS)
def test_derivatives_are_those_of_torchcde(name: str) -> None:
    torchcde = pytest.importorskip(
        "torchcde", reason="torchcde is a peer; PEERS=1 make test installs it"
    )
    x = torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True)
    if name == "linear":
        path = torchcde.LinearInterpolation(torchcde.linear_interpolation_coeffs(x))
    else:
        path = torchcde.CubicSpline(
            torchcde.hermite_cubic_coefficients_with_backward_differences(x)
        )
    for s in (0.1, 0.5, 0.93):
        found = slopes(CONTROLS[name], x, s)
        times = torch.arange(6, dtype=torch.float64) + s
        expected = torch.stack([path.derivative(t) for t in times], 1)
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)
        weight = torch.randn_like(found)
        torch.testing.assert_close(
            torch.autograd.grad(found, x, weight, retain_graph=True),
            torch.autograd.grad(expected, x, weight, retain_graph=True),
            rtol=1e-11,
            atol=1e-12,
        )


@pytest.mark.parametrize("name", CONTROLS)
def test_the_path_goes_through_the_observations(name: str) -> None:
    """Simpson's rule is exact for a quadratic derivative."""
    x = torch.randn(2, 7, 3, dtype=torch.float64)
    at = [slopes(CONTROLS[name], x, s) for s in (0.0, 0.5, 1.0)]
    torch.testing.assert_close((at[0] + 4 * at[1] + at[2]) / 6, x.diff(dim=1))


def test_the_cubic_path_has_no_kinks() -> None:
    x = torch.randn(2, 7, 3, dtype=torch.float64)
    ends, starts = slopes(CubicHermite(), x, 1.0), slopes(CubicHermite(), x, 0.0)
    torch.testing.assert_close(ends[:, :-1], starts[:, 1:])


def test_fractions_may_differ_from_sequence_to_sequence() -> None:
    x = torch.randn(2, 7, 3, dtype=torch.float64)
    s = torch.tensor([0.2, 0.7], dtype=torch.float64)
    both = slopes(CubicHermite(), x, s[:, None, None])
    apart = [slopes(CubicHermite(), x[b : b + 1], float(s[b])) for b in range(2)]
    torch.testing.assert_close(both, torch.cat(apart))
