"""What a user sees while an estimator is fitted: a bar where rich is at hand, lines otherwise."""

from typing import Any

from slicekit.training import Report, Result, Watcher


class Silent(Watcher):
    """Shows nothing; a context, because others leave the terminal as they found it."""

    def __enter__(self) -> Watcher:
        """Nothing to do."""
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to do."""


class Lines(Silent):
    """Prints a line for each validation."""

    def __init__(self, title: str) -> None:
        """Keep the title."""
        self.title, self.steps, self.loss = title, 0, 0.0

    def started(self, total_steps: int, from_step: int) -> None:
        """Remember the number of steps."""
        self.steps = total_steps

    def stepped(self, report: Report) -> None:
        """Remember the loss."""
        self.loss = report.loss

    def evaluated(self, report: Report) -> None:
        """Print a line."""
        print(
            f"{self.title}: step {report.step}/{self.steps}  loss {self.loss:.4f}  "
            f"validation {report.loss:.4f}",
            flush=True,
        )

    def finished(self, result: Result) -> None:
        """Say so where there was nothing to validate on."""
        if not result.best_step:
            print(f"{self.title}: {result.steps} steps  loss {self.loss:.4f}", flush=True)


class Bar(Silent):
    """A bar with the losses beside it."""

    def __init__(self, title: str) -> None:
        """Lay the bar out."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("loss {task.fields[loss]}  validation {task.fields[validation]}"),
            TimeRemainingColumn(),
        )
        self._title, self._task = title, None

    def __exit__(self, *error: object) -> None:
        """Leave it as it stands."""
        self._progress.stop()

    def started(self, total_steps: int, from_step: int) -> None:
        """Show it."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(
            self._title, total=total_steps, loss="-", validation="-"
        )
        self._progress.start()

    def stepped(self, report: Report) -> None:
        """Move it."""
        self._update(completed=report.step, loss=f"{report.loss:.4f}")

    def evaluated(self, report: Report) -> None:
        """Show the validation loss."""
        self._update(validation=f"{report.loss:.4f}")

    def _update(self, **fields: Any) -> None:
        assert self._task is not None
        self._progress.update(self._task, **fields)


def watch_for(verbose: bool, title: str) -> Silent:
    """What suits the terminal.

    Args:
        verbose: whether to show anything.
        title: what is fitted.
    """
    if not verbose:
        return Silent()
    try:
        return Bar(title)
    except ImportError:
        return Lines(title)


class Progress:
    """How far a fit in closed form has come: a bar where rich is at hand, lines otherwise.

    Args:
        verbose: whether to show anything.
        parts: how many shares of 1 are told in all.
    """

    def __init__(self, verbose: bool, parts: int) -> None:
        """Nothing is shown yet."""
        self._verbose, self._parts, self._done, self._title = verbose, parts, 0.0, ""
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        """Show the bar."""
        if self._verbose:
            try:
                from rich.progress import Progress as Rich
            except ImportError:
                return self
            self._bar = Rich()
            self._task = self._bar.add_task("fit", total=self._parts)
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave it as it stands."""
        if self._bar is not None:
            self._bar.stop()

    def tell(self, title: str, share: float) -> None:
        """So much more is done, or will be next, of what the title says."""
        self._done += share
        if self._bar is not None:
            self._bar.update(self._task, description=title, completed=self._done)
        elif self._verbose and title != self._title:
            print(f"{title}: {self._done / self._parts:.0%}", flush=True)
        self._title = title
