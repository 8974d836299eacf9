"""One pass over a batch: the objective of training, and its gradient."""

from contextlib import ExitStack
from typing import Any, cast

import torch
from torch import Tensor, nn

from slicekit.paths import alike
from slicekit.tasks.base import Batch
from slicekit.tasks.losses import Loss
from slicekit.training.captured import CapturedFeatures, head_of, last_mixer_of
from slicekit.training.clusters import joint_clusters
from slicekit.training.evaluation import check_logits, device_of
from slicekit.training.pressure import CapturedLayers
from slicekit.training.processes import Processes
from slicekit.training.settings import Settings
from slicekit.training.terms import Labels, spread

MOSTLY = 4
"""A batch of series so many times as large as its observations is run by groups of like length."""


class Objective:
    """What training makes small, with its gradient; a context while features are to be caught.

        mean loss + penalty · Σ|A|_F + consistency · accuracy⁴ · spread
            + pressure · (isometry · defect + growth · grown + drift · drifted)
            + mean loss of the task's extra batch

    The spread counts in earnest only where most answers are right. Earlier it would be made small
    by telling a few large classes apart, and hold the model there.

    Series of which one is far longer than the others go through the model in groups of similar
    lengths, so that memory follows what was observed; their features are then not compared with
    each other, so that consistency and the like take the batch as it is.

    Args:
        model: called as model(inputs, lengths=lengths).
        loss: the task's.
        settings: penalty, consistency and what is consistent, growth, isometry, drift and autocast
            count.
        processes: which share out every batch. Gradients are those of the joint batch, by torch's
            engine where there are several; figures are those of this process, and add up.

    Raises:
        ValueError: if the settings ask for a penalty or features that the model does not have.
    """

    def __init__(
        self, model: nn.Module, loss: Loss, settings: Settings, processes: Processes
    ) -> None:
        """Find what the settings ask for in the model."""
        if settings.penalty and not hasattr(model, "regularisation"):
            raise ValueError(
                f"penalty={settings.penalty}, but {type(model).__name__} has no method "
                "regularisation(); set penalty=0"
            )
        self._terms, self._processes = _Terms(model, loss, settings, processes), processes
        self._engine = processes.engine(self._terms)
        self._open = ExitStack()

    def __enter__(self) -> "Objective":
        """Start to listen to features and layers."""
        for captured in (self._terms.captured, self._terms.layers):
            if captured is not None:
                self._open.enter_context(captured)
        return self

    def __exit__(self, *error: object) -> None:
        """Stop to listen."""
        self._open.close()

    def backward(self, joint: Batch, extra: Batch | None, pressure: float = 0.0) -> Tensor:
        """Add the gradient of the joint batch to that of the parameters.

        Args:
            joint: the batch of all processes, on the CPU.
            extra: the task's extra batch, of all processes, or None.
            pressure: share of their weights that isometry, growth and drift have.

        Returns:
            (4,): the objective, the mean loss, the share of right answers and the spread, each this
            process's part of it.

        Raises:
            ValueError: if no position is supervised, or the logits have the wrong shape.
        """
        total, figures = self._engine(joint, extra, pressure)
        self._processes.backward(total)
        return figures


class _Terms(nn.Module):
    """The objective as one module, so that an engine sees every use of a parameter in it."""

    def __init__(
        self, model: nn.Module, loss: Loss, settings: Settings, processes: Processes
    ) -> None:
        super().__init__()
        self.model, self._loss = model, loss
        self._settings, self._processes = settings, processes
        self._device = device_of(model)
        self.captured = _captured(model, settings) if settings.consistency else None
        carried = settings.growth or settings.isometry or settings.drift
        self.layers = CapturedLayers(model, processes) if carried else None

    def forward(self, joint: Batch, extra: Batch | None, pressure: float) -> tuple[Tensor, Tensor]:
        """This process's part of the objective, and of the figures."""
        loss, right, labels = self._run(joint)
        total, apart = loss, torch.zeros_like(loss)
        if self._settings.penalty:
            norms = cast(Any, self.model).regularisation()
            total = total + self._settings.penalty / self._processes.count * norms
        if self.layers is not None:
            settings, share = self._settings, self._processes.share(joint)
            weighed = self.layers.take(settings.isometry, settings.growth, settings.drift)
            total = total + pressure * share * weighed
        if self.captured is not None:
            if joint.wants_numbers:
                raise ValueError(
                    f"consistency={self._settings.consistency} of a task that wants numbers; "
                    "expected 0, since there are no classes"
                )
            apart = self._apart(labels.select(self._caught(joint)), labels.targets, joint)
            accuracy = right.clone()
            self._processes.add_up(accuracy)
            total = total + self._settings.consistency * accuracy**4 * apart
        if extra is not None and self._processes.own(extra).inputs.shape[0]:
            total = total + self._run(extra)[0]
        figures = torch.stack([total, loss, right, apart])
        return total, figures.detach()

    def _apart(self, features: Tensor, classes: Tensor, joint: Batch) -> Tensor:
        """The spread of this process's features, (positions, size), about means of all."""
        if self._settings.consistent_clusters:
            classes, counts = joint_clusters(features.detach(), classes, self._processes)
        else:
            counts = torch.bincount(joint.targets[joint.supervised].to(self._device))
            if joint.is_series:
                counts = counts * self._processes.sequence
        return spread(features, classes, counts, self._processes)

    def _caught(self, joint: Batch) -> Tensor:
        """What is compared, (batch, positions, size)."""
        assert self.captured is not None
        features = self.captured.take()
        places = self._processes.own(joint).supervised.shape
        if features.shape[:2] != places:
            raise ValueError(
                f"consistent_states={self._settings.consistent_states}, but the vectors to compare "
                f"stand at {features.shape[1]} positions and the answers at {places[1]}; expected "
                "a model that answers at every position, or consistent_states=False"
            )
        return features

    def _run(self, joint: Batch) -> tuple[Tensor, Tensor, Labels]:
        """Mean loss and share of right answers, each this process's part of it."""
        count = int(joint.supervised.sum())
        if count == 0:
            raise ValueError("the task drew a batch without a supervised position")
        if joint.is_series:
            count *= self._processes.sequence  # each part's process has the answers to the whole
        size = count * _mean_weight(joint)
        batch = self._processes.own(joint)
        labels = Labels.of(batch, self._device)
        chosen = labels.select(self._logits(batch))
        right = self._loss.right(chosen, labels.targets).sum()
        loss = self._loss.total(chosen, labels.targets, labels.weights) / size
        return loss, right.to(loss.dtype) / count, labels

    def _logits(self, batch: Batch) -> Tensor:
        """The model's answer, (batch, positions, outputs), without the cost of much padding."""
        together = self.captured is not None or self.layers is not None
        together = together or self._processes.sequence > 1
        if together or not batch.is_series or not _mostly_padding(batch):
            return self._call(batch)
        groups = alike(batch.lengths)
        answers = torch.cat([self._call(batch.part(rows).cut()) for rows in groups])
        return answers[torch.cat(groups).argsort().to(answers.device)]

    def _call(self, batch: Batch) -> Tensor:
        device = self._device
        with torch.autocast(device.type, torch.bfloat16, enabled=self._settings.autocast):
            logits = self.model(batch.inputs.to(device), lengths=batch.lengths.to(device))
        return check_logits(logits, batch)


def _captured(model: nn.Module, settings: Settings) -> CapturedFeatures:
    """What is compared within a class."""
    if settings.consistent_states:
        return CapturedFeatures(last_mixer_of(model), given=True)
    return CapturedFeatures(head_of(model))


def _mean_weight(batch: Batch) -> float:
    """Of the supervised positions; batches in which nothing counts have a loss of 0."""
    if batch.weights is None:
        return 1.0
    supervised = batch.supervised.sum(1)
    mean = float(batch.weights @ supervised.float()) / float(supervised.sum())
    return mean or 1.0


def _mostly_padding(batch: Batch) -> bool:
    sequences, width = batch.inputs.shape[:2]
    return sequences * width > MOSTLY * int(batch.lengths.sum())
