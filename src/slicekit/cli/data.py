"""The commands `slicekit data`: which sets of series there are, and how they get to the disk."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from slicekit.cli import display
from slicekit.cli.commands import Json
from slicekit.cli.errors import Failed, one_line
from slicekit.suggestions import unknown
from slicekit.tasks import archives
from slicekit.tasks.archives.downloading import changed

data = typer.Typer(
    help="Sets of time series: list them, fetch them, look at them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

Name = Annotated[str, typer.Argument(help="A name of `slicekit data list`.")]
Folder = Annotated[
    Path | None,
    typer.Option(help="Where sets are kept; $SLICEKIT_DATA or slicekit/data in the user's cache."),
]


@data.command("list")
def list_command(folder: Folder = None, as_json: Json = False) -> None:
    """List the sets that are known, and which of them are on disk.

    \b
    Examples:
      slicekit data list
      slicekit data list --folder ~/series
      slicekit data list --json | jq '.[] | select(.found != null) | .name'
    """
    with one_line("data list"):
        archives_known = [_known(name, folder) for name in archives.KNOWN]
        if as_json:
            print(json.dumps(archives_known, indent=2))
            return
        numbers = ("train", "test", "length", "channels", "classes")
        table = display.table("set", *numbers, "on disk", right=numbers)
        for known in archives_known:
            told = (str(known[number]) for number in numbers)
            table.add_row(known["name"], *told, "yes" if known["found"] else "")
        console = display.console()
        console.print(table)
        display.plain(console, f"On disk: in {folder or archives.data_folder()}")
        display.plain(console, "To fetch one: slicekit data get BasicMotions")


def _known(name: str, folder: Path | None) -> dict[str, Any]:
    known = archives.KNOWN[name]
    return {
        "name": name,
        "train": known.train,
        "test": known.test,
        "length": known.told_length,
        "channels": known.channels,
        "classes": known.classes,
        "found": _place(name, folder),
    }


def _place(name: str, folder: Path | None) -> str | None:
    try:
        return str(archives.find(name, folder))
    except FileNotFoundError:
        return None


@data.command("get")
def get_command(
    name: Name,
    to: Annotated[
        Path | None,
        typer.Option(help="Folder; $SLICEKIT_DATA or slicekit/data in the user's cache."),
    ] = None,
    mirror: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Try URL/NAME.zip first (or URL itself with {name} in it); else $SLICEKIT_MIRROR.",
        ),
    ] = None,
    sha256: Annotated[
        str | None, typer.Option(metavar="HEX", help="What the zip file's SHA-256 must be.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Fetch it though it is on disk.")] = False,
) -> None:
    """Fetch a set from its archive. An attempt that was cut off goes on where it ended.

    \b
    Examples:
      slicekit data get BasicMotions
      slicekit data get EigenWorms --to ~/series
      slicekit data get Heartbeat --mirror https://example.org/series
    """
    with one_line("data get"):
        console = display.console()
        place = None if again else _place(name, to)
        if place is not None:
            display.plain(console, f"{name} is in {place}; to fetch it once more: --again")
            return
        try:
            with _progress(console) as progress:
                folder = archives.download(
                    name, to, mirror=mirror, sha256=sha256, progress=progress
                )
        except KeyboardInterrupt:
            display.plain(console, "interrupted; the same command again goes on from here")
            raise typer.Exit(130) from None
        display.plain(console, f"{name} is in {folder}")


@contextmanager
def _progress(console: Console) -> Iterator[Any]:
    """What shows how far a download is: a bar on a terminal, and a line for each file elsewhere."""
    shown: dict[str, Any] = {}
    if not console.is_terminal:

        def line(url: str, received: int, total: int | None) -> None:
            if url not in shown:
                shown[url] = True
                display.plain(console, f"from {url}")

        yield line
        return
    columns = (DownloadColumn(), BarColumn(bar_width=None), TransferSpeedColumn())
    text = TextColumn("{task.description}", markup=False)
    with Progress(*columns, text, console=console, expand=True) as bars:

        def move(url: str, received: int, total: int | None) -> None:
            if url not in shown:
                shown[url] = bars.add_task(url, total=total)
            bars.update(shown[url], completed=received, total=total)

        yield move


@data.command("show")
def show_command(name: Name, folder: Folder = None, as_json: Json = False) -> None:
    """Read a set that is on disk, and tell what is in it.

    \b
    Examples:
      slicekit data show BasicMotions
      slicekit data show JapaneseVowels --json
    """
    with one_line("data show"):
        if name not in archives.KNOWN and _place(name, folder) is None:
            raise unknown("set", name, archives.KNOWN)
        place = archives.find(name, folder)
        faults = changed(place) if place.is_dir() else []
        if faults:
            raise Failed(
                f"slicekit data show: {', '.join(faults)} in {place} changed since the download; "
                f"to fetch it anew, delete the folder and run: slicekit data get {name}"
            )
        try:
            contents = _contents(archives.read_archive(place, name), place)
        except archives.ArchiveError as error:
            raise Failed(f"slicekit data show: {error}") from error
        if as_json:
            print(json.dumps(contents, indent=2))
            return
        console = display.console()
        table = display.table("", "train", "test", right=("train", "test"))
        for row in ("cases", "length", "missing"):
            table.add_row(row, *(contents[split][row] for split in ("train", "test")))
        for label in contents["classes"]:
            counts = (str(contents[split]["counts"][label]) for split in ("train", "test"))
            table.add_row(f"class {label}", *counts)
        display.plain(console, f"{name}: {contents['channels']} channels, from {place}")
        console.print(table)
        if contents["duplicates"]:
            display.plain(
                console, f"{contents['duplicates']} cases are exact copies of earlier ones."
            )


def _contents(archive: archives.Archive, place: Path) -> dict[str, Any]:
    both = len(archive.train) + len(archive.test)
    return {
        "name": archive.name,
        "place": str(place),
        "channels": archive.channels,
        "classes": list(archive.classes),
        "duplicates": both - len(archive.pooled()),
        "train": _split(archive.train),
        "test": _split(archive.test),
    }


def _split(series: archives.Series) -> dict[str, Any]:
    low, high = (int(x) for x in series.lengths.aminmax())
    counts = series.answers.bincount(minlength=len(series.classes)) if series.classes else []
    missing = int(series.observations.isnan().sum())
    return {
        "cases": str(len(series)),
        "length": str(low) if low == high else f"{low}-{high}",
        "missing": display.percent(missing / series.channels / int(series.lengths.sum())),
        "counts": {label: int(n) for label, n in zip(series.classes, counts, strict=True)},
    }
