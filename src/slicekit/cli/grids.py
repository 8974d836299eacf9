"""What commands that do many runs tell while they go on and when they end."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from slicekit.cli import display
from slicekit.studies import GridWatcher, Outcome, Standing, Table
from slicekit.studies.classifiers import NAMES

INTERRUPTED = 130
"""Exit code of a process that ends by the signal of Ctrl-C."""


def print_table(table: Table, console: Console) -> None:
    """As wide as it is: entries that are folded to fit a terminal can't be read."""
    markdown = table.as_markdown()
    if max(map(len, markdown.splitlines())) > console.width:
        display.plain(console, markdown)
        return
    shown = display.table(*table.columns)
    for row in table.rows:
        shown.add_row(*row)
    display.plain(console, table.title)
    console.print(shown)
    if table.note:
        display.plain(console, table.note)


class Lines(GridWatcher):
    """Prints a line for each run that ends."""

    def __init__(self, console: Console) -> None:
        """Keep the console."""
        self._console, self._standing = console, Standing()

    def __enter__(self) -> "Lines":
        """Nothing is needed."""
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is left to close."""

    def moved(self, standing: Standing) -> None:
        """Keep it, for the time left."""
        self._standing = standing

    def finished(self, outcome: Outcome, kept: bool) -> None:
        """Print what came of it."""
        told = [f"{outcome.steps} steps in {display.seconds(outcome.seconds)}"]
        if outcome.plan.model in NAMES:
            told = [display.seconds(outcome.seconds)]
        if outcome.best_accuracy is not None:
            told.append(f"{display.percent(outcome.best_accuracy)} in validation")
        if outcome.plan.trial:
            told += [outcome.reason] if outcome.reason == "diverged" else []
        elif not outcome.tested:
            told = [outcome.reason]
        elif not outcome.plan.tests:
            told.append(f"{display.percent(outcome.on_test_set)} on the test set")
        else:
            last = outcome.tested[-1]
            told.append(f"{display.percent(last.overall)} at {last.high:,}")
        line = f"{outcome.plan.name}: {', '.join(told)}{self._ahead(kept)}"
        display.plain(self._console, line)

    def _ahead(self, kept: bool) -> str:
        if kept:
            return " (kept)"
        left = self._standing.seconds_left()
        return "" if not left else f", about {display.seconds(left)} left"

    def failed(self, name: str, why: str) -> None:
        """Print why."""
        display.plain(self._console, f"{name} failed: {why}")

    def restarted(self, name: str, why: str) -> None:
        """Print why."""
        display.plain(self._console, f"{name} was lost ({why}), and goes on elsewhere")


class Bar(Lines):
    """Lines, and below them a bar for all runs together."""

    def __init__(self, console: Console) -> None:
        """Prepare the bar."""
        super().__init__(console)
        self._progress = Progress(
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
            expand=True,
        )
        self._task = self._progress.add_task("", total=1.0)

    def __enter__(self) -> "Bar":
        """Show the bar."""
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the bar."""
        self._progress.stop()

    def moved(self, standing: Standing) -> None:
        """Move the bar."""
        super().moved(standing)
        ended = len(standing.outcomes) + len(standing.failures)
        left = standing.seconds_left()
        ahead = "" if left is None else f", about {display.seconds(left)} left"
        told = f"{ended} of {len(standing.plans)} runs{ahead}; {', '.join(standing.running)}"
        self._progress.update(self._task, completed=standing.share(), description=told)


def watcher(console: Console) -> Lines:
    """Who tells of a grid on a console, with a bar if it is a terminal."""
    return Bar(console) if console.is_terminal else Lines(console)
