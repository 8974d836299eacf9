"""What a pool is, and what pools share: the past of a series, and the parts of its time."""

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

from slicekit.paths import valid_mask

Memory = dict[str, Tensor]
"""All that a pool remembers of some series, each tensor with their axis first."""

Features = dict[str, Tensor]
"""(cases, features) float32, by the name of the block that they belong to."""


class Pool(ABC):
    """A linear CDE along a path and the sums that are kept of it.

    Attributes:
        level: of the pyramid, that it looks at.
    """

    level: int

    @abstractmethod
    def whole(self, x: Tensor, lengths: Tensor, threads: int) -> Memory:
        """The sums over whole series.

        Args:
            x: (cases, channels, length) float32; what stands past the end of a case does not count.
            lengths: (cases,) int64, each at least 1.
            threads: how many to use.
        """

    @abstractmethod
    def step(self, memory: Memory | None, x: Tensor) -> Memory:
        """The sums with one more element of each series; the given ones are left as they are.

        Args:
            memory: of the elements before, or None.
            x: (cases, channels) float32.
        """

    @abstractmethod
    def features(self, memory: Memory) -> Features:
        """What the sums say."""


def level_of(x: Tensor, lengths: Tensor, level: int) -> tuple[Tensor, Tensor]:
    """Paths (cases, channels, length) on a level of their pyramid, and their lengths there."""
    every = 2**level
    if every == 1:
        return x, lengths
    count = x.shape[2] // every
    means = (
        x[:, :, : count * every].unflatten(2, (count, every)).mean(-1, dtype=torch.float64).float()
    )
    short = lengths < every
    if bool(short.any()):
        inside = x[short] * valid_mask(lengths[short], x.shape[2]).unsqueeze(1)
        if count == 0:
            means = x.new_zeros(*x.shape[:2], 1)
        means[short, :, 0] = inside.sum(-1) / lengths[short, None]
    return means, (lengths // every).clamp_min(1)


class Training(ABC):
    """Training paths, from which pools are drawn.

    Attributes:
        channels: of all of them.
        lengths: (cases,).
    """

    channels: int
    lengths: Tensor

    def __len__(self) -> int:
        """How many there are."""
        return len(self.lengths)

    @abstractmethod
    def read(self, indices: Tensor) -> Tensor:
        """Some of them: (chosen, channels, length)."""

    def among(self, indices: Tensor, level: int) -> tuple[Tensor, Tensor, Tensor]:
        """Some paths on a level of their pyramid, those asked for among them.

        Returns:
            (some, channels, length), their lengths there, and the places of those asked for.
        """
        some, places = indices.unique(return_inverse=True)
        return *level_of(self.read(some), self.lengths[some], level), places


class Held(Training):
    """Paths in memory.

    Args:
        x: (cases, channels, length).
        lengths: (cases,).
    """

    def __init__(self, x: Tensor, lengths: Tensor) -> None:
        """Keep them."""
        self._x, self.channels, self.lengths = x, x.shape[1], lengths
        self._levels: dict[int, tuple[Tensor, Tensor]] = {}

    def read(self, indices: Tensor) -> Tensor:
        """Some of them."""
        return self._x[indices]

    def among(self, indices: Tensor, level: int) -> tuple[Tensor, Tensor, Tensor]:
        """All of them; a level is made once for those who ask in turn."""
        if level not in self._levels:
            self._levels = {level: level_of(self._x, self.lengths, level)}
        return *self._levels[level], indices


def octaves(length: int) -> int:
    """How often a series of that length can be halved to still have eight elements, at least once.

    >>> octaves(8), octaves(100), octaves(1000)
    (1, 4, 7)
    """
    return int(max(0.0, np.log2(max(1, length - 1) / 8))) + 1


def draw_mixes(count: int, channels: int, random: np.random.Generator, most: int = 9) -> Tensor:
    """Gaussian mixtures of a few random channels each: (count, channels) float32."""
    mixes = np.zeros((count, channels), dtype=np.float32)
    for row in mixes:
        few = min(channels, int(2 ** (random.uniform() * np.log2(min(channels, most) + 1))))
        chosen = random.permutation(channels)[:few]
        row[chosen] = 1.0 if channels == 1 else random.standard_normal(few) / np.sqrt(few)
    return torch.from_numpy(mixes)


def following(past: Tensor, x: Tensor) -> Tensor:
    """The past (cases, channels, size) one step later."""
    return torch.cat([past[:, :, 1:], x.unsqueeze(-1)], -1)


def increments(x: Tensor) -> Tensor:
    """x_t - x_{t-1} along the last axis, and 0 at the start."""
    return torch.diff(x, dim=-1, prepend=x[..., :1])


class Parts:
    """The time of the longest series in training in equal parts; later elements are in the last.

    Args:
        count: how many parts.
        length: of the longest series.
        every: elements of the path in an element of the level.
    """

    def __init__(self, count: int, length: int, every: int = 1) -> None:
        """Where they begin and end, in elements of the level."""
        self.count, self.length, self.every = count, length, every
        edges = -(-torch.arange(count + 1) * length // (count * every))
        self.starts = edges[:-1]

    def bounds(self, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """First elements of the parts and of what follows them, (cases, parts) each."""
        first = torch.minimum(self.starts, lengths[:, None])
        last = torch.cat([first[:, 1:], lengths[:, None]], 1)
        return first, last

    def sums(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Of x (cases, channels, length), in float64: (cases, channels, parts)."""
        inside = x.double() * valid_mask(lengths, x.shape[-1]).unsqueeze(1)
        totals = torch.nn.functional.pad(inside.cumsum(-1), (1, 0))
        first, last = (b.unsqueeze(1).expand(-1, x.shape[1], -1) for b in self.bounds(lengths))
        return totals.gather(-1, last) - totals.gather(-1, first)

    def counts(self, lengths: Tensor) -> Tensor:
        """How many elements are in each part, (cases, parts)."""
        first, last = self.bounds(lengths)
        return last - first

    def now(self, count: int) -> int:
        """The part of an element before which so many came."""
        return int(torch.searchsorted(self.starts, count, right=True)) - 1

    def means(self, sums: Tensor, lengths: Tensor) -> Tensor:
        """Sums (cases, ..., parts) over counts; a part that has not come has the mean of all."""
        shape = (len(lengths), *(1,) * (sums.ndim - 2), self.count)
        counts = self.counts(lengths).reshape(shape)
        whole = sums.sum(-1, keepdim=True) / lengths.reshape(-1, *(1,) * (sums.ndim - 1))
        return torch.where(counts > 0, sums / counts.clamp_min(1), whole)


HIGHEST = 40
LARGEST = {"dilation": 8, "window": 8, "parts": 32, "length": 2**40}


def check_level(level: int, **numbers: int) -> None:
    """Raise ValueError unless a level and other numbers of a pool are in their ranges."""
    if not isinstance(level, int) or not 0 <= level <= HIGHEST:
        raise ValueError(f"level={level!r}; expected one of 0..{HIGHEST}")
    for name, number in numbers.items():
        if not isinstance(number, int) or not 1 <= number <= LARGEST[name]:
            raise ValueError(f"{name}={number!r}; expected one of 1..{LARGEST[name]}")


def check_floats(*tensors: Tensor) -> None:
    """Raise TypeError unless tensors are in float32."""
    for x in tensors:
        if x.dtype != torch.float32:
            raise TypeError(f"a tensor is in {x.dtype}; expected torch.float32")
