"""The short causal convolution along time that many mixers begin with, and its window as a state.

z_t = b + Σ_j w_j x_{t - size + 1 + j}, for each channel by itself, and y_t = z_t or SiLU(z_t); the
last size - 1 inputs are carried. On the CPU a C++ kernel does it in one pass over the memory.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from slicekit.checks import HALF, check_floating, check_shape
from slicekit.choices import kernel_serves
from slicekit.mixers.flop_counts import of_short_convolution
from slicekit.native import sequences as native
from slicekit.operators import Operator


class ShortConvolution(nn.Module):
    """A causal convolution of each channel with a filter of its own.

    Args:
        channels: number of channels.
        size: number of taps.
        bias: whether a constant is added.
        activation: whether SiLU follows.

    The parameters `weight` (channels, 1, size) and `bias` (channels,) are those of a depthwise
    `torch.nn.Conv1d`, and so is their initialisation.

    Example:
        >>> convolution = ShortConvolution(3, 4)
        >>> x = torch.randn(2, 7, 3)
        >>> y, window = convolution(x, convolution.window(2, x))
        >>> y.shape, window.shape
        (torch.Size([2, 7, 3]), torch.Size([2, 3, 3]))
    """

    def __init__(
        self, channels: int, size: int, bias: bool = True, activation: bool = False
    ) -> None:
        """Draw the taps."""
        super().__init__()
        if size < 1:
            raise ValueError(f"size={size}; expected at least one tap")
        self.channels, self.size, self.activation = channels, size, activation
        bound = size**-0.5
        self.weight = nn.Parameter(torch.empty(channels, 1, size).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound)) if bias else None

    def window(self, batch: int, like: Tensor) -> Tensor:
        """What precedes the first input: zeros (batch, size - 1, channels)."""
        return like.new_zeros(batch, self.size - 1, self.channels)

    def forward(
        self, x: Tensor, window: Tensor, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Filter a part of some sequences.

        Args:
            x: (batch, length, channels).
            window: (batch, size - 1, channels), the inputs before it.
            lengths: (batch,) int64, or None.

        Returns:
            (batch, length, channels), and the last size - 1 inputs that count.
        """
        y = short_convolution(x, window, self.weight, self.bias, self.activation)
        return y, _next_window(x, window, lengths)


def short_convolution(
    x: Tensor, window: Tensor, weight: Tensor, bias: Tensor | None, activation: bool = False
) -> Tensor:
    """Filter along time, in the dtype of x (in float32 for half precision on the CPU).

    Args:
        x: (batch, length, channels).
        window: (batch, size - 1, channels), the inputs before it.
        weight: (channels, 1, size).
        bias: (channels,), or None.
        activation: whether SiLU follows.

    Returns:
        (batch, length, channels).

    Example:
        >>> x = torch.tensor([1.0, 2.0, 3.0]).reshape(1, 3, 1)
        >>> mean = torch.full((1, 1, 2), 0.5)
        >>> short_convolution(x, torch.zeros(1, 1, 1), mean, None).flatten()
        tensor([0.5000, 1.5000, 2.5000])
    """
    check_shape("x", x, ("batch", "length", "channels"))
    check_floating("x", x)
    batch, _, channels = x.shape
    check_shape("weight", weight, (channels, 1, "size"))
    check_shape("window", window, (batch, weight.shape[-1] - 1, channels))
    if bias is not None:
        check_shape("bias", bias, (channels,))
    widened = x.device.type == "cpu" and x.dtype in HALF
    work = torch.float32 if widened else x.dtype
    constant = None if bias is None else bias.to(work)
    operands = x.to(work), window.to(work), weight.to(work), constant
    if not kernel_serves("short convolution", native.no_convolution(operands[0])):
        return in_torch(*operands, activation).to(x.dtype)
    return SHORT_CONVOLUTION((activation,), operands)[0].to(x.dtype)


def in_torch(
    x: Tensor, window: Tensor, weight: Tensor, bias: Tensor | None, activation: bool
) -> Tensor:
    """As `short_convolution`, without the kernel."""
    seen = torch.cat([window, x], 1)
    z = functional.conv1d(seen.mT, weight, bias, groups=x.shape[-1]).mT
    return functional.silu(z) if activation else z


def _next_window(x: Tensor, window: Tensor, lengths: Tensor | None) -> Tensor:
    """The last inputs that count, without a copy of all of x where it is long enough."""
    size = window.shape[1]
    long_enough = lengths is None and x.shape[1] >= size
    seen = x if long_enough else torch.cat([window.to(x.dtype), x], 1)
    return last_window(seen, size, lengths).to(window.dtype)


def last_window(seen: Tensor, size: int, lengths: Tensor | None) -> Tensor:
    """The last inputs of each sequence, copied.

    Args:
        seen: (batch, size + length, channels): the window before a part, and the part. Without
            lengths the part alone will do, if it is no shorter than a window.
        size: how many to keep.
        lengths: (batch,) int64, how many elements of the part count; None for all.

    Returns:
        (batch, size, channels).
    """
    if lengths is None:
        return seen[:, seen.shape[1] - size :].clone()
    places = lengths.unsqueeze(1) + torch.arange(size, device=seen.device)
    return seen.gather(1, places.unsqueeze(-1).expand(-1, -1, seen.shape[-1]))


def _second(activation: bool, operands: list[Any]) -> tuple[Tensor]:
    x, window, weight, bias = operands
    return (in_torch(x, window, weight, bias, activation),)


SHORT_CONVOLUTION = Operator(
    "short_convolution",
    "bool activation",
    native.SHORT_CONVOLUTION.forward,
    native.SHORT_CONVOLUTION.shapes,
    native.SHORT_CONVOLUTION.backward,
    _second,
    flops=of_short_convolution,
    keeps=(),
    subject="short_convolution gives",
)
