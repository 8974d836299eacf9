"""Comparison of a mixer with something independent, in values and in gradients."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Forward = Callable[[], tuple[Tensor, ...]]


def relative_error(found: Tensor, expected: Tensor) -> float:
    """The distance relative to the expected size."""
    difference = (found - expected).detach().norm()
    return float(difference / expected.detach().norm().clamp_min(1e-30))


def assert_agrees(
    found: Forward,
    expected: Forward,
    leaves: Mapping[str, tuple[Tensor, Tensor]],
    tolerance: float,
) -> None:
    """Two computations give equal tensors, and equal gradients of one random functional.

    Args:
        found: the first computation.
        expected: the other.
        leaves: what to differentiate by, its tensor in the one and in the other computation.
        tolerance: the largest relative error.
    """
    results = found(), expected()
    for place, (one, other) in enumerate(zip(*results, strict=True)):
        error = relative_error(one, other)
        assert error <= tolerance, f"output {place}: relative error {error:.1e}"
    cotangents = [torch.randn_like(x) for x in results[1]]
    gradients = [
        torch.autograd.grad(outputs, [pair[side] for pair in leaves.values()], cotangents)
        for side, outputs in enumerate(results)
    ]
    for name, one, other in zip(leaves, *gradients, strict=True):
        error = relative_error(one, other)
        assert error <= tolerance, f"gradient of {name}: relative error {error:.1e}"


def shared_leaves(**tensors: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """Leaves that both computations use."""
    return {name: (x, x) for name, x in tensors.items()}
