"""The command `slicekit study`: its options, its progress and what it prints at the end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from slicekit import catalogue, figures
from slicekit.cli import display, engines
from slicekit.cli.errors import BadUsage, one_line
from slicekit.cli.grids import INTERRUPTED, print_table, watcher
from slicekit.cli.lengths import parse_lengths
from slicekit.cli.paper import run_paper
from slicekit.engines import Engine
from slicekit.studies import (
    STUDIES,
    Choice,
    Standing,
    Study,
    conduct,
    make,
    paper,
)
from slicekit.studies.budgets import seconds_of
from slicekit.studies.records import add_to_record
from slicekit.studies.results import MARKDOWN, PICTURE, RESULTS, gathered, shown
from slicekit.tasks.archives.places import shipped_with_aeon

AEON = "aeon"
"""What stands for the folder of the sets that ship with it."""


def study_command(
    name: Annotated[
        str | None, typer.Argument(help="Which study; without one, they are listed.")
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            help="Names of `slicekit models`, as in bd-slice:dim=64,mamba; slices, baselines "
            "and sizes are the paper's."
        ),
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="fast, ours, or paper, the published protocol.")
    ] = catalogue.FAST,
    seeds: Annotated[str | None, typer.Option(help="As in 0,1,2: a run each.")] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of training; the model's own by default.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Sequences of a step; the model's own by default.")
    ] = None,
    lengths: Annotated[
        str | None,
        typer.Option(help="As in 20:5120 or 3,4,5: to train on (a5-layers), or to test at."),
    ] = None,
    max_layers: Annotated[
        int, typer.Option(min=1, help="How many layers a5-layers tries at most.")
    ] = 4,
    parts: Annotated[
        str | None, typer.Option(help="Of uea: paper, default, robustness; all by default.")
    ] = None,
    sets: Annotated[
        str | None,
        typer.Option(help="Data sets of uea, as in BasicMotions,NATOPS; all by default."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the data sets of uea, known by name or yours; aeon is those that ship "
            "with it.",
            file_okay=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the study; studies/<name>, or studies/<name>-quick, by default."
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            help="Folder of results on record: adds all finished runs of the study to NAME.json "
            "there, with NAME.md and NAME.png.",
            file_okay=False,
        ),
    ] = None,
    processes: engines.Processes = None,
    engine: engines.EngineName = "local",
    address: engines.Address = None,
    option: engines.Options = None,
    device: engines.Device = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Stop in time, as in 8h, 30m or 90s; the same command goes on."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Only see that it works: a few steps of everything, in a folder of its own.",
        ),
    ] = False,
) -> None:
    """Do one of the paper's experiments: every run, a table beside the paper's, and a picture.

    \b
    Examples:
      slicekit study                                           which there are
      slicekit study languages --models slices,baselines       our recipes, five seeds
      slicekit study languages --models sizes                  the appendix's sixteen sizes
      slicekit study a5-lengths --models bd-slice --steps 5000 --seeds 0,1
      slicekit study a5-lengths --recipe paper                 100,000 steps each, as published
      slicekit study a5-layers --lengths 3,10,20 --processes 2
      slicekit study word-problems --quick --out try
      slicekit study paper --budget 8h --record results        all studies, and one page
      slicekit study languages --budget 8h                     what a night is enough for
      slicekit study languages --budget 0s --record results    add what is done to the record
      slicekit study uea --parts paper --models bd-slice,d-slice --processes 2
      slicekit study uea --parts default --data FOLDER         our classifier and others, your sets
      slicekit study uea --parts default --data aeon --seeds 0
      slicekit study languages --engine ray --address 10.0.0.1:6379
      slicekit study languages --engine slurm --option partition=long --option minutes=240

    It may be stopped at any time. The same command again keeps the runs that are finished, and goes
    on with those that are not. Tables are written after each run; other models, seeds or lengths
    add to those that are there. A budget begins no run that would likely pass it.
    """
    with one_line("study"):
        if name is None:
            _list(display.console())
            return
        study = None if name == paper.NAME else make(name)
        choice = Choice(
            models=_names(models),
            recipe=recipe,
            seeds=None if seeds is None else _numbers(seeds),
            steps=steps,
            batch=batch,
            lengths=None if lengths is None else tuple(parse_lengths(lengths)),
            max_layers=max_layers,
            parts=_names(parts),
            sets=_names(sets),
            data=None if data is None else _data(data),
            quick=quick,
        )
        seconds = None if budget is None else seconds_of(budget)
        folder = Path("studies") / (f"{name}-quick" if quick else name)
        where = engines.chosen(engine, processes, address, option)
        if record is not None and quick:
            raise BadUsage("slicekit study: a quick look is no result to record: --quick --record")
        if study is None:
            _refuse({"--models": models, "--lengths": lengths, "--parts": parts, "--sets": sets})
            run_paper(choice, out or folder, where, device, seconds, record)
            return
        _run(study, choice, out or folder, where, device, seconds, record)


def _refuse(options: Mapping[str, str | None]) -> None:
    """Options that mean something else in each study."""
    for name, value in options.items():
        if value is not None:
            raise BadUsage(
                f"slicekit study paper: {name} {value}, but it takes all of every study; give it "
                "to a study by its name"
            )


def _data(folder: Path) -> str:
    """The whole path of a folder; that of aeon's sets, unless there is a folder of that name."""
    if str(folder) == AEON and not folder.exists():
        return str(shipped_with_aeon())
    return str(folder.resolve())


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else catalogue.split_names(text)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BadUsage(f"slicekit study: --seeds {text}; expected integers as in 0,1,2") from None


def _list(console: Console) -> None:
    table = display.table("study", "what it shows", "models")
    for study in STUDIES.values():
        table.add_row(study.name, study.summary, ", ".join(study.models))
    table.add_row(paper.NAME, paper.SUMMARY, "")
    console.print(table)


def _run(
    study: Study,
    choice: Choice,
    folder: Path,
    engine: Engine,
    device: str | None,
    budget: float | None,
    record: Path | None,
) -> None:
    console = display.console()
    display.plain(console, f"{study.summary}, in {folder}")
    try:
        with watcher(console) as watch:
            where: Any = {"watch": watch, "device": device, "engine": engine}
            standing = conduct(study, choice, folder, budget=budget, **where)
    except KeyboardInterrupt:
        display.plain(console, "interrupted; the same command again goes on from here")
        raise typer.Exit(INTERRUPTED) from None
    _show(study, choice, standing, folder, console)
    if record is not None:
        whole = add_to_record(study, gathered(study, choice, standing, folder)[1], record)
        told = f"on record in {record / study.name}.json: {len(whole.outcomes)} runs"
        display.plain(console, told)
    if standing.failures:
        raise typer.Exit(1)


def _show(study: Study, choice: Choice, standing: Standing, folder: Path, console: Console) -> None:
    for table in shown(study, *gathered(study, choice, standing, folder)):
        display.plain(console, "")
        print_table(table, console)
    for name, why in standing.failures.items():
        display.plain(console, f"{name} failed: {why}")
    if standing.unfinished:
        display.plain(console, _left(standing))
    if standing.written:
        display.plain(console, f"written to {folder}: {RESULTS}, {MARKDOWN}{_picture(standing)}")
    elif (folder / RESULTS).exists():
        told = (
            f"{RESULTS} and {MARKDOWN} in {folder} are left as they were, as not all runs succeeded"
        )
        display.plain(console, told)


def _left(standing: Standing) -> str:
    """What a budget was too short for, and how to go on."""
    done, begun = len(standing.outcomes), len(standing.running)
    waiting = len(standing.waiting)
    left = standing.seconds_left()
    ahead = "" if left is None else f" (about {display.seconds(left)})"
    return (
        f"the budget ends here: {done} of {len(standing.plans)} runs are done, {begun} stopped on "
        f"the way, {waiting} not begun{ahead}; the same command again goes on from here"
    )


def _picture(standing: Standing) -> str:
    if not standing.outcomes:
        return ""
    return f", {PICTURE}" if figures.available() else "; a picture needs slicekit[plot]"
