"""The work of `slicekit models` and `slicekit tasks`."""

import json
from typing import Any

from slicekit import catalogue, tasks
from slicekit.cli import display
from slicekit.cli.configuration import make_task
from slicekit.cli.errors import one_line
from slicekit.tasks import Task
from slicekit.tasks.archive_task import on_disk
from slicekit.training import Settings


def show_models(task_name: str | None, options: dict[str, Any], recipe: str, as_json: bool) -> None:
    """List the named models; for a task, made with options, with a recipe's sizes and settings."""
    with one_line("models"):
        task = None if task_name is None else make_task(task_name, options)
        names = catalogue.MODELS if task is None else catalogue.names(task)
        models = [_model(name, task, recipe) for name in names]
        if as_json:
            print(json.dumps(models, indent=2))
            return
        console = display.console()
        if task is None:
            table = display.table("model", "what it is")
            for model in models:
                table.add_row(model["name"], model["summary"])
            note = "Parameters and settings for a task: slicekit models --task a5"
        else:
            columns = ("model", "sizes", "parameters", "settings")
            table = display.table(*columns, right=("parameters",))
            for model in models:
                star = " *" if model["default"] else ""
                unusual = ", ".join(f"{k} {_written(x)}" for k, x in _unusual(model).items())
                cells = (", ".join(model["sizes"]), f"{model['parameters']:,}", unusual)
                table.add_row(f"{model['name']}{star}", *cells)
            note = (
                f"* trained on {task_name} when no model is named. Sizes are part of a name, as in "
                "bd-slice:dim=64. Settings that are not told have the defaults of "
                "slicekit.training.Settings."
            )
        console.print(table)
        console.print(note, markup=False)


def _model(name: str, task: Task | None, recipe: str) -> dict[str, Any]:
    told: dict[str, Any] = {"name": name, "summary": catalogue.MODELS[name].summary}
    if task is not None:
        parameters = catalogue.build(name, task, recipe=recipe).parameters()
        told["sizes"] = catalogue.sizes_of(name, task)
        told["parameters"] = sum(x.numel() for x in parameters)
        told["settings"] = catalogue.settings(name, task, recipe).as_table()
        told["default"] = catalogue.default(task) == name
    return told


def _unusual(model: dict[str, Any]) -> dict[str, Any]:
    """The settings that are not the defaults, and always the number of steps."""
    usual = Settings().as_table()
    return {k: x for k, x in model["settings"].items() if k == "steps" or x != usual[k]}


def _written(value: Any) -> str:
    return ":".join(str(x) for x in value) if isinstance(value, list) else str(value)


def show_tasks(as_json: bool) -> None:
    """List the named tasks."""
    with one_line("tasks"):
        rows = [_task(name) for name in tasks.TASKS]
        if as_json:
            print(json.dumps(rows, indent=2))
            return
        console = display.console()
        columns = ("tokens", "train", "validate", "test")
        table = display.table("task", "what it is", *columns, right=columns)
        for task in rows:
            splits = ("train_lengths", "validation_lengths", "test_lengths")
            lengths = (_range(task[split]) for split in splits)
            table.add_row(task["name"], task["description"], _inputs(task), *lengths)
        console.print(table)
        console.print("Train, validate and test are inclusive ranges of lengths.")
        console.print("A task of your own: slicekit train path/to/file.py:name", markup=False)
        console.print(f"Archives on the disk: {', '.join(on_disk()) or 'none'}", markup=False)


def _task(name: str) -> dict[str, Any]:
    task = tasks.make(name)
    return {
        "name": name,
        "description": tasks.TASKS[name].description,
        "vocabulary": task.vocabulary,
        "channels": task.channels,
        "outputs": task.outputs,
        "train_lengths": task.train_lengths,
        "validation_lengths": task.validation_lengths,
        "test_lengths": task.test_lengths,
        "default_model": catalogue.default(task),
    }


def _inputs(task: dict[str, Any]) -> str:
    """How many tokens there are, or channels of series."""
    return f"{task['channels']} channels" if task["channels"] else str(task["vocabulary"])


def _range(lengths: tuple[int, int]) -> str:
    low, high = lengths
    return str(low) if low == high else f"{low}-{high}"
