"""The last elements before a rank's part: what difference drives and short convolutions ask for.

Every rank sends the last elements of its part, and takes those that come before its own: of the
rank before, or of several if parts are shorter than the halo. Backward, every rank sends the
gradient of its halo, and adds what belongs to its own elements.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from slicekit.parallel.messages import pack, unpack
from slicekit.parallel.ranks import Ranks


def halo(
    ranks: Ranks, x: Tensor, lengths: Tensor | None, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The last elements of each sequence before this rank's part, by one collective.

    Args:
        ranks: that hold the parts, in order.
        x: (batch, length, channels), this rank's part.
        lengths: (batch,) int64, how many elements of the part count, or None for all.
        size: how many elements are asked for.

    Returns:
        x: to be used instead, so that every rank takes part in the way back.
        elements: (batch, size, channels), from the oldest; zero where there are fewer.
        counts: (batch,) int64, how many there are: fewer than `size` near the beginning.
    """
    ranks.agree(
        "a halo",
        batch=x.shape[0],
        channels=x.shape[2],
        size=size,
        dtype=str(x.dtype),
        gradient=torch.is_grad_enabled() and x.requires_grad,
    )
    if lengths is None:
        lengths = torch.full((x.shape[0],), x.shape[1], device=x.device)
    received: Any = _Halo.apply(ranks, size, lengths, x)
    return received


class _Halo(torch.autograd.Function):
    """The part itself, elements and counts."""

    @staticmethod
    def forward(ctx: Any, ranks: Ranks, size: int, lengths: Tensor, x: Tensor) -> Any:
        counts = lengths.clamp_max(size)
        places = _tail(lengths, counts, size)
        tail = x.gather(1, places.unsqueeze(-1).expand(-1, -1, x.shape[2]))
        tail = tail * _valid(counts, size).unsqueeze(-1)
        sent = [tail.float() if tail.dtype.itemsize < 4 else tail, counts]
        heard = [unpack(row, sent) for row in ranks.gather("a halo", pack(sent))]
        ctx.ranks, ctx.size, ctx.shape = ranks, size, x.shape
        ctx.counts, ctx.places = [counts for _, counts in heard], places
        if ranks.first:
            none = torch.zeros_like(counts)
            ctx.mark_non_differentiable(none)
            return x.view_as(x), torch.zeros_like(tail), none
        picks, count = _picks(ctx.counts[: ranks.rank], size)
        earlier = torch.cat([elements for elements, _ in heard[: ranks.rank]], 1)
        elements = earlier.gather(1, picks.unsqueeze(-1).expand(-1, -1, x.shape[2]))
        ctx.mark_non_differentiable(count)
        elements = (elements * _valid(count, size).unsqueeze(-1)).to(x.dtype)
        return x.view_as(x), elements, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:  # type: ignore[override]
        ranks, size = ctx.ranks, ctx.size
        in_x, in_elements, _ = gradients
        sent = in_elements.float() if in_elements.dtype.itemsize < 4 else in_elements
        heard = ranks.gather("the gradient of a halo", sent)
        batch, _, channels = ctx.shape
        in_halo = sent.new_zeros(batch, size, channels)
        for rank in range(ranks.rank + 1, ranks.count):
            picks, count = _picks(ctx.counts[:rank], size)
            moved = heard[rank] * _valid(count, size).unsqueeze(-1)
            earlier = sent.new_zeros(batch, rank * size, channels)
            earlier.scatter_add_(1, picks.unsqueeze(-1).expand(-1, -1, channels), moved)
            in_halo += earlier[:, ranks.rank * size : (ranks.rank + 1) * size]
        in_halo = in_halo * _valid(ctx.counts[ranks.rank], size).unsqueeze(-1)
        gradient = sent.new_zeros(ctx.shape)
        gradient.scatter_add_(1, ctx.places.unsqueeze(-1).expand(-1, -1, channels), in_halo)
        return None, None, None, in_x + gradient.to(in_x.dtype)


def _valid(counts: Tensor, size: int) -> Tensor:
    return torch.arange(size, device=counts.device) < counts.unsqueeze(1)


def _tail(lengths: Tensor, counts: Tensor, size: int) -> Tensor:
    """Places (batch, size) of the last elements that count, from the oldest."""
    slots = torch.arange(size, device=lengths.device)
    places = (lengths - counts).unsqueeze(1) + slots
    return torch.minimum(places, (lengths - 1).clamp_min(0).unsqueeze(1))


def _picks(counts: list[Tensor], size: int) -> tuple[Tensor, Tensor]:
    """Which of the tails of some ranks, one after the other, make the halo after them.

    Returns:
        Places (batch, size) in (batch, ranks * size), and how many count, (batch,).
    """
    valid = torch.cat([_valid(count, size) for count in counts], 1)
    order = torch.argsort(valid.long(), dim=1, stable=True)[:, -size:]
    count = valid.sum(1).clamp_max(size)
    slots = torch.arange(size, device=valid.device) + (size - count).unsqueeze(1)
    return order.gather(1, slots.clamp_max(size - 1)), count
