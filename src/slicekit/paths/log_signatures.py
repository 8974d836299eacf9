"""Log-signatures of windows of a path, and of neighbouring intervals put together.

| here | in the paper |
|---|---|
| `log_signatures(increments, basis, window)` | log S^N(ω)_{[r_i, r_{i+1}]}, for each window |
| `chen(basis, earlier, later)` | log(exp(a) ⊗ exp(b)): the interval that both make up |

Nothing is divided by time. A zero increment changes nothing, so zero padding is exact.
"""

import torch
from torch import Tensor

from slicekit.checks import check_floating, check_same, check_shape
from slicekit.descriptions.checks import check_whole
from slicekit.paths.lie_bases import LieBasis
from slicekit.paths.tensor_algebra import tensor_exp, tensor_log, tensor_product
from slicekit.paths.window_signatures import in_windows, of_runs, run_windows


def log_signatures(
    increments: Tensor, basis: LieBasis, window: int, *, stream: bool = False
) -> Tensor:
    """The log-signature of each run of `window` consecutive increments.

    By the C++ kernel on the CPU, in pure torch elsewhere and for streams.

    Args:
        increments: (batch, length, channels), floating.
        basis: of the coefficients, `hall(channels, depth)` or `lyndon(channels, depth)`.
        window: increments in a window, at least one; the last window may have fewer.
        stream: whether to give, after every increment, what has come of its window.

    Returns:
        (batch, ceil(length / window), basis.size), with stream (batch, length, basis.size);
        differentiable in the increments.

    Raises:
        TypeError: if increments are not floating or window is no integer.
        ValueError: if a shape does not fit the basis, or window < 1.

    >>> from slicekit.paths import hall
    >>> increments = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
    >>> log_signatures(increments, hall(2, 2), window=2)
    tensor([[[1.0000, 1.0000, 0.5000],
             [1.0000, 1.0000, 0.0000]]])
    """
    check_increments(increments, basis)
    check_whole("window", window)
    if stream:
        prefixes = of_runs(in_windows(increments, window), basis, stream=True)
        return prefixes.flatten(1, 2)[:, : increments.shape[1]]
    return run_windows(increments, basis, window)


def check_increments(increments: Tensor, basis: LieBasis) -> None:
    """Raise unless increments are floating, (batch, length, channels of the basis)."""
    check_shape("increments", increments, ("batch", "length", "channels"))
    check_floating("increments", increments)
    if increments.shape[-1] != basis.channels:
        raise ValueError(
            f"increments has {increments.shape[-1]} channels, "
            f"but the basis is {basis.name}({basis.channels}, {basis.depth})"
        )


def chen(basis: LieBasis, earlier: Tensor, later: Tensor) -> Tensor:
    """The log-signature of two neighbouring intervals put together, by Chen's relation.

    Args:
        basis: of all coefficients.
        earlier: (..., basis.size), of the first interval.
        later: (..., basis.size), of the second.

    Returns:
        (..., basis.size), differentiable in both.

    Raises:
        TypeError: if a dtype is not floating, or they differ.
        ValueError: if a shape does not fit the basis, or the devices differ.

    >>> from slicekit.paths import hall
    >>> chen(hall(2, 2), torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]))
    tensor([1.0000, 1.0000, 0.5000])
    """
    check_shape("earlier", earlier, (..., basis.size))
    check_shape("later", later, (..., basis.size))
    check_floating("earlier", earlier)
    check_same("later", later, "earlier", earlier)
    if basis.depth == 1:
        return earlier + later
    if basis.depth == 2:
        return earlier + later + _areas_between(basis, earlier, later)
    sizes = basis.channels, basis.depth
    first = tensor_exp(basis.expand(earlier), *sizes)
    second = tensor_exp(basis.expand(later), *sizes)
    return basis.project(tensor_log(tensor_product(first, second, *sizes), *sizes))


def _areas_between(basis: LieBasis, earlier: Tensor, later: Tensor) -> Tensor:
    """[a, b] / 2 at depth 2, zero on the letters."""
    left, right = (index.to(earlier.device) for index in basis.brackets[0])
    areas = (earlier[..., left] * later[..., right] - earlier[..., right] * later[..., left]) / 2
    return torch.nn.functional.pad(areas, (basis.channels, 0))
