"""Parts that act on each head by itself, and the initialisations that xLSTM takes from elsewhere.

Names here and in the papers:
    HeadLinear      block-diagonal W, one block for each head (Beck et al. 2024, figures 10 and 11)
    HeadLayerNorm        group normalisation with one group for each head
    small_init      W ~ N(0, 2 / (5 dim)), "SmallInit" of Nguyen and Salazar (2019)
    depth_init      W ~ N(0, (2 / (blocks √dim))²), the output maps of Wang and Komatsuzaki's GPT-J
    UNSEEN          m_0, the stabiliser of both memories before the first element
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from slicekit.checks import check_finite, check_positive, check_whole
from slicekit.descriptions.checks import divisors
from slicekit.mixers.arguments import check_sizes

UNSEEN = -1e30
"""The stabiliser before the first element: that of an input gate which never opened."""

MERGED = 32
"""Size of the blocks that smaller ones are merged to."""


class HeadLinear(nn.Module):
    """A block-diagonal linear map of square blocks.

    Args:
        width: size of the vectors.
        heads: number of blocks.
        bias: whether a constant is added.

    Example:
        >>> HeadLinear(8, heads=2)(torch.randn(3, 5, 8)).shape
        torch.Size([3, 5, 8])
    """

    def __init__(self, width: int, heads: int, bias: bool = False) -> None:
        """Draw the blocks as `small_init` does for their own size."""
        super().__init__()
        check_sizes(width=width)
        check_divides("heads", heads, "width", width)
        self.width, self.heads = width, heads
        dim = width // heads
        self.weight = nn.Parameter(small_init(torch.empty(heads, dim, dim), dim))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width) -> (..., width)."""
        weight = _merged(self.weight.to(x.dtype))
        y = torch.einsum("...hd,hed->...he", x.unflatten(-1, (len(weight), -1)), weight)
        y = y.flatten(-2)
        return y if self.bias is None else y + self.bias.to(y.dtype)


def _merged(weight: Tensor) -> Tensor:
    """The same map in blocks of up to `MERGED`: products of tiny blocks are slow one by one."""
    heads, dim, _ = weight.shape
    most = max(MERGED // dim, 1)
    some = next(i for i in range(min(most, heads), 0, -1) if heads % i == 0)
    if some == 1:
        return weight
    apart = torch.diag_embed(weight.view(-1, some, dim, dim).permute(0, 2, 3, 1))
    return apart.permute(0, 3, 1, 4, 2).reshape(-1, some * dim, some * dim)


class HeadLayerNorm(nn.Module):
    """Each head to mean zero and variance one, then a scale for each entry.

    Args:
        heads: number of heads.
        dim: size of a head.
        eps: added to the variance.

    The scales are kept as they are, w. The authors' package keeps w - 1, so that weight decay pulls
    its scales to one and these to zero.

    Example:
        >>> HeadLayerNorm(2, 4)(torch.randn(3, 5, 2, 4)).std(-1, correction=0).round().unique()
        tensor([1.], grad_fn=<Unique2Backward0>)
    """

    def __init__(self, heads: int, dim: int, eps: float = 1e-5) -> None:
        """Scales of one."""
        super().__init__()
        check_sizes(heads=heads, dim=dim)
        check_positive("eps", eps)
        self.heads, self.dim, self.eps = heads, dim, eps
        self.weight = nn.Parameter(torch.ones(heads * dim))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., heads, dim) -> (..., heads, dim)."""
        scale = self.weight.to(x.dtype).view(self.heads, self.dim)
        return functional.layer_norm(x, (self.dim,), eps=self.eps) * scale


def small_init(weight: Tensor, dim: int) -> Tensor:
    """Draw normal entries of variance 2 / (5 dim), in place."""
    return nn.init.normal_(weight, std=math.sqrt(2 / (5 * dim)))


def depth_init(weight: Tensor, dim: int, blocks: int) -> Tensor:
    """Draw normal entries of deviation 2 / (blocks √dim), in place."""
    return nn.init.normal_(weight, std=2 / blocks / math.sqrt(dim))


def rounded_up(size: float, multiple: int) -> int:
    """The least multiple that is not below a size.

    >>> rounded_up(4 / 3 * 128, 64)
    192
    """
    return multiple * math.ceil(size / multiple)


def check_divides(name: str, part: int, whole_name: str, whole: int) -> None:
    """Raise ValueError unless a number of parts divides a size (TypeError if it is not whole).

    >>> check_divides("heads", 3, "width", 8)
    Traceback (most recent call last):
    ValueError: heads=3 does not divide width=8; choose one of 1, 2, 4, 8
    """
    check_whole(name, part)
    if whole % part:
        raise ValueError(
            f"{name}={part} does not divide {whole_name}={whole}; choose one of {divisors(whole)}"
        )


def check_dropout(dropout: float) -> None:
    """Raise ValueError unless it is a probability below one (TypeError if it is no number).

    >>> check_dropout(1.5)
    Traceback (most recent call last):
    ValueError: dropout=1.5; expected a probability in [0, 1)
    """
    check_finite("dropout", dropout)
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout={dropout}; expected a probability in [0, 1)")
