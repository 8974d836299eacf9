"""The work of `slicekit train` and `slicekit resume`."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
import typer
from rich.console import Console

from slicekit import catalogue, tasks
from slicekit.cli import display, threads
from slicekit.cli.configuration import (
    Choice,
    agreed,
    merge,
    read_file,
    read_run_config,
    resolve,
)
from slicekit.cli.errors import one_line
from slicekit.cli.progress import watcher
from slicekit.devices import find_device
from slicekit.parallel.failures import LostRank
from slicekit.training import InUse, Result, RunFolder, is_first, plots, read_run, train
from slicekit.training.processes import Parallel, joined, own_device

RUNS = Path("runs")
INTERRUPTED = 130
"""Exit code of a process that ends by the signal of Ctrl-C."""

REASONS = {
    "steps": "all were made",
    "stop_at": "the validation accuracy reached stop_at",
    "patience": "the validation accuracy had not grown for long",
}


def start(given: Mapping[str, Any], file: Path | None, trust: bool) -> None:
    """Train, or go on with a run if `resume` says so.

    Args:
        given: keys of the configuration, from the command line.
        file: a configuration file, or None.
        trust: whether code that a file names may run.
    """
    with one_line("train"):
        told = {} if file is None else read_file(file)
        if file is not None and "task" not in given:
            words = ("--config", file)
            told = agreed(
                told, file, trust, None, lambda x: display.command("slicekit", "train", x, *words)
            )
        _start(merge(told, given), trust)


def go_on(folder: Path, given: Mapping[str, Any], trust: bool) -> None:
    """Go on with a run from its own configuration.

    Args:
        folder: of the run.
        given: `quiet`, `device`, `threads` and `task`, if they were.
        trust: whether code that the run's configuration names may run.
    """
    with one_line("resume"):
        _start({"out": str(folder), "resume": True} | dict(given), trust)


def _start(table: Mapping[str, Any], trust: bool) -> None:
    """Settle what to do in all processes alike, and do it.

    Args:
        table: what to do; its task was named or agreed to by the user.
        trust: whether code that a run's configuration names may run.
    """
    resume, quiet = table.get("resume", False), table.get("quiet", False)
    device, parallel = _device(table), _parallel(table)
    with joined(device, parallel) as processes:
        if resume:
            folder = _run_to_resume(table)
            choice = _unchanged(folder, table, trust)
        else:
            choice = resolve(table)
            _try_out(choice)
            folder = processes.first(lambda: _new_folder(table.get("out"), choice))
        threads.use(choice.threads)
        with _gone_if_unused(folder):
            result = _train(choice, folder, device, parallel, resume, quiet)
    if is_first():
        _summarise(result, choice, quiet)
        plots.curves_if_possible(read_run(folder))


def _device(table: Mapping[str, Any]) -> torch.device:
    """The device that the user names, or else that of the run to resume; of this process."""
    told = table.get("device")
    if told is None and table.get("resume", False):
        told = read_run_config(RunFolder(_run_to_resume(table))).get("device")
    return own_device(find_device(told))


def _parallel(table: Mapping[str, Any]) -> Parallel | None:
    """What processes share out, as the user says or else as the run to resume did."""
    told = table.get("parallel")
    if told is None and table.get("resume", False):
        told = read_run_config(RunFolder(_run_to_resume(table))).get("parallel")
    return None if told is None else Parallel.parse(told)


@contextmanager
def _gone_if_unused(folder: Path) -> Iterator[None]:
    """Leave no empty folder behind where a run could not even start."""
    try:
        yield
    except BaseException:
        if is_first():
            with suppress(OSError):
                folder.rmdir()
                if folder.parent == RUNS:
                    RUNS.rmdir()  # if there are no others
        raise


def _try_out(choice: Choice) -> None:
    """Draw a sequence of training and of validation, so that errors come before there is a run."""
    settings, task, generator = choice.settings, choice.task, torch.Generator()
    task.sample(1, settings.lengths or task.train_lengths, generator, "train")
    task.sample(1, settings.validation_lengths or task.validation_lengths, generator, "validation")


def _new_folder(out: str | None, choice: Choice) -> Path:
    if out is None:
        task = re.sub(r"[^\w.-]+", "-", choice.task_name.rpartition(":")[2])
        model = catalogue.as_path(choice.model_name, choice.recipe)
        return _claimed(RUNS / f"{task}-{model}-{choice.settings.seed}")
    path = Path(out)
    if RunFolder(path).holds_run():
        raise FileExistsError(
            f"{path} already holds a run; add --resume to go on with it, or choose another folder"
        )
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file; expected a folder or a new name")
    return path


def _claimed(path: Path) -> Path:
    """A new empty folder of that name, with a number if there is something already."""
    number, claimed = 1, path
    while True:
        try:
            claimed.mkdir(parents=True)
            return claimed
        except FileExistsError:
            number += 1
            claimed = path.with_name(f"{path.name}-{number}")


def _run_to_resume(table: Mapping[str, Any]) -> Path:
    if "out" not in table:
        raise ValueError("--resume needs the folder of the run: --out FOLDER")
    path = Path(table["out"])
    if not RunFolder(path).holds_run():
        raise FileNotFoundError(f"{path} holds no run to resume")
    return path


def _unchanged(path: Path, table: Mapping[str, Any], trust: bool) -> Choice:
    """What the run in a folder was started with; what is asked for now must not contradict it."""
    folder = RunFolder(path)
    stored = read_run_config(folder)
    if not {"task", "model"} <= stored.keys():
        raise ValueError(
            f"{folder.config} names no task and model, so only a program can go on with this run: "
            "slicekit.training.train(..., resume=True)"
        )
    told, known = table.get("task"), stored["task"]
    if told not in (None, known) and not tasks.same_place(told, known):
        raise _contradicts("task", told, known, folder)
    stored = agreed(stored, folder.config, trust, told, lambda x: _resume_command(path, x))
    held, asked = resolve(stored), resolve(merge(stored, table))
    before, now = _plain(held), _plain(asked)
    for name, x in now.items():
        if x != before[name]:
            raise _contradicts(name, x, before[name], folder)
    return asked


def _resume_command(folder: Path, task: str) -> str:
    """How to go on with a run; a place in code is named, or else the user would be asked."""
    named = ("--task", task) if tasks.is_place(task) else ()
    return display.command("slicekit", "resume", folder, *named)


def _contradicts(name: str, given: Any, stored: Any, folder: RunFolder) -> ValueError:
    return ValueError(
        f"{name}={given!r}, but {folder.config} has {stored!r}; leave it out to go on with this "
        "run, or train into another folder"
    )


def _plain(choice: Choice) -> dict[str, Any]:
    """All that the numbers of a run depend on."""
    told = {
        "task": choice.task_name,
        "task_options": choice.task_options,
        "model": choice.model_name,
        "layers": choice.layers,
        "recipe": choice.recipe,
    }
    return told | {x.name: getattr(choice.settings, x.name) for x in fields(choice.settings)}


def _train(
    choice: Choice,
    folder: Path,
    device: torch.device,
    parallel: Parallel | None,
    resume: bool,
    quiet: bool,
) -> Result:
    model, settings = choice.build(), choice.settings
    console = display.console(quiet=quiet or not is_first())
    count = sum(x.numel() for x in model.parameters())
    low, high = settings.lengths or choice.task.train_lengths
    display.plain(
        console,
        f"{choice.model_name}, {count:,} parameters, on {choice.task_name}, lengths {low} to {high}"
        f", seed {settings.seed}, in {folder}",
    )
    try:
        with watcher(console, quiet or not is_first()) as watch:
            return train(
                model,
                choice.task,
                settings,
                folder=folder,
                resume=resume,
                device=device,
                parallel=parallel,
                watch=watch,
                describe=None if resume else choice.describe(),
            )
    except KeyboardInterrupt:
        if is_first():
            left = _left_behind(folder, choice.task_name)
            print(f"slicekit: interrupted. {left}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    except (BrokenPipeError, FileExistsError, InUse):
        raise
    except LostRank as error:
        raise LostRank(f"{error}. {_left_behind(folder, choice.task_name)}") from error
    except OSError as error:
        raise OSError(f"{error}. {_left_behind(folder, choice.task_name)}") from error


def _left_behind(folder: Path, task: str) -> str:
    last = RunFolder(folder).last_checkpoint()
    if last is None:
        return f"There is no checkpoint in {folder} yet; start again, in another folder"
    return f"The last checkpoint is {last}; to go on from there: {_resume_command(folder, task)}"


def _validated_on(choice: Choice) -> str:
    whole = choice.task.batches("validation")
    if whole is not None:
        return f"{sum(len(batch.lengths) for batch in whole)} validation series"
    low, high = choice.settings.validation_lengths or choice.task.validation_lengths
    return f"validation lengths {low} to {high}"


def _summarise(result: Result, choice: Choice, quiet: bool) -> None:
    assert result.folder is not None
    console: Console = display.console()
    if quiet:
        display.plain(console, str(result.folder))
        return
    named = ("--task", choice.task_name) if tasks.is_place(choice.task_name) else ()
    best = f"; {display.percent(result.best_accuracy)} at step {result.best_step}"
    for name, told in {
        "accuracy": f"{display.percent(result.accuracy)} on {_validated_on(choice)}"
        + (best if result.best_accuracy > result.accuracy else ""),
        "steps": f"{result.steps} of {choice.settings.steps}: {REASONS[result.reason]}",
        "time": display.seconds(result.seconds),
        "folder": str(result.folder),
        "evaluate": display.command("slicekit", "evaluate", result.folder, *named),
    }.items():
        display.plain(console, f"{name:<9} {told}")
