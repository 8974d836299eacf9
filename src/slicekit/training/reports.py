"""What a run tells while it goes on and when it ends."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn


@dataclass(frozen=True)
class Report:
    """How it stands after a step; also a line of metrics.jsonl.

    Args:
        step: how many updates were made.
        kind: "train" or "validation".
        loss: mean over the supervised positions of the task's loss, which is cross-entropy.
        accuracy: share of them at which the largest logit is that of the target.
        rate: the learning rate of the last update.
        longest: the longest length drawn from.
        seconds: training time so far, that before a resume included.
        tokens_per_second: how many tokens went through the model in a second.
        gradient_norm: before it was clipped; None for a validation.
        spread: of the features within their class; None unless `consistency` asks for it.
    """

    step: int
    kind: str
    loss: float
    accuracy: float
    rate: float
    longest: int
    seconds: float
    tokens_per_second: float
    gradient_norm: float | None = None
    spread: float | None = None

    def as_record(self) -> dict[str, Any]:
        """The fields that have a value, by name."""
        return {name: x for name, x in asdict(self).items() if x is not None}


@dataclass(frozen=True, eq=False)
class Result:
    """What `train` returns.

    Args:
        model: the trained model, in evaluation mode, with averaged weights if an average was kept.
        steps: how many updates were made.
        seconds: training time, that before a resume included.
        best_accuracy: the validation accuracy of the best weights; NaN, as the next ones, where
            nothing is held out to validate on.
        best_step: when it was reached, the last time if more than once.
        accuracy: the last validation accuracy.
        loss: the last validation loss.
        reason: why it stopped: "steps", "stop_at" or "patience".
        folder: the run folder, or None.
    """

    model: nn.Module
    steps: int
    seconds: float
    best_accuracy: float
    best_step: int
    accuracy: float
    loss: float
    reason: str
    folder: Path | None


class Watcher:
    """Hears of everything that happens in a run; this one pays no attention.

    In a run of several processes only the first has a watcher that is told.
    """

    def started(self, total_steps: int, from_step: int) -> None:
        """Training begins, perhaps after the steps of an earlier process."""

    def stepped(self, report: Report) -> None:
        """An update was made; the report is of that step alone."""

    def evaluated(self, report: Report) -> None:
        """A validation was made."""

    def finished(self, result: Result) -> None:
        """Training has ended."""


class Diverged(RuntimeError):
    """Training left the range of finite numbers.

    Args:
        step: the update that could not be made.
        what: what was not finite, and its value.
        checkpoint: the last checkpoint, which is from before; None if there is none.
    """

    def __init__(self, step: int, what: str, checkpoint: Path | None = None) -> None:
        """Say what happened and what to try."""
        kept = (
            "no checkpoint was kept, since the run has no folder"
            if checkpoint is None
            else f"the last good checkpoint is {checkpoint}"
        )
        super().__init__(
            f"training diverged at step {step}: {what}; {kept}. Try a lower rate, a smaller clip, "
            "SLiCE(..., projective=True), or an Orthogonal structure"
        )
        self.step, self.what, self.checkpoint = step, what, checkpoint
