"""The command `slicekit study paper`: all studies, and one page."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console

from slicekit.cli import display
from slicekit.cli.grids import INTERRUPTED, Lines, watcher
from slicekit.engines import Engine
from slicekit.studies import Choice, Study
from slicekit.studies.paper import HTML, MARKDOWN, Means, conduct_paper


def run_paper(
    choice: Choice,
    folder: Path,
    engine: Engine,
    device: str | None,
    budget: float | None,
    record: Path | None,
) -> None:
    """Do all studies, and say what came of each."""
    console = display.console()

    @contextmanager
    def watch(study: Study) -> Iterator[Lines]:
        display.plain(console, f"{study.name}: {study.summary}, in {folder / study.name}")
        with watcher(console) as lines:
            yield lines

    try:
        chapters = conduct_paper(choice, folder, Means(engine, device, budget, record, watch))
    except KeyboardInterrupt:
        display.plain(console, "interrupted; the same command again goes on from here")
        raise typer.Exit(INTERRUPTED) from None
    for chapter in chapters:
        for line in chapter.missing:
            display.plain(console, f"{chapter.study.name}: {_short(line, console)}")
    if any(chapter.unfinished for chapter in chapters):
        display.plain(console, "the same command again goes on from here")
    display.plain(console, f"written to {folder}: {MARKDOWN}, {HTML}")
    if any(chapter.failures for chapter in chapters):
        raise typer.Exit(1)


def _short(line: str, console: Console) -> str:
    """What fits on a few lines: the page has the rest."""
    room = 3 * console.width
    return line if len(line) <= room else f"{line[:room]} ..."
