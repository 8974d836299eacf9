"""How far a run has come, in plain numbers that a checkpoint can hold."""

import math
from dataclasses import dataclass, field

from slicekit.training.reports import Report
from slicekit.training.settings import Settings


@dataclass
class Progress:
    """The state of a run, but for its tensors.

    Args:
        step: how many updates were made.
        seconds: training time.
        best_accuracy: the validation accuracy of the best weights, None before the first.
        best_step: when they were last reached.
        stale: validations since the score, by default the accuracy, last became better.
        accuracy: the last validation accuracy.
        loss: the last validation loss.
        stopped: why training ended, None while it has not.
        sums: of the figures of the steps since the last record, by name.
        best_score: of the best weights; None where it is their accuracy.
    """

    step: int = 0
    seconds: float = 0.0
    best_accuracy: float | None = None
    best_step: int = 0
    stale: int = 0
    accuracy: float = 0.0
    loss: float = 0.0
    stopped: str | None = None
    sums: dict[str, float] = field(default_factory=dict)
    best_score: float | None = None

    def note(self, report: Report, tokens: int, seconds: float) -> None:
        """Take the report of a step of training into the sums.

        Args:
            report: of that step alone.
            tokens: how many it was about.
            seconds: how long it took.
        """
        figures = {
            "steps": 1,
            "tokens": tokens,
            "seconds": seconds,
            "loss": report.loss,
            "accuracy": report.accuracy,
            "gradient_norm": report.gradient_norm or 0.0,
            "spread": report.spread or 0.0,
        }
        for name, x in figures.items():
            self.sums[name] = self.sums.get(name, 0) + x
        self.sums["rate"], self.sums["longest"] = report.rate, report.longest

    def record(self, seconds: float, with_spread: bool) -> Report:
        """The means over the steps since the last record, which are then forgotten.

        Args:
            seconds: training time so far.
            with_spread: whether the spread was measured.

        Returns:
            A report with the rate and the longest length of the last step.
        """
        sums, self.sums = self.sums, {}
        steps = sums["steps"]
        return Report(
            step=self.step,
            kind="train",
            loss=sums["loss"] / steps,
            accuracy=sums["accuracy"] / steps,
            rate=sums["rate"],
            longest=int(sums["longest"]),
            seconds=seconds,
            tokens_per_second=sums["tokens"] / sums["seconds"],
            gradient_norm=sums["gradient_norm"] / steps,
            spread=sums["spread"] / steps if with_spread else None,
        )

    def judge(self, validation: Report, score: float, settings: Settings) -> None:
        """Remember the best score, and stop when it is good enough or has not grown for long.

        Args:
            validation: what was found.
            score: of it, by the task's loss.
            settings: patience and stop_at count.
        """
        best = self.best_accuracy if self.best_score is None else self.best_score
        best = -math.inf if best is None else best
        self.accuracy, self.loss = validation.accuracy, validation.loss
        self.stale = 0 if score > best else self.stale + 1
        if score >= best:
            self.best_accuracy, self.best_step = validation.accuracy, validation.step
            self.best_score = score
        if self.stopped is None and self.stale == settings.patience:
            self.stopped = "patience"
        if settings.stop_at is not None and validation.accuracy >= settings.stop_at:
            self.stopped = "stop_at"
