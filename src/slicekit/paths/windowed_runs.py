"""Log-signatures of many windows at once: by the C++ kernel where it applies, or in pure torch.

The kernel is an opaque operator with a derivative of its own; a second derivative goes through
pure torch.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from slicekit.dispatch import apply, plain_torch
from slicekit.native import log_signatures as native
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
    if native.suits(increments, basis):
        advice = "take them in reverse mode: torch.func.grad, vjp or jacrev"
        result = apply(
            *(_LogSignatures, "log_signatures has", advice, increments, edges, window, basis)
        )
        assert isinstance(result, Tensor)
        return result
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


@torch.library.custom_op("slicekit::log_signatures", mutates_args=())
def _forward(
    increments: Tensor, edges: Tensor | None, window: int, name: str, channels: int, depth: int
) -> Tensor:
    with plain_torch():
        return native.forward(increments, BASES[name](channels, depth), window, edges)


@_forward.register_fake
def _(
    increments: Tensor, edges: Tensor | None, window: int, name: str, channels: int, depth: int
) -> Tensor:
    windows = native.window_count(increments, window, edges)
    return increments.new_empty(increments.shape[0], windows, BASES[name](channels, depth).size)


@torch.library.custom_op("slicekit::log_signatures_pullback", mutates_args=())
def _pullback(
    increments: Tensor,
    edges: Tensor | None,
    gradient: Tensor,
    window: int,
    name: str,
    channels: int,
    depth: int,
) -> Tensor:
    with plain_torch():
        basis = BASES[name](channels, depth)
        return native.pullback(increments, gradient, basis, window, edges)


@_pullback.register_fake
def _(
    increments: Tensor,
    edges: Tensor | None,
    gradient: Tensor,
    window: int,
    name: str,
    channels: int,
    depth: int,
) -> Tensor:
    return torch.empty_like(increments, memory_format=torch.contiguous_format)


def _flops(
    increments: tuple[int, ...],
    edges: Any,
    window: int,
    name: str,
    channels: int,
    depth: int,
    **_: Any,
) -> int:
    """Chen's relation for each increment: a product for each element of the basis."""
    return 2 * increments[0] * increments[1] * BASES[name](channels, depth).size


def _pullback_flops(
    increments: tuple[int, ...], edges: Any, gradient: Any, *rest: Any, **_: Any
) -> int:
    """Twice the forward pass."""
    return 2 * _flops(increments, edges, *rest)


register_flop_formula(torch.ops.slicekit.log_signatures)(_flops)
register_flop_formula(torch.ops.slicekit.log_signatures_pullback)(_pullback_flops)


def _key(basis: LieBasis) -> tuple[str, int, int]:
    """What an operator is told of a basis."""
    return basis.name, basis.channels, basis.depth


class _Pullback(torch.autograd.Function):
    @staticmethod
    def forward(
        increments: Tensor, edges: Tensor | None, gradient: Tensor, window: int, basis: LieBasis
    ) -> Tensor:
        return _pullback(increments, edges, gradient, window, *_key(basis))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        *tensors, ctx.window, ctx.basis = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        increments, edges, gradient = ctx.saved_tensors

        def run(x: Tensor) -> Tensor:
            return in_torch(x, ctx.basis, ctx.window, edges)

        def pullback(x: Tensor, g: Tensor) -> Tensor:
            return torch.func.vjp(run, x)[1](g)[0]

        in_increments, in_gradient = torch.func.vjp(pullback, increments, gradient)[1](gradients[0])
        return in_increments, None, in_gradient, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        folded = _folded(info.batch_size, in_dims, args[:3])
        return _Pullback.apply(*folded, *args[3:]).unflatten(0, (info.batch_size, -1)), 0


class _LogSignatures(torch.autograd.Function):
    @staticmethod
    def forward(increments: Tensor, edges: Tensor | None, window: int, basis: LieBasis) -> Tensor:
        return _forward(increments, edges, window, *_key(basis))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        *tensors, ctx.window, ctx.basis = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        window, basis = ctx.window, ctx.basis
        # A Function inside a Function's backward is more than torch.compile can trace.
        if torch.compiler.is_compiling():
            pulled = _pullback(*ctx.saved_tensors, gradients[0], window, *_key(basis))
            return pulled, None, None, None
        pulled = _Pullback.apply(*ctx.saved_tensors, gradients[0], window, basis)
        return pulled, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        folded = _folded(info.batch_size, in_dims, args[:2])
        return _LogSignatures.apply(*folded, *args[2:]).unflatten(0, (info.batch_size, -1)), 0


def _folded(size: int, dims: tuple, tensors: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    """The vmapped axis of each put into the batch."""
    folded = []
    for x, dim in zip(tensors, dims, strict=False):
        if x is not None:
            x = (x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1)
        folded.append(x)
    return folded
