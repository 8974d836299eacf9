"""Other people's implementations, and how closely two implementations must agree."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor


def fla_naive(operation: str) -> Any:
    """The reference functions of an operation of flash-linear-attention.

    The file is loaded by itself: the package can't be imported without its compiler of kernels.
    """
    found = find_spec("fla")
    if found is None or not found.submodule_search_locations:
        pytest.skip("flash-linear-attention is a peer; PEERS=1 make test installs it")
    path = Path(found.submodule_search_locations[0]) / "ops" / operation / "naive.py"
    spec = spec_from_file_location(f"fla_naive_{path.parent.name}", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def relative_error(found: Tensor, expected: Tensor) -> float:
    """Largest difference, in sizes of the largest entry that was expected."""
    assert found.shape == expected.shape
    scale = expected.abs().max().clamp_min(torch.finfo(expected.dtype).tiny)
    return ((found - expected).abs().max() / scale).item()


def assert_agree(
    ours: Callable[[], Sequence[Tensor]],
    theirs: Callable[[], Sequence[Tensor]],
    leaves: dict[str, Tensor],
    tolerance: float,
) -> None:
    """Both give the same outputs, and the same gradients of a random function of them.

    Args:
        ours: computes outputs from the leaves.
        theirs: computes the same in another way.
        leaves: what to differentiate by, under the names to complain with.
        tolerance: relative.
    """
    errors: dict[str, float] = {}
    outputs, expected = list(ours()), list(theirs())
    cotangents = [torch.randn_like(x) for x in expected]
    for i, (y, wanted) in enumerate(zip(outputs, expected, strict=True)):
        errors[f"output {i}"] = relative_error(y, wanted)
    found = torch.autograd.grad(outputs, list(leaves.values()), cotangents)
    wanted = torch.autograd.grad(expected, list(leaves.values()), cotangents)
    for name, x, y in zip(leaves, found, wanted, strict=True):
        assert y.abs().max() > 0, f"the gradient of {name} shows nothing"
        errors[f"gradient of {name}"] = relative_error(x, y)
    assert max(errors.values()) <= tolerance, errors
