"""Log-signatures of many windows at once: by the C++ kernel where it applies, or in pure torch.

The kernel is an opaque operator with a derivative of its own; a second derivative goes through
pure torch.
"""

import math
from typing import Any

import torch
from torch import Tensor

from slicekit.choices import kernel_serves
from slicekit.native import log_signatures as native
from slicekit.operators import Operator
from slicekit.paths.lie_bases import LieBasis, hall, lyndon
from slicekit.paths.tensor_algebra import signature, tensor_log

BASES = {"hall": hall, "lyndon": lyndon}


def run_windows(
    increments: Tensor, basis: LieBasis, window: int = 1, edges: Tensor | None = None
) -> Tensor:
    """The log-signature of each window.

    Args:
        increments: (batch, length, channels).
        basis: of the coefficients.
        window: increments in a window, the last may have fewer; not used with edges.
        edges: (batch, windows + 1) int64 that do not decrease, in 0..length: window w of path b has
            increments edges[b, w] to edges[b, w + 1] - 1.

    Returns:
        (batch, windows, basis.size).
    """
    if kernel_serves("log-signatures", native.obstacle(increments, basis)):
        settings = (basis.name, basis.channels, basis.depth, window)
        return LOG_SIGNATURES(settings, (increments, edges))[0]
    return in_torch(increments, basis, window, edges)


def in_torch(increments: Tensor, basis: LieBasis, window: int, edges: Tensor | None) -> Tensor:
    """As `run_windows`, without the kernel."""
    if edges is None:
        return of_runs(in_windows(increments, window), basis)
    return of_runs(_gathered(increments, edges), basis)


def in_windows(increments: Tensor, window: int) -> Tensor:
    """Cut into windows, the last one filled up by zeros: (batch, windows, window, channels)."""
    batch, length, channels = increments.shape
    window = max(1, min(window, length))
    missing = -length % window
    filled = torch.nn.functional.pad(increments, (0, 0, 0, missing)) if missing else increments
    return filled.reshape(batch, (length + missing) // window, window, channels)


def _gathered(increments: Tensor, edges: Tensor) -> Tensor:
    """Windows filled up by zeros to the longest: (batch, windows, longest, channels)."""
    counts = edges.diff(dim=1)
    longest = max(1, int(counts.max())) if counts.numel() else 1
    steps = torch.arange(longest, device=increments.device)
    index = edges[:, :-1, None] + steps
    inside = steps < counts[..., None]
    rows = torch.arange(len(edges), device=increments.device)[:, None, None]
    padded = torch.nn.functional.pad(increments, (0, 0, 0, 1))
    return padded[rows, index.where(inside, increments.shape[1])]


def of_runs(increments: Tensor, basis: LieBasis, *, stream: bool = False) -> Tensor:
    """The log-signature of each path in pure torch.

    Args:
        increments: (..., length, channels).
        basis: of the coefficients.
        stream: whether to give every prefix.

    Returns:
        (..., basis.size), with stream (..., length, basis.size).
    """
    if basis.depth == 1:
        return increments.cumsum(-2) if stream else increments.sum(-2)
    if basis.depth == 2:
        return _increment_and_areas(increments, basis, stream)
    expanded = signature(increments, basis.depth, stream=stream)
    return basis.project(tensor_log(expanded, basis.channels, basis.depth))


def _increment_and_areas(increments: Tensor, basis: LieBasis, stream: bool) -> Tensor:
    """Depth 2: both bases are the increment, then the Lévy areas of the pairs i < j."""
    after = increments.cumsum(-2)
    before = after - increments
    left, right = (index.to(increments.device) for index in basis.brackets[0])
    if stream:
        steps = before[..., left] * increments[..., right]
        steps = steps - before[..., right] * increments[..., left]
        return torch.cat([after, steps.cumsum(-2) / 2], -1)
    half = before.mT @ increments / 2
    return torch.cat([increments.sum(-2), (half - half.mT)[..., left, right]], -1)


def _forward(
    name: str, channels: int, depth: int, window: int, operands: list[Any]
) -> list[Tensor]:
    """Increments may have further axes in front, and edges then the same."""
    basis = BASES[name](channels, depth)
    (coefficients,) = native.KERNEL.forward(basis, window, _folded(operands))
    return [coefficients.unflatten(0, operands[0].shape[:-2])]


def _shapes(name: str, channels: int, depth: int, window: int, operands: list[Any]) -> list[Tensor]:
    increments, edges = operands
    windows = native.window_count(increments, window, edges)
    size = BASES[name](channels, depth).size
    return [increments.new_empty(*increments.shape[:-2], windows, size)]


def _backward(
    name: str,
    channels: int,
    depth: int,
    window: int,
    operands: list[Any],
    results: Any,
    cotangents: list[Tensor],
    needed: Any,
) -> list[Tensor | None]:
    plan = (BASES[name](channels, depth), window, _folded(operands))
    gradient = cotangents[0].flatten(0, -3)
    in_increments, _ = native.KERNEL.backward(*plan, [None], [gradient], needed)
    assert in_increments is not None
    return [in_increments.view(operands[0].shape), None]


def _second(name: str, channels: int, depth: int, window: int, operands: list[Any]) -> list[Tensor]:
    increments, edges = _folded(operands)
    coefficients = in_torch(increments, BASES[name](channels, depth), window, edges)
    return [coefficients.unflatten(0, operands[0].shape[:-2])]


def _folded(operands: list[Any]) -> tuple[Tensor, Tensor | None]:
    """All axes in front as one."""
    increments, edges = operands
    return increments.flatten(0, -3), None if edges is None else edges.flatten(0, -2)


def _flops(name: str, channels: int, depth: int, window: int, shapes: list[Any]) -> int:
    """Chen's relation for each increment: a product for each element of the basis."""
    return 2 * math.prod(shapes[0][:-1]) * BASES[name](channels, depth).size


LOG_SIGNATURES = Operator(
    "log_signatures",
    "str name, int channels, int depth, int window",
    _forward,
    _shapes,
    _backward,
    _second,
    flops=_flops,
    keeps=(),
    subject="log_signatures gives",
    leading=True,
)
