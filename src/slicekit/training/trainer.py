"""A run in memory: all that a checkpoint holds, and the step that moves it."""

import math
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from types import TracebackType

import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from slicekit.tasks.base import Batch, Task
from slicekit.training.average import Average
from slicekit.training.checkpoints import Checkpoint
from slicekit.training.curriculum import make_curriculum
from slicekit.training.evaluation import PART, POSITIONS, Tally, device_of, tally
from slicekit.training.objective import Objective
from slicekit.training.optimiser import (
    make_optimiser,
    restore_moments,
    set_rate,
    stored_moments,
    trained_parameters,
)
from slicekit.training.pressure import Pressure
from slicekit.training.processes import Processes
from slicekit.training.progress import Progress
from slicekit.training.randomness import dropout_state, restore_dropout
from slicekit.training.reports import Diverged, Report
from slicekit.training.schedule import learning_rate
from slicekit.training.seeds import derived_seed
from slicekit.training.settings import Settings

TINY = 1e-12


class Trainer:
    """Moves a model from step to step; a context, because it listens to the model meanwhile.

    Args:
        model: what is trained, where it is and in the dtype it has.
        task: what draws the batches.
        settings: how.
        processes: with which it is trained together.

    Raises:
        ValueError: if settings, task and model do not fit together.
    """

    def __init__(
        self, model: nn.Module, task: Task, settings: Settings, processes: Processes
    ) -> None:
        """Prepare everything, without a step."""
        if settings.batch < processes.shares:
            raise ValueError(
                f"batch={settings.batch}; expected at least one sequence for each of "
                f"{processes.shares} processes"
            )
        self.model, self.task, self.settings, self.processes = model, task, settings, processes
        self.progress = Progress()
        # From then on all processes have the weights of the first.
        self._objective = Objective(model, task.loss, settings, processes)
        self._device = device_of(model)
        self._parameters = list(trained_parameters(model).values())
        self._lengths = settings.lengths or task.train_lengths
        self._validation_lengths = settings.validation_lengths or task.validation_lengths
        self._curriculum = make_curriculum(settings, self._lengths)
        self._pressure = Pressure(settings, self._lengths[1])
        self._optimiser = make_optimiser(model, settings)
        self._average = None if settings.average is None else Average(model, settings.average)
        self._data = torch.Generator().manual_seed(settings.seed)
        # What is wrong with the range of lengths should come out now, not at the first validation.
        if task.held_out and task.batches("validation") is None:
            task.sample(1, self._validation_lengths, torch.Generator(), "validation")

    def __enter__(self) -> "Trainer":
        """Start the clock."""
        self._cut = self.processes.cut_for(self.model)
        self._cut.__enter__()
        self._objective.__enter__()
        self._earlier, self._began = self.progress.seconds, time.perf_counter()
        self.model.train()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the model go."""
        self._objective.__exit__(kind, error, trace)
        self._cut.__exit__(kind, error, trace)

    def step(self) -> Report:
        """Make one update.

        Raises:
            Diverged: if the objective or its gradient is not finite; the weights are then those of
                the step before.
        """
        began, progress, settings = time.perf_counter(), self.progress, self.settings
        longest = self._curriculum.longest(progress.step)
        rate = learning_rate(progress.step, settings)
        batch = self._draw(longest)
        self._optimiser.zero_grad(set_to_none=True)
        helper = self.task.helper(settings.batch, self._data)
        pressure = self._pressure.share(longest)
        figures = self._objective.backward(batch, helper, pressure)
        gradients = [x.grad for x in self._parameters if x.grad is not None]
        self.processes.add_up(figures)
        norm = get_total_norm(gradients)
        objective, loss, accuracy, spread, size = torch.cat([figures, norm.reshape(1)]).tolist()
        self._check_finite(objective, size)
        if settings.clip is not None and size > settings.clip:
            clip_grads_with_norm_(self._parameters, settings.clip, norm)
        set_rate(self._optimiser, rate)
        self._optimiser.step()
        if self._average is not None:
            self._average.update()
        self._curriculum.observe(accuracy)
        self._pressure.observe(accuracy)
        progress.step += 1
        if progress.step == settings.steps:
            progress.stopped = "steps"
        tokens, seconds = int(batch.lengths.sum()), time.perf_counter() - began
        report = Report(
            step=progress.step,
            kind="train",
            loss=loss,
            accuracy=accuracy,
            rate=rate,
            longest=longest,
            seconds=self.seconds,
            tokens_per_second=tokens / seconds,
            gradient_norm=size,
            spread=spread if settings.consistency else None,
        )
        progress.note(report, tokens, seconds)
        return report

    def _draw(self, longest: int) -> Batch:
        lengths = (self._lengths[0], longest)
        if not self.settings.mixed_lengths:
            drawn = torch.randint(lengths[0], longest + 1, (), generator=self._data)
            lengths = (int(drawn), int(drawn))
        return self.task.sample(self.settings.batch, lengths, self._data, "train")

    def _check_finite(self, objective: float, size: float) -> None:
        step = self.progress.step + 1
        if not math.isfinite(objective):
            raise Diverged(step, f"the loss is {objective}")
        if not math.isfinite(size):
            raise Diverged(step, f"the norm of the gradient is {size}")

    @property
    def seconds(self) -> float:
        """Training time so far, that before a resume included."""
        return self._earlier + time.perf_counter() - self._began

    def record(self) -> Report:
        """The means of the steps since the last record."""
        return self.progress.record(self.seconds, bool(self.settings.consistency))

    def averaged(self) -> AbstractContextManager[None]:
        """The weights that count: the averaged ones, if there is an average."""
        return nullcontext() if self._average is None else self._average.in_model()

    def validate(self) -> Report:
        """Measure the model on the validation set, the same one each time."""
        settings, progress, began = self.settings, self.progress, time.perf_counter()
        total, tokens = Tally(), 0
        with self.averaged():
            for batch in self._validation_batches():
                tokens += int(batch.lengths.sum())
                for shown in self._shown(batch):
                    whole = self.processes.sequence > 1
                    part = max(PART, shown.inputs.shape[1]) if whole else PART
                    total += tally(self.model, shown, part, self.task.loss)
        counts = torch.tensor(total.as_tuple(), dtype=torch.float64)
        self.processes.add_up(counts)
        positions, right, loss, *_, weight = counts.tolist()
        if positions == 0:
            raise ValueError("the task drew a validation set without a supervised position")
        report = Report(
            step=progress.step,
            kind="validation",
            loss=loss / max(weight, TINY),
            accuracy=right / positions,
            rate=learning_rate(progress.step, settings),
            longest=self._validation_lengths[1],
            seconds=self.seconds,
            tokens_per_second=tokens / (time.perf_counter() - began),
        )
        score = self.task.loss.score(report.loss, report.accuracy)
        progress.judge(report, score, settings)
        return report

    def _shown(self, batch: Batch) -> Iterator[Batch]:
        """What this process sees of a batch: its sequences, or its part of a few at a time."""
        if self.processes.sequence == 1:
            yield self.processes.own(batch)
            return
        count, width = batch.inputs.shape[:2]
        rows = max(self.processes.shares, POSITIONS // width)
        for start in range(0, count, rows):
            yield self.processes.own(batch.part(slice(start, start + rows)))

    def _validation_batches(self) -> Iterator[Batch]:
        """All cases of a finite set, or so many random batches, the same ones each time."""
        settings = self.settings
        whole = self.task.batches("validation")
        if whole is not None:
            yield from whole
            return
        generator = torch.Generator().manual_seed(derived_seed(settings.seed, "validation"))
        for _ in range(settings.validation_batches):
            yield self.task.sample(
                settings.batch, self._validation_lengths, generator, "validation"
            )

    def checkpoint(self) -> Checkpoint:
        """The run as it is now.

        Raises:
            Diverged: if a weight is not finite.
        """
        for name, x in trained_parameters(self.model).items():
            if not bool(x.isfinite().all()):
                raise Diverged(self.progress.step, f"{name} holds a weight that is not finite")
        self.progress.seconds = self.seconds
        average = {} if self._average is None else self._average.tensors
        dropout = self.processes.gather(dropout_state(self._device))
        parts = {
            "model": self.model.state_dict(),
            "optimiser": stored_moments(self._optimiser, self.model),
            "average": average,
            "random": {"data": self._data.get_state()}
            | {f"dropout-{rank}": state for rank, state in enumerate(dropout)},
        }
        tensors = {f"{part}/{k}": x for part, held in parts.items() for k, x in held.items()}
        numbers = {
            "progress": asdict(self.progress),
            "curriculum": self._curriculum.state(),
            "pressure": self._pressure.state(),
            "processes": self.processes.count,
            "device": self._device.type,
        }
        return Checkpoint(self.progress.step, tensors, numbers)

    def restore(self, stored: Checkpoint) -> None:
        """Go on from a checkpoint.

        Raises:
            ValueError: if it is of another model.
        """
        _load(self.model, stored)
        restore_moments(self._optimiser, self.model, stored.part("optimiser"))
        if self._average is not None:
            self._average.restore(stored.part("average"))
        random = stored.part("random")
        self._data.set_state(random["data"])
        if stored.numbers["processes"] != self.processes.count:
            warnings.warn(
                f"the run had {stored.numbers['processes']} processes, and goes on with "
                f"{self.processes.count}: the figures will agree to rounding only, and not at all "
                "with dropout",
                stacklevel=4,
            )
        before, now = stored.numbers.get("device", "cpu"), self._device.type
        if before != now:
            warnings.warn(
                f"the run was on {before}, and goes on with {now}: the figures will agree to "
                "rounding only, and not at all with dropout",
                stacklevel=4,
            )
        elif f"dropout-{self.processes.rank}" in random:
            restore_dropout(self._device, random[f"dropout-{self.processes.rank}"])
        self._curriculum.restore(stored.numbers["curriculum"])
        self._pressure.restore(stored.numbers["pressure"])
        self.progress = Progress(**stored.numbers["progress"])

    def finish(self) -> None:
        """Give the model the weights that count, and put it into evaluation mode."""
        if self._average is not None:
            self._average.copy_to_model()
        self.model.eval()


def _load(model: nn.Module, stored: Checkpoint) -> None:
    """Give a model the tensors of a checkpoint, if they are those of such a model."""
    tensors = stored.part("model")
    for name, present in model.state_dict().items():
        if name in tensors and tensors[name].dtype != present.dtype:
            raise ValueError(
                f"the checkpoint of step {stored.step} has {name} in {tensors[name].dtype}, but "
                f"the model in {present.dtype}"
            )
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(
            f"the checkpoint of step {stored.step} is of another model: {error}"
        ) from error
