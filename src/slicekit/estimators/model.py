"""What a solver gives: something that predicts from series, whole or as they arrive."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicekit.estimators.inputs import Cases


@dataclass(frozen=True)
class History:
    """How the fit of a member went.

    Args:
        steps: updates that were made; 0 for a closed form.
        validation: (step, loss) on cases that were held out, or left out one at a time.
        weights: of the blocks of features, by name; empty for a network.
    """

    steps: int
    validation: tuple[tuple[int, float], ...]
    weights: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Problem:
    """What to fit.

    Args:
        cases: the series.
        targets: (cases,) class indices, or (cases, targets) numbers with mean 0 and deviation 1.
        outputs: number of classes, or of targets.
        classes: whether the targets are classes.
        weights: (cases,) float64, positive, with mean 1.
        groups: (cases,) integers: validation holds out some of each.
        seed: of all that is random.
        threads: how many to use.
        device: where to fit.
        verbose: whether to show progress.
    """

    cases: Cases
    targets: Tensor
    outputs: int
    classes: bool
    weights: Tensor
    groups: Any
    seed: int
    threads: int
    device: torch.device
    verbose: bool


class Model(ABC):
    """Fitted members, whose outputs are logits of classes or scaled targets.

    Attributes:
        history: of each member.
    """

    history: tuple[History, ...]

    @property
    @abstractmethod
    def timed(self) -> bool:
        """Whether it was fitted with times."""

    @property
    @abstractmethod
    def channels(self) -> int:
        """Of the series."""

    @abstractmethod
    def outputs(self, cases: Cases, threads: int) -> Tensor:
        """Of whole series: (members, cases, outputs)."""

    @abstractmethod
    def advance(self, values: Tensor, times: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """Of series so far, with one more observation each.

        Args:
            values: (batch, channels) float64, with NaN in gaps.
            times: (batch,) float64.
            memory: what this returned for the observation before, or None.

        Returns:
            (members, batch, outputs), and what to remember.
        """
