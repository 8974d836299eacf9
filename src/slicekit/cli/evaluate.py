"""The work of `slicekit evaluate`."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

import slicekit
from slicekit import catalogue, figures, files, tasks
from slicekit.cli import display, threads
from slicekit.cli.configuration import OPTIONS, agreed, make_task, read_run_config
from slicekit.cli.errors import Failed, one_line
from slicekit.cli.lengths import parse_lengths
from slicekit.devices import find_device
from slicekit.tasks import Task
from slicekit.training import RunFolder, Score, evaluate, plots
from slicekit.training.checkpoints import newest_checkpoint

RESULTS = "evaluation.json"


@dataclass(frozen=True)
class Wish:
    """What to evaluate, and how.

    Args:
        folder: of the run.
        lengths: as the user wrote them, or None for the task's test lengths. A finite test set is
            measured as a whole, and has none.
        sequences: how many of each length.
        seed: of the sequences.
        kept: "best" or "last" model, or None for that of the end if there is one, else the best.
        task: another task than the run's own, or None; or the run's own, if it is a place in code.
        options: arguments of the task, besides those of the run's own.
        trust: whether code that the run's configuration names may run.
        diagnose: whether to tell how far the model can be trusted.
        as_json: whether to print for a program.
        device: where to measure, or None for the CPU.
        threads: how many; None is one, or what OMP_NUM_THREADS says.
    """

    folder: Path
    lengths: str | None
    sequences: int
    seed: int
    kept: str | None
    task: str | None
    options: dict[str, Any]
    trust: bool
    diagnose: bool
    as_json: bool
    device: str | None
    threads: int | None


def run(wish: Wish) -> None:
    """Measure, print, and save table and plots into the run's folder."""
    threads.use(wish.threads)
    with one_line("evaluate"):
        device = find_device(wish.device)
        folder = RunFolder(wish.folder)
        if not folder.path.is_dir():
            raise FileNotFoundError(f"no folder {folder.path}")
        config = read_run_config(folder)
        folder.check_own()
        task = _task(folder, config, wish)
        finite = task.batches("test") is not None
        if finite and (wish.lengths is not None or wish.diagnose):
            option = "--diagnose" if wish.diagnose else "--lengths"
            raise ValueError(f"{option} is for tasks of any length, but {task.name} has a test set")
        lengths = None if finite else _lengths(wish.lengths, task)
        # Of a finite set, the model that was best on the validation cases is the one to report.
        kept = "best" if finite and wish.kept is None and folder.best.is_file() else wish.kept
        model, source = load_model(folder, config, task, kept)
        model.to(device)
        console = display.console(quiet=wish.as_json)
        scores = _measure(model, task, lengths, wish, console)
        display.plain(console, f"{task.name}, {source}")
        console.print(_table_of_set(scores) if finite else _table(scores))
        data = _as_data(wish, task, source, scores)
        _save(folder, data)
        if not finite:
            _save_plot(folder, _trained_lengths(folder, config, wish), scores, console)
        if wish.diagnose:
            data["diagnosis"] = _diagnose(folder, model, task, wish, console)
            _save(folder, data)
        if wish.as_json:
            print(json.dumps(data, indent=2))


def _save(folder: RunFolder, data: dict[str, Any]) -> None:
    files.write(folder.path / RESULTS, (json.dumps(data, indent=2) + "\n").encode())


def _task(folder: RunFolder, config: dict[str, Any], wish: Wish) -> Task:
    """The task that the user names, or else the run's own."""
    if wish.task is not None and not tasks.same_place(wish.task, config.get("task", "")):
        return make_task(wish.task, wish.options)
    if "task" not in config:
        raise ValueError(f"{folder.config} names no task; give one: --task NAME")
    words = ("slicekit", "evaluate", folder.path, "--task")
    known = agreed(
        config, folder.config, wish.trust, wish.task, lambda x: display.command(*words, x)
    )
    return make_task(known["task"], known.get(OPTIONS, {}) | wish.options)


def _trained_lengths(
    folder: RunFolder, config: dict[str, Any], wish: Wish
) -> tuple[int, int] | None:
    """Those of the settings, or else of the run's own task, if that is one to be made."""
    lengths = folder.stored_settings().lengths
    name = config.get("task", "")
    named = wish.task is not None and tasks.same_place(wish.task, name)
    if lengths is not None or not name or (tasks.is_place(name) and not named and not wish.trust):
        return lengths
    return _task(folder, config, wish if named else replace(wish, task=None)).train_lengths


def _lengths(text: str | None, task: Task) -> list[int]:
    low, high = task.test_lengths
    try:
        return parse_lengths(f"{low}:{high}" if text is None else text)
    except ValueError as error:
        raise ValueError(f"--lengths {error}") from error


def load_model(
    folder: RunFolder, config: dict[str, Any], task: Task, kept: str | None
) -> tuple[nn.Module, Path]:
    """A model of a run, in evaluation mode, and the file it is from.

    Args:
        folder: of the run.
        config: its configuration.
        task: for the sizes of a model from a checkpoint.
        kept: "best", "last", or None for that of the end if there is one, else the best, else the
            last.

    Raises:
        FileNotFoundError: if the run has kept no such model.
        Failed: if its file is damaged.
    """
    files_wanted = {
        None: [folder.model, folder.best],
        "best": [folder.best],
        "last": [folder.model],
    }[kept]
    present = [path for path in files_wanted if path.is_file()]
    try:
        if present:
            return slicekit.load(present[0]), present[0]
        if kept != "best" and folder.last_checkpoint() is not None:
            return _from_checkpoint(folder, config, task)
    except ValueError as error:
        raise Failed(
            f"slicekit evaluate: {error}. Try another model of the run: --checkpoint best, or "
            "--checkpoint last"
        ) from error
    raise FileNotFoundError(
        f"{folder.path} holds no model yet: no {' or '.join(path.name for path in files_wanted)}"
    )


def _from_checkpoint(
    folder: RunFolder, config: dict[str, Any], task: Task
) -> tuple[nn.Module, Path]:
    if "model" not in config:
        raise ValueError(f"{folder.config} names no model")
    stored, path = newest_checkpoint(folder.checkpoints), folder.last_checkpoint()
    assert stored is not None and path is not None
    layers, recipe = config.get("layers"), config.get("recipe", catalogue.FAST)
    model = catalogue.build(config["model"], task, recipe=recipe, layers=layers)
    try:
        model.load_state_dict(stored.part("model") | stored.part("average"))
    except RuntimeError as error:
        raise ValueError(f"{path} is of another model: {error}") from error
    return model.eval(), path


def _measure(
    model: nn.Module, task: Task, lengths: list[int] | None, wish: Wish, console: Console
) -> list[Score]:
    if lengths is None:
        with console.status(task.name):
            return evaluate(model, task)
    scores = []
    for length in lengths:
        with console.status(f"length {length}"):
            scores += evaluate(model, task, [length], sequences=wish.sequences, seed=wish.seed)
    return scores


def _as_data(wish: Wish, task: Task, source: Path, scores: list[Score]) -> dict[str, Any]:
    return {
        "task": task.name,
        "model": str(source.relative_to(wish.folder)),
        "seed": wish.seed,
        "slicekit": slicekit.__version__,
        "torch": torch.__version__,
        "scores": [asdict(score) for score in scores],
    }


def _table(scores: list[Score]) -> Any:
    headings = ("length", "all positions", "last position", "sequences")
    table = display.table(*headings, right=headings)
    for score in scores:
        accuracies = (display.percent(score.overall), display.percent(score.last))
        table.add_row(f"{score.length:,}", *accuracies, str(score.sequences))
    return table


def _table_of_set(scores: list[Score]) -> Any:
    headings = ("test accuracy", "series")
    table = display.table(*headings, right=headings)
    for score in scores:
        table.add_row(display.percent(score.overall), str(score.sequences))
    return table


def _save_plot(
    folder: RunFolder, trained: tuple[int, int] | None, scores: list[Score], console: Console
) -> None:
    if not figures.available():
        display.plain(console, "no plot without matplotlib: pip install 'slicekit[plot]'")
        return
    path = folder.plots / plots.LENGTHS
    plots.plot_lengths({folder.path.name: scores}, path, trained)
    display.plain(console, f"plot: {path}")


def _diagnose(
    folder: RunFolder, model: nn.Module, task: Task, wish: Wish, console: Console
) -> dict[str, Any]:
    from slicekit.cli import diagnosis
    from slicekit.training.diagnosis import diagnose

    lengths = None if wish.lengths is None else _lengths(wish.lengths, task)
    with console.status("diagnosis"):
        answer = diagnose(model, task, lengths=lengths, seed=wish.seed)
    diagnosis.show(answer, console)
    if figures.available():
        folder.plots.mkdir(exist_ok=True)
        path = folder.plots / "diagnosis.png"
        diagnosis.plot(answer, path)
        display.plain(console, f"plot: {path}")
    return answer.as_dict()
