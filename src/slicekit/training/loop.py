"""Training from the first step to the last, with everything that is kept on the way."""

import math
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from torch import nn

from slicekit.devices import Device, find_device
from slicekit.tasks.base import Task
from slicekit.training.checkpoints import Checkpoint
from slicekit.training.evaluation import as_task, device_of
from slicekit.training.folder import RunFolder
from slicekit.training.memory import keep_freed_memory
from slicekit.training.processes import Parallel, joined, own_device
from slicekit.training.randomness import own_randomness
from slicekit.training.reports import Diverged, Report, Result, Watcher
from slicekit.training.settings import Settings
from slicekit.training.trainer import Trainer


def train(
    model: nn.Module,
    task: Task | Callable[..., Any],
    settings: Settings | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    device: Device | None = None,
    parallel: Parallel | None = None,
    watch: Watcher | None = None,
    describe: Mapping[str, Any] | None = None,
) -> Result:
    """Train a model on a task.

    The same seed gives the same numbers, and on a CPU the same bits, also if the process was killed
    and the run resumed. Under `torchrun`, the processes share out every batch, and do together what
    one would do alone; the first writes the folder. Torch's own generators are left as they were;
    on a CPU, this process keeps freed memory from then on (see `keep_freed_memory`).

    Args:
        model: any module that is called as model(inputs, lengths=lengths) and gives logits (batch,
            length, outputs). It is trained in the dtype it has.
        task: what to learn: a task, or a function as `slicekit.tasks.from_function` takes it.
        settings: how; `Settings()` by default, and those of the run when it is resumed.
        folder: where to keep configuration, metrics, checkpoints and models; None keeps nothing.
        resume: whether to go on with the run in the folder; one that is not there is started.
        device: where to train, "cpu", "cuda" or "mps"; the model is moved there. None is where it
            is.
        parallel: what the processes of `torchrun` share out: the sequences of a batch by default,
            or parts of sequences too.
        watch: is told of every step, validation and the end.
        describe: plain data for config.toml besides the settings, such as the names of task and
            model.

    Returns:
        The trained model with the figures of the run.

    Raises:
        FileExistsError: if the folder holds a run that is not to be resumed.
        InUse: if another process is training in the folder.
        ValueError: if settings, task, model and folder do not fit together, the run to resume has
            results but no checkpoint, or there is no such device.
        DamagedCheckpoint: if the run's last checkpoint is damaged.
        Diverged: if loss or gradient are no longer finite.
        slicekit.parallel.LostRank: if another process has died.
        OSError: if a file can't be written; the message names it.

    Example:
        >>> from slicekit import Learned, Orthogonal, SLiCE, SequenceModel, tasks
        >>> model = SequenceModel(
        ...     vocabulary=3,
        ...     outputs=3,
        ...     width=8,
        ...     mixer=lambda width: SLiCE(width, Orthogonal(width, block=2), initial=Learned()),
        ... )
        >>> task = tasks.make("parity", validation_lengths=(20, 40))
        >>> train(model, task, Settings(steps=3, batch=8)).steps
        3
    """
    if folder is None and resume:
        raise ValueError("resume=True without a folder to resume from")
    task = as_task(task, model)
    if device is not None:
        model.to(own_device(find_device(device)))
    device = device_of(model)
    place = None if folder is None else RunFolder(folder)
    if device.type == "cpu":
        keep_freed_memory()
    with joined(device, parallel) as processes:
        chosen = processes.first(lambda: _settings(place, settings, resume))
        listener = watch if watch is not None and processes.rank == 0 else Watcher()
        with own_randomness(device, chosen.seed, processes.rank), ExitStack() as held:
            trainer = Trainer(model, task, chosen, processes)
            stored = processes.first(lambda: _open(place, chosen, resume, describe, held))
            if stored is not None:
                trainer.restore(stored)
            with trainer:
                keeper = _Keeper(trainer, place)
                try:
                    if stored is None:
                        keeper.checkpoint()
                    return _run(trainer, keeper, listener)
                except Diverged as fault:
                    last = None if place is None else place.last_checkpoint()
                    raise Diverged(fault.step, fault.what, last) from None


def _settings(folder: RunFolder | None, given: Settings | None, resume: bool) -> Settings:
    if folder is not None:
        return folder.settings(given, resume)
    return Settings() if given is None else given


def _open(
    folder: RunFolder | None,
    settings: Settings,
    resume: bool,
    describe: Mapping[str, Any] | None,
    held: ExitStack,
) -> Checkpoint | None:
    """Become the folder's writer, until `held` ends, and open it."""
    if folder is None:
        return None
    held.enter_context(folder.writing())
    folder.settings(settings, resume)  # again: another process may have started a run meanwhile
    return folder.open(settings, describe)


class _Keeper:
    """Keeps what a run leaves behind, in its folder if it has one; the first process writes."""

    def __init__(self, trainer: Trainer, folder: RunFolder | None) -> None:
        self._trainer, self._processes, self.folder = trainer, trainer.processes, folder

    def record(self, report: Report) -> None:
        if self.folder is not None and self._processes.rank == 0:
            self.folder.record(report)

    def checkpoint(self) -> None:
        if self.folder is not None:
            folder, stored = self.folder, self._trainer.checkpoint()
            self._processes.first(lambda: folder.keep(stored, self._trainer.settings.keep))

    def best_model(self) -> None:
        if self.folder is not None:
            with self._trainer.averaged():
                self._save(self.folder, self.folder.best)

    def final_model(self) -> None:
        if self.folder is not None:
            self._save(self.folder, self.folder.model)

    def _save(self, folder: RunFolder, path: Path) -> None:
        self._processes.first(lambda: folder.save_model(self._trainer.model, path))


def _run(trainer: Trainer, keeper: _Keeper, watch: Watcher) -> Result:
    settings, progress = trainer.settings, trainer.progress
    watch.started(settings.steps, progress.step)
    while progress.stopped is None:
        watch.stepped(trainer.step())
        due = progress.stopped is not None or progress.step % settings.evaluate_every == 0
        if due or progress.step % settings.record_every == 0:
            keeper.record(trainer.record())
        if due and trainer.task.held_out:
            report = trainer.validate()
            keeper.record(report)
            watch.evaluated(report)
            if progress.best_step == progress.step:
                keeper.best_model()
        if progress.stopped is not None or progress.step % settings.checkpoint_every == 0:
            keeper.checkpoint()
    trainer.finish()
    keeper.final_model()
    result = _result(trainer, keeper.folder)
    watch.finished(result)
    return result


def _result(trainer: Trainer, folder: RunFolder | None) -> Result:
    progress, judged = trainer.progress, trainer.task.held_out
    assert progress.stopped is not None
    best = progress.best_accuracy
    return Result(
        model=trainer.model,
        steps=progress.step,
        seconds=trainer.seconds,
        best_accuracy=math.nan if best is None else best,
        best_step=progress.best_step,
        accuracy=progress.accuracy if judged else math.nan,
        loss=progress.loss if judged else math.nan,
        reason=progress.stopped,
        folder=None if folder is None else folder.path,
    )
