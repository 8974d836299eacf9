"""A run as it goes on: a bar on a terminal, a line for each validation everywhere."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from slicekit.cli.display import percent, plain, seconds
from slicekit.training import Report, Result, Watcher

MEMORY = 0.9
"""Decay of the running means that the bar shows: those of a single step jump about."""


class Lines(Watcher):
    """Prints a plain line for each validation.

    Args:
        console: where to print.
    """

    def __init__(self, console: Console) -> None:
        """Keep the console."""
        self.console = console
        self._total = 0
        self._last: Report | None = None

    def __enter__(self) -> "Lines":
        """Nothing is shown before the run starts."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the terminal as it was, however the run ended."""

    def started(self, total_steps: int, from_step: int) -> None:
        """Say where it goes on from, if it does."""
        self._total = total_steps
        if from_step > 0:
            plain(self.console, f"goes on from step {from_step} of {total_steps}")

    def stepped(self, report: Report) -> None:
        """Remember the step for the next line."""
        self._last = report

    def evaluated(self, report: Report) -> None:
        """Print a line."""
        width = len(str(self._total))
        line = (
            f"step {report.step:>{width}}/{self._total}"
            f"  validation {percent(report.accuracy):>6}  loss {report.loss:.4f}"
        )
        if self._last is not None:
            line += f"  training {percent(self._last.accuracy):>6}  length {self._last.longest}"
        plain(self.console, f"{line}  {seconds(report.seconds)}")


class Bar(Lines):
    """Lines, and below them a bar with the figures of training.

    Args:
        console: a terminal.
    """

    def __init__(self, console: Console) -> None:
        """Lay the bar out; it appears when the run starts."""
        super().__init__(console)
        self._means: dict[str, float] = {}
        self._progress = Progress(
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=None),
            TextColumn("{task.description}", markup=False),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            refresh_per_second=5,
            transient=True,
            expand=True,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the bar away."""
        self._progress.stop()

    def started(self, total_steps: int, from_step: int) -> None:
        """Show the bar."""
        super().started(total_steps, from_step)
        self._task = self._progress.add_task("", total=total_steps, completed=from_step)
        self._progress.start()

    def stepped(self, report: Report) -> None:
        """Move it."""
        super().stepped(report)
        for name in ("loss", "accuracy", "tokens_per_second"):
            now: float = getattr(report, name)
            before = self._means.get(name, now)
            self._means[name] = MEMORY * before + (1 - MEMORY) * now
        figures = (
            f"loss {self._means['loss']:.4f}  accuracy {percent(self._means['accuracy']):>6}  "
            f"length {report.longest}  {_thousands(self._means['tokens_per_second'])} tokens/s"
        )
        self._progress.update(self._task, completed=report.step, description=figures)

    def finished(self, result: Result) -> None:
        """Take the bar away."""
        self._progress.stop()


def _thousands(number: float) -> str:
    """A rate, in thousands if it is large.

    >>> _thousands(81_234.5), _thousands(950)
    ('81k', '950')
    """
    return f"{number / 1000:.0f}k" if number >= 1000 else f"{number:.0f}"


def watcher(console: Console, quiet: bool) -> Lines:
    """What shows a run here.

    Args:
        console: where.
        quiet: whether to show nothing.
    """
    if quiet:
        return Lines(Console(quiet=True))
    return Bar(console) if console.is_terminal else Lines(console)
