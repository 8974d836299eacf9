"""What a task wants of a model's answers: a loss that training makes small, and a score by which
validation chooses.

Answers are in rows, (positions, outputs), one for each supervised position; so are targets: classes
(positions,), or numbers (positions, outputs).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn


class Loss(ABC):
    """A loss of single answers; those of several are added up."""

    @abstractmethod
    def each(self, answers: Tensor, targets: Tensor) -> Tensor:
        """The loss of every position, (positions,)."""

    def total(self, answers: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """The sum over the positions, each as often as its weight says: a scalar."""
        losses = self.each(answers, targets)
        return losses.sum() if weights is None else losses @ weights

    def plain(self) -> "Loss":
        """The same without what only helps training; it is what validation sees."""
        return self

    @abstractmethod
    def right(self, answers: Tensor, targets: Tensor) -> Tensor:
        """Which answers are right, (positions,) bool."""

    @abstractmethod
    def score(self, loss: float, accuracy: float) -> float:
        """What validation wants to be large, of the mean loss and the share of right answers."""


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """Of logits and classes; models are chosen by their accuracy.

    Args:
        smoothing: the share of a target, in training, that all classes have alike.
        by_loss: whether models are chosen by their loss instead.
    """

    smoothing: float = 0.0
    by_loss: bool = False

    def each(self, answers: Tensor, targets: Tensor) -> Tensor:
        """-Σ_k q_k log p_k."""
        return nn.functional.cross_entropy(
            answers, targets, reduction="none", label_smoothing=self.smoothing
        )

    def total(self, answers: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """The sum over the positions, in one call where they count alike."""
        if weights is not None:
            return super().total(answers, targets, weights)
        return nn.functional.cross_entropy(
            answers, targets, reduction="sum", label_smoothing=self.smoothing
        )

    def plain(self) -> "CrossEntropy":
        """-log p_y."""
        return CrossEntropy(0.0, self.by_loss)

    def right(self, answers: Tensor, targets: Tensor) -> Tensor:
        """Where the largest logit is that of the target."""
        if answers.device.type == "cpu":
            # numpy's is three times as fast as torch's, and agrees with it also on ties and NaN.
            return torch.from_numpy(answers.detach().numpy().argmax(-1)) == targets
        return answers.argmax(-1) == targets

    def score(self, loss: float, accuracy: float) -> float:
        """The accuracy, or the loss with a sign."""
        return -loss if self.by_loss else accuracy


@dataclass(frozen=True)
class SquaredError(Loss):
    """The mean over the outputs of the squared difference; no answer is exactly right."""

    def each(self, answers: Tensor, targets: Tensor) -> Tensor:
        """|y - ŷ|² / outputs."""
        return (answers - targets).square().mean(-1)

    def right(self, answers: Tensor, targets: Tensor) -> Tensor:
        """Nowhere."""
        return torch.zeros(len(answers), dtype=torch.bool, device=answers.device)

    def score(self, loss: float, accuracy: float) -> float:
        """The loss with a sign."""
        return -loss
