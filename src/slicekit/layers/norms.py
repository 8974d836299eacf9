"""Norms of a block, as policies that make a module for a width."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from slicekit.checks import HALF
from slicekit.paths import valid_mask


@dataclass(frozen=True)
class LayerNorm:
    """Layer normalisation with scale and shift."""

    eps: float = 1e-5

    def module(self, width: int) -> nn.Module:
        """The module for vectors of that size."""
        return nn.LayerNorm(width, eps=self.eps)


@dataclass(frozen=True)
class RMSNorm:
    """Normalisation by the root mean square, with scale."""

    eps: float = 1e-6

    def module(self, width: int) -> nn.Module:
        """The module for vectors of that size."""
        return nn.RMSNorm(width, eps=self.eps)


@dataclass(frozen=True)
class BatchNorm:
    """Normalisation of each channel by its mean and variance over a batch, without scale or shift.

    In evaluation mode it normalises by running averages of both, and only then do parts and steps
    give what the whole sequence gives.

    Args:
        momentum: weight of a batch in the running averages.
        eps: added to the variance.
    """

    momentum: float = 0.1
    eps: float = 1e-5

    def module(self, width: int) -> nn.Module:
        """The module for vectors of that size."""
        return SequenceBatchNorm(width, self.momentum, self.eps)


class SequenceBatchNorm(nn.Module):
    """Batch normalisation of sequences, in which padding does not count.

    Args:
        width: number of channels.
        momentum, eps: see `BatchNorm`.

    Example:
        >>> norm = SequenceBatchNorm(3, 0.1, 1e-5)
        >>> norm(torch.randn(4, 9, 3) + 5).mean().abs() < 1e-6
        tensor(True)
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, momentum: float, eps: float) -> None:
        """Start from the averages 0 and 1."""
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x (batch, length, width) or (batch, width) -> the same shape."""
        if not self.training:
            mean, variance = self.mean, self.variance
        else:
            mean, variance, count = self._of_batch(x, lengths)
            unbiased = variance * (count / (count - 1).clamp_min(1))
            self.mean.lerp_(mean.detach().to(self.mean.dtype), self.momentum)
            self.variance.lerp_(unbiased.detach().to(self.variance.dtype), self.momentum)
        return (x - mean.to(x.dtype)) * (variance + self.eps).rsqrt().to(x.dtype)

    def _of_batch(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance and number of the elements that count."""
        axes = tuple(range(x.ndim - 1))
        # Half precision can't count: in bfloat16, 256 + 1 is 256.
        x = x.float() if x.dtype in HALF else x
        if lengths is None:
            count = x.new_tensor(x.numel() // x.shape[-1])
            return x.mean(axes), x.var(axes, unbiased=False), count
        valid = valid_mask(lengths, x.shape[1]).unsqueeze(-1)
        count = lengths.sum().clamp_min(1).to(x.dtype)
        mean = x.masked_fill(~valid, 0).sum(axes) / count
        variance = (x - mean).square().masked_fill(~valid, 0).sum(axes) / count
        return mean, variance, count
