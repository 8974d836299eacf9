"""Long series in a few hundred steps: the mean of each window, how rough it is, and the change.

For the elements x_t of window w, and y_w the standardised pair below, a network sees (y_w, Δy_w):

    mean_w = mean of x_t,    rough_w = log(ε + mean of (x_t - x_{t-1})²),    Δy_w = y_w - y_{w-1}

Windows of one element have no roughness, and the first change is zero. All of it is causal: inside
a window, the mean so far stands for the mean.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.checks import check_floating, check_shape
from slicekit.descriptions.checks import check_size
from slicekit.estimators.preparation import moments
from slicekit.paths import valid_mask

FLOOR = 1e-4
CLIP = 5.0


@dataclass(frozen=True, eq=False)
class Partial:
    """What a stream must remember of the current window, and of the one before.

    Args:
        count: elements in the current window.
        sums: (batch, channels) of them; `squares`: of the squares of their differences.
        last: (batch, channels), the last element.
        before: (batch, features), the window before, standardised, or None.
    """

    count: int
    sums: Tensor
    squares: Tensor
    last: Tensor
    before: Tensor | None


@dataclass(frozen=True, eq=False)
class Windows:
    """A causal map from elements to the features of windows.

    Args:
        size: elements in a window.
        rough: how many of the elements' channels, from the first on, have a roughness.
        centre, spread: (channels + rough,) of means and roughnesses in training.
        change: (channels + rough,) usual size of their changes.
    """

    size: int
    rough: int
    centre: Tensor
    spread: Tensor
    change: Tensor

    def __post_init__(self) -> None:
        """Check that the parts fit together: they may come from a file."""
        check_size("size", self.size)
        if self.rough != 0:
            check_size("rough", self.rough)
        for name in ("centre", "spread", "change"):
            check_shape(name, getattr(self, name), (len(self.centre),))
            check_floating(name, getattr(self, name))
        if 2 * self.rough > len(self.centre):
            raise ValueError(f"rough={self.rough} of {len(self.centre)} channels in all")

    @classmethod
    def fit(cls, size: int, rough: int, elements: Tensor, lengths: Tensor) -> "Windows":
        """From the elements (cases, length, channels) of the training data."""
        rough = rough if size > 1 else 0
        width = elements.shape[-1] + rough
        plain = cls(size, rough, torch.zeros(width), torch.ones(width), torch.ones(width))
        summaries = plain._summaries(elements, lengths)
        valid = valid_mask(plain.lengths(lengths), summaries.shape[1])
        channels = [moments(summaries[..., i][valid].double()) for i in range(width)]
        centre = torch.tensor([x for x, _ in channels])
        spread = torch.tensor([x if x > 1e-6 else 1.0 for _, x in channels])
        moved = torch.diff((summaries - centre) / spread, dim=1)[valid[:, 1:]]
        size_of_change = moved.pow(2).mean(0).sqrt() if len(moved) else torch.zeros(width)
        change = torch.where(size_of_change > 1e-6, size_of_change, 1.0)
        return cls(size, rough, centre, spread, change)

    @property
    def channels(self) -> int:
        """Channels of the features."""
        return 2 * self.centre.shape[0]

    def lengths(self, lengths: Tensor) -> Tensor:
        """How many windows there are: the last may be shorter."""
        return (lengths + self.size - 1) // self.size

    def __call__(self, elements: Tensor, lengths: Tensor) -> Tensor:
        """Elements (cases, length, channels) -> features (cases, windows, channels)."""
        summaries = (self._summaries(elements, lengths) - self.centre) / self.spread
        features = self._features(summaries, None)
        past = ~valid_mask(self.lengths(lengths), features.shape[1])
        return features.masked_fill(past.unsqueeze(-1), 0)

    def advance(self, element: Tensor, partial: Partial | None) -> tuple[Tensor, Partial, bool]:
        """Features of the current window with one more element.

        Args:
            element: (batch, channels).
            partial: what was remembered, or None at the start.

        Returns:
            (batch, channels of features), what to remember, and whether the window is complete.
        """
        if partial is None:
            nothing = torch.zeros_like(element)
            partial = Partial(0, nothing, nothing, element, None)
        count, sums = partial.count + 1, partial.sums + element
        squares = partial.squares + (element - partial.last).pow(2)
        summary = (self._summary(sums / count, squares / count) - self.centre) / self.spread
        features = self._features(summary[:, None], partial.before)[:, 0]
        complete = count == self.size
        if complete:
            nothing = torch.zeros_like(element)
            return features, Partial(0, nothing, nothing, element, summary), True
        return features, Partial(count, sums, squares, element, partial.before), False

    def _summaries(self, elements: Tensor, lengths: Tensor) -> Tensor:
        """(cases, length, channels) -> (cases, windows, channels + rough), not standardised."""
        if self.size == 1:
            return elements
        valid = valid_mask(lengths, elements.shape[1])
        inside = elements.masked_fill(~valid.unsqueeze(-1), 0)
        moved = torch.diff(elements, dim=1, prepend=elements[:, :1])
        squares = moved.pow(2).masked_fill(~valid.unsqueeze(-1), 0)
        count = self._sums(valid.unsqueeze(-1).float()).clamp_min(1)
        return self._summary(self._sums(inside) / count, self._sums(squares) / count)

    def _sums(self, x: Tensor) -> Tensor:
        size = min(self.size, x.shape[1])
        padded = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[1] % size))
        return padded.unflatten(1, (-1, size)).sum(2)

    def _summary(self, mean: Tensor, square: Tensor) -> Tensor:
        return torch.cat([mean, (FLOOR + square[..., : self.rough]).log()], -1)

    def _features(self, summaries: Tensor, before: Tensor | None) -> Tensor:
        first = summaries[:, :1] if before is None else before[:, None]
        moved = torch.diff(summaries, dim=1, prepend=first) / self.change
        return torch.cat([summaries, moved], -1).clamp(-CLIP, CLIP)
