"""What the commands share when they print."""

import shlex
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

WIDTH = 80
"""Tables are laid out for at least this many columns."""


def console(quiet: bool = False) -> Console:
    """Where to print: standard output, at least `WIDTH` columns wide.

    Args:
        quiet: whether to print nothing.
    """
    made = Console(highlight=False, quiet=quiet)
    return made if made.width >= WIDTH else Console(highlight=False, quiet=quiet, width=WIDTH)


def harmless(text: str) -> str:
    """Text without the characters that command a terminal, which a file may hold.

    >>> harmless("a5\\x1b]0;title\\x07")
    'a5?]0;title?'
    """
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def plain(console: Console, line: str) -> None:
    """Print a line as it is: no markup, and no breaks but those of the terminal."""
    console.print(harmless(line), markup=False, soft_wrap=True)


class PlainTable(Table):
    """A table whose cells are shown as they are written, without markup."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row of text."""
        shown = (Text(harmless(cell)) if isinstance(cell, str) else cell for cell in cells)
        super().add_row(*shown, **options)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table in the manner of all commands; its first column is never broken.

    Args:
        columns: their headings.
        right: the headings of those that are flush right.
    """
    made = PlainTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    made.columns[0].no_wrap = True
    return made


def percent(share: float | None) -> str:
    """An accuracy, so that only a whole one is 100%.

    >>> percent(0.98765), percent(0.999999), percent(1.0), percent(None)
    ('98.77%', '99.99%', '100%', '')
    """
    if share is None:
        return ""
    if share == 1:
        return "100%"
    return f"{min(100 * share, 99.99):.2f}%"


def seconds(number: float) -> str:
    """A time span, to three digits or so.

    >>> seconds(3.14159), seconds(75), seconds(7300)
    ('3.1 s', '1 min 15 s', '2 h 1 min')
    """
    if number < 60:
        return f"{number:.1f} s"
    minutes, rest = divmod(round(number), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def command(*words: str | Path) -> str:
    """A command that a shell can run.

    >>> command("slicekit", "resume", Path("my runs/1"))
    "slicekit resume 'my runs/1'"
    """
    return shlex.join(str(word) for word in words)
