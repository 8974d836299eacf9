"""Series as a network sees them: prepared, then summed up in windows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.estimators.inputs import Cases
from slicekit.estimators.preparation import Memory, Preparation
from slicekit.estimators.windows import Partial, Windows

AT_ONCE = 2**22
"""Values that are prepared at once, in float64."""


@dataclass(frozen=True, eq=False)
class FeaturesMemory:
    """What a stream must remember; see `Memory` and `Partial`."""

    memory: Memory
    partial: Partial


@dataclass(frozen=True, eq=False)
class Features:
    """A causal map from series to what a network sees of them.

    Args:
        preparation: observation by observation.
        windows: and window by window.
    """

    preparation: Preparation
    windows: Windows

    @classmethod
    def fit(cls, cases: Cases, window: int) -> "Features":
        """From the training data, for windows of that size."""
        preparation = Preparation.fit(cases)
        elements = _elements(preparation, cases)
        rough = preparation.inputs
        return cls(preparation, Windows.fit(window, rough, elements, cases.lengths))

    @property
    def channels(self) -> int:
        """Of what a network sees."""
        return self.windows.channels

    def __call__(self, cases: Cases) -> tuple[Tensor, Tensor]:
        """Whole series.

        Returns:
            (cases, windows, channels) float32, zero past the end, and the lengths (cases,).
        """
        elements = _elements(self.preparation, cases)
        return self.windows(elements, cases.lengths), self.windows.lengths(cases.lengths)

    def advance(
        self, observation: Tensor, time: Tensor, memory: FeaturesMemory | None
    ) -> tuple[Tensor, FeaturesMemory, bool]:
        """One more observation of each series.

        Args:
            observation: (batch, inputs), with NaN in gaps.
            time: (batch,) float64.
            memory: after the observation before, or None at the start.

        Returns:
            The features of the current window (batch, channels), what to remember, and whether the
            window is complete.
        """
        first, second = (None, None) if memory is None else (memory.memory, memory.partial)
        elements, first = self.preparation.advance(observation[:, None], time[:, None], first)
        features, second, complete = self.windows.advance(elements[:, 0], second)
        return features, FeaturesMemory(first, second), complete


def _elements(preparation: Preparation, cases: Cases) -> Tensor:
    """(cases, length, channels), a few cases at once."""
    length = cases.longest
    elements = torch.zeros(len(cases), length, preparation.channels)
    size = max(1, AT_ONCE // max(1, length * preparation.inputs))
    for some in torch.arange(len(cases)).split(size):
        part = cases.select(some)
        elements[some, : part.longest], _ = preparation.advance(*part.padded(), None)
    return elements
