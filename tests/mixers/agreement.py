"""How closely a mixer and something independent must agree, in values and in gradients."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

Forward = Callable[[], Sequence[Tensor]]
Leaf = Tensor | tuple[Tensor, Tensor]


def relative_error(found: Tensor, expected: Tensor) -> float:
    """Largest difference, in sizes of the largest entry that was expected."""
    assert found.shape == expected.shape
    scale = expected.abs().max().clamp_min(torch.finfo(expected.dtype).tiny)
    return ((found - expected).abs().max() / scale).item()


def assert_agrees(
    found: Forward, expected: Forward, leaves: Mapping[str, Leaf], tolerance: float
) -> None:
    """Two computations give equal tensors, and equal gradients of one random functional.

    Args:
        found: the first computation.
        expected: the other.
        leaves: what to differentiate by, under the names to complain with: a tensor that both
            computations use, or that of the one and that of the other.
        tolerance: the largest relative error.
    """
    errors: dict[str, float] = {}
    results = list(found()), list(expected())
    for place, (one, other) in enumerate(zip(*results, strict=True)):
        errors[f"output {place}"] = relative_error(one, other)
    cotangents = [torch.randn_like(x) for x in results[1]]
    pairs = [leaf if isinstance(leaf, tuple) else (leaf, leaf) for leaf in leaves.values()]
    gradients = [
        torch.autograd.grad(outputs, [pair[side] for pair in pairs], cotangents)
        for side, outputs in enumerate(results)
    ]
    for name, one, other in zip(leaves, *gradients, strict=True):
        assert other.any(), f"the gradient of {name} shows nothing"
        errors[f"gradient of {name}"] = relative_error(one, other)
    wrong = {name: error for name, error in errors.items() if not error <= tolerance}
    assert not wrong, f"relative errors above {tolerance:.0e}: {wrong}"


def shared_leaves(**tensors: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """Leaves that both computations use."""
    return {name: (x, x) for name, x in tensors.items()}
