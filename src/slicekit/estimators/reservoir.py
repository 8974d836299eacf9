"""A random linear CDE as a bank of features: nothing in it is trained but the linear read-out.

    h_{t+1} = h_t + A(1, x_t) h_t + B x_t,    A(1, x) = A^0 + ε Σ_i A^i x^i

A^0 is made of damped rotations, with memories from one step to the length of the series and
frequencies up to the fastest that the steps can show; B reads a few random channels; the A^i are
small and random, and make the states polynomials of the path. What is seen of a series are averages
over time of the states and of the lengths of their planes: how large they are, how large they
become, how much of the time they are above each of some thresholds, and how large they are in each
part of the series.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.checks import Lengths, check_positive
from slicekit.descriptions.checks import check_size
from slicekit.flows import Euler
from slicekit.layers import Learned, SLiCE, State, States, TimeAndInput
from slicekit.paths import valid_mask
from slicekit.structures import BlockDiagonal, Structure

BLOCK = 4
LARGEST = 1e4
CLIP = 6.0
RAMP = 1.0
"""Width of a threshold, over the deviation of what is compared with it."""


@dataclass(frozen=True)
class RandomRecipe:
    """What a reservoir is made of.

    Args:
        structure: of its matrices, as they are drawn for a layer; None for damped rotations.
        dim: size of the rotations' state.
        mixing: ε, size of the part of the rotations that depends on the input.
        thresholds: how many each state is compared with.
        parts: of the longest series in training at most, each of at least four steps.
    """

    structure: Structure | None = None
    dim: int = 512
    mixing: float = 0.1
    thresholds: int = 4
    parts: int = 8

    def __post_init__(self) -> None:
        """Check what the parts would not."""
        check_positive("dim", self.dim)
        check_structure(self.structure)
        if self.structure is None and self.dim % BLOCK:
            raise ValueError(f"dim={self.dim}; expected a multiple of {BLOCK}")

    def build(self, channels: int, outputs: int, length: int) -> "Reservoir":
        """A reservoir for series of that length, with a read-out that is not fitted yet."""
        layer = random_layer(channels, self.structure, self.dim, length, self.mixing)
        parts = max(1, min(self.parts, length // 4))
        return Reservoir(channels, outputs, layer, self.thresholds, parts, length)


def check_structure(structure: Structure | None) -> None:
    """Raise TypeError unless it is a structure or None."""
    if structure is not None and not isinstance(structure, Structure):
        raise TypeError(
            f"structure={structure!r}; expected a structure such as BlockDiagonal(64, 4), or None"
        )


class Reservoir(nn.Module):
    """Features of series by a random linear CDE, and a linear read-out.

    Args:
        channels: of the features of a series.
        outputs: size of the output.
        layer: the linear CDE.
        thresholds: how many each state is compared with.
        parts: in how many equal parts of a series means are taken, beside those of the whole.
        length: of the series that the parts are parts of.

    Example:
        >>> layer = rotations(3, dim=8, length=10, mixing=0.1)
        >>> reservoir = Reservoir(3, outputs=2, layer=layer, thresholds=4, parts=2, length=10)
        >>> reservoir(torch.randn(5, 10, 3), lengths=[10, 3, 1, 5, 2]).shape
        torch.Size([5, 2])
    """

    thresholds: Tensor
    ramp: Tensor
    centre: Tensor
    spread: Tensor

    def __init__(
        self,
        channels: int,
        outputs: int,
        layer: SLiCE,
        thresholds: int,
        parts: int,
        length: int,
    ) -> None:
        """Make the tensors; thresholds and read-out are zero before they are fitted."""
        super().__init__()
        for name, value in (("thresholds", thresholds), ("parts", parts), ("length", length)):
            check_size(name, value)
        self.channels, self.outputs, self.layer = channels, outputs, layer
        self.parts, self.length = parts, length
        seen = layer.outputs + layer.outputs // 2
        self.register_buffer("thresholds", torch.zeros(thresholds, seen))
        self.register_buffer("ramp", torch.ones(seen))
        features = (thresholds + 2 + parts) * seen
        self.register_buffer("centre", torch.zeros(features))
        self.register_buffer("spread", torch.ones(features))
        self.head = nn.Linear(features, outputs)
        self.requires_grad_(False)

    def forward(self, x: Tensor, lengths: Lengths | None = None) -> Tensor:
        """Features (batch, length, channels) -> (batch, outputs)."""
        return self.read(self.pooled(x, lengths))

    def pooled(self, x: Tensor, lengths: Lengths | None = None) -> Tensor:
        """What is seen of series: (batch, length, channels) -> (batch, features)."""
        seen = self.seen(x, lengths)
        if lengths is None:
            lengths = torch.full((x.shape[0],), x.shape[1])
        valid = valid_mask(torch.as_tensor(lengths, device=x.device), x.shape[1])
        past = ~valid.unsqueeze(-1)
        above = [self._above(seen, q).masked_fill_(past, 0).sum(1) for q in self.thresholds]
        largest = seen.masked_fill(past, -LARGEST).amax(1)
        places = torch.arange(x.shape[1], device=x.device) * self.parts // self.length
        which = torch.nn.functional.one_hot(places.clamp(max=self.parts - 1), self.parts)
        which = which.to(seen.dtype)
        sums = torch.einsum("blf,lp->bpf", seen.masked_fill(past, 0), which)
        return self._joined(torch.cat(above, -1), largest, sums, valid.to(seen.dtype) @ which)

    def seen(self, x: Tensor, lengths: Lengths | None = None) -> Tensor:
        """States and the lengths of their planes, (batch, length, 3/2 dim)."""
        return _with_lengths(self.layer(x, lengths=lengths))

    def read(self, pooled: Tensor) -> Tensor:
        """The read-out of pooled features."""
        return self.head(self.standardised(pooled))

    def standardised(self, pooled: Tensor) -> Tensor:
        """Pooled features on the scale of the training data, clipped."""
        return ((pooled - self.centre) / self.spread).clamp(-CLIP, CLIP)

    def step(self, x: Tensor, state: States | None = None) -> tuple[Tensor, States]:
        """One element (batch, channels) -> the output for the series so far, and the state."""
        own, pool = (None, None) if state is None else (state[0], state[1])
        h, after = self.layer.step(x, own)  # type: ignore[arg-type]
        seen = _with_lengths(h)
        above = torch.cat([self._above(seen, q) for q in self.thresholds], -1)
        largest = seen
        counts = seen.new_zeros(len(seen), self.parts)
        sums = seen.new_zeros(len(seen), self.parts, seen.shape[-1])
        if pool is not None:
            assert isinstance(pool, State)
            above, largest = above + pool["above"], torch.maximum(largest, pool["largest"])
            counts, sums = pool["counts"].clone(), pool["sums"].clone()
        now = int(counts[0].sum()) * self.parts // self.length
        now = min(now, self.parts - 1)
        counts[:, now] += 1
        sums[:, now] += seen
        kept = State({"above": above, "largest": largest, "counts": counts, "sums": sums})
        return self.read(self._joined(above, largest, sums, counts)), States([after, kept])

    def _joined(self, above: Tensor, largest: Tensor, sums: Tensor, counts: Tensor) -> Tensor:
        """All features; a part that has not come yet has the mean of those that have."""
        count = counts.sum(1, keepdim=True)
        mean = sums.sum(1) / count
        parts = sums / counts.clamp_min(1).unsqueeze(-1)
        parts = torch.where(counts.unsqueeze(-1) > 0, parts, mean.unsqueeze(1))
        return torch.cat([above / count, mean, largest, parts.flatten(1)], -1)

    def _above(self, seen: Tensor, threshold: Tensor) -> Tensor:
        """Whether seen is above the threshold: 0, 1, or between them on a ramp.

        A jump would turn rounding into a whole count: a stream would not end where a batch does.
        """
        return ((seen - threshold) / self.ramp + 0.5).clamp_(0, 1)

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this module again, but for its tensors."""
        return {
            "channels": self.channels,
            "outputs": self.outputs,
            "layer": self.layer,
            "thresholds": self.thresholds.shape[0],
            "parts": self.parts,
            "length": self.length,
        }


def _with_lengths(h: Tensor) -> Tensor:
    h = torch.nan_to_num(h, LARGEST, LARGEST, -LARGEST).clamp(-LARGEST, LARGEST)
    even = h[..., : h.shape[-1] // 2 * 2]
    planes = even.unflatten(-1, (-1, 2))
    return torch.cat([h, (planes.pow(2).sum(-1) + 1e-12).sqrt()], -1)


def random_layer(
    channels: int, structure: Structure | None, dim: int, length: int, mixing: float
) -> SLiCE:
    """Damped rotations, or a layer of some structure with increments that suit the length."""
    if structure is None:
        return rotations(channels, dim, length, mixing)
    drive = TimeAndInput(min(0.25, 1 / math.sqrt(max(1, length))))
    return SLiCE(channels, structure, drive=drive, initial=Learned())


def rotations(channels: int, dim: int, length: int, mixing: float) -> SLiCE:
    """Damped rotations of many speeds, driven by a few channels each; torch's own random numbers.

    Args:
        channels: of the input.
        dim: a multiple of 4.
        length: of the series: the longest memory.
        mixing: ε, size of the part of A that depends on the input.
    """
    layer = SLiCE(
        channels,
        BlockDiagonal(dim, BLOCK),
        drive=TimeAndInput(1.0),
        initial=Learned(),
        flow=Euler(),
        affine=True,
    )
    planes, longest = dim // 2, float(max(4, length))
    memory = _log_uniform(planes, 1.0, longest)
    speed = _log_uniform(planes, math.pi / longest, 0.9 * math.pi)
    speed[torch.rand(planes) < 0.25] = 0
    turning = torch.where(speed > 0, torch.rand(planes) / speed.clamp_min(1e-3), 0)
    kept = torch.exp(-1 / torch.maximum(memory, turning).clamp(max=longest))
    turn = torch.stack([speed.cos(), -speed.sin(), speed.sin(), speed.cos()], -1)
    planar = kept[:, None, None] * turn.reshape(planes, 2, 2)
    first = torch.zeros(dim // BLOCK, BLOCK, BLOCK)
    for place in range(0, BLOCK, 2):
        first[:, place : place + 2, place : place + 2] = planar[place // 2 :: BLOCK // 2]
    forgets = (1 - kept).reshape(-1, BLOCK // 2).amin(1)
    matrices = next(iter(layer.A.parameters()))
    assert layer.B is not None
    with torch.no_grad():
        scale = mixing / math.sqrt(channels * BLOCK) * forgets
        matrices.copy_(torch.randn(matrices.shape) * scale[:, None, None])
        matrices[0] = first - torch.eye(BLOCK)
        layer.B.copy_(_inputs(planes, channels) * (1 - kept).repeat_interleave(2)[:, None])
        for start in layer.start.parameters():
            start.zero_()
    return layer


def _inputs(planes: int, channels: int) -> Tensor:
    """B: every plane reads a few random channels, and none reads time."""
    reads = torch.zeros(planes, 2, channels + 1)
    few = min(channels, 9)
    for plane in range(planes):
        count = min(channels, int(2 ** (torch.rand(()).item() * math.log2(few + 1))))
        chosen = torch.randperm(channels)[:count]
        reads[plane, :, 1 + chosen] = torch.randn(2, count) / math.sqrt(count)
    return reads.flatten(0, 1)


def _log_uniform(count: int, low: float, high: float) -> Tensor:
    return torch.empty(count).uniform_(math.log(low), math.log(high)).exp()
