"""The work of `slicekit runs`: all runs below a folder, beside each other."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from safetensors import SafetensorError, safe_open

from slicekit.cli import display
from slicekit.cli.errors import one_line
from slicekit.training import Run, RunFolder, list_runs
from slicekit.training.checkpoints import newest_checkpoint


@dataclass(frozen=True)
class Row:
    """A run in one line.

    Args:
        folder: where it is.
        state: finished, stopped early, interrupted or damaged.
        task: its name, "" if the run does not tell; likewise below, None.
        model: its name.
        seed: of the run.
        step: how many steps were made.
        steps: how many were asked for.
        best_accuracy: on the validation set.
        best_step: when.
        accuracy: the last one.
        seconds: of training.
        fault: what is damaged.
    """

    folder: str
    state: str
    task: str = ""
    model: str = ""
    seed: int | None = None
    step: int | None = None
    steps: int | None = None
    best_accuracy: float | None = None
    best_step: int | None = None
    accuracy: float | None = None
    seconds: float | None = None
    fault: str | None = None


def show(root: Path, as_json: bool) -> None:
    """List the runs at or below a folder."""
    with one_line("runs"):
        rows = sorted((_row(run) for run in list_runs(root)), key=_order)
        if as_json:
            print(json.dumps([asdict(row) for row in rows], indent=2))
        elif rows:
            _print(root, rows, display.console())
        else:
            print(f"no run in {root}; to make one: slicekit train a5")


def _order(row: Row) -> tuple[Any, ...]:
    return row.state == "damaged", row.task, row.model, row.seed or 0, row.folder


def _row(run: Run) -> Row:
    try:
        return _whole_row(run)
    except (KeyError, TypeError) as error:
        fault = f"a record of metrics.jsonl is not as it should be: {error!r}"
    except (OSError, ValueError) as error:
        fault = str(error)
    return Row(str(run.folder), "damaged", fault=fault)


def _whole_row(run: Run) -> Row:
    """A run's row.

    Raises:
        ValueError: if one of its files is damaged.
    """
    if run.fault is not None:
        raise ValueError(run.fault)
    folder = RunFolder(run.folder)
    settings = folder.stored_settings()
    if run.finished:
        _check_readable(folder.model)
        state = "finished" if run.step >= settings.steps else "stopped early"
    else:
        newest_checkpoint(folder.checkpoints)
        state = "interrupted"
    best, validations = run.best, run.validations
    return Row(
        folder=str(run.folder),
        state=state,
        task=str(run.config.get("task", "")),
        model=str(run.config.get("model", "")),
        seed=settings.seed,
        step=run.step,
        steps=settings.steps,
        best_accuracy=None if best is None else best["accuracy"],
        best_step=None if best is None else best["step"],
        accuracy=validations[-1]["accuracy"] if validations else None,
        seconds=run.seconds,
    )


def _check_readable(path: Path) -> None:
    try:
        with safe_open(path, framework="pt"):
            return
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or truncated: {error}") from error


def _print(root: Path, rows: list[Row], console: Console) -> None:
    right = ("steps", "best", "last", "time")
    table = display.table("run", "state", *right, right=right)
    table.columns[0].no_wrap = False
    for row in rows:
        table.add_row(
            "\n".join(filter(None, (_below(root, row), _about(row)))),
            row.state,
            "" if row.step is None else f"{row.step}/{row.steps}",
            display.percent(row.best_accuracy),
            display.percent(row.accuracy),
            "" if row.seconds is None else display.seconds(row.seconds),
        )
    console.print(table)
    for row in rows:
        if row.fault is not None:
            display.plain(console, f"{_below(root, row)}: {row.fault}")


def _below(root: Path, row: Row) -> str:
    """A run's folder as it is called in the folder that is listed."""
    return row.folder if Path(row.folder) == root else str(Path(row.folder).relative_to(root))


def _about(row: Row) -> str:
    seed = None if row.seed is None else f"seed {row.seed}"
    return ", ".join(filter(None, (row.task, row.model, seed)))
