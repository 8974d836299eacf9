"""What a run shows while it goes on."""

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from slicekit.cli.progress import Bar, Lines, watcher
from slicekit.training import Report, Result


def report(step: int, kind: str = "train") -> Report:
    return Report(step, kind, 0.25, 0.5, 1e-3, 17, 2.0 * step, 81_000.0)


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100, highlight=False)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def run(watch: Lines) -> None:
    with watch:
        watch.started(4, 0)
        for step in range(1, 5):
            watch.stepped(report(step))
        watch.evaluated(report(4, "validation"))
        model = torch.nn.Identity()
        watch.finished(Result(model, 4, 8.0, 0.5, 4, 0.5, 0.25, "steps", Path("run")))


def test_a_terminal_shows_a_bar_with_the_figures_and_then_takes_it_away() -> None:
    console = terminal()
    watch = watcher(console, quiet=False)
    assert isinstance(watch, Bar)
    run(watch)
    shown = written(console)
    for figure in ("4/4", "loss 0.2500", "accuracy 50.00%", "length 17", "81k tokens/s", "left"):
        assert figure in shown, figure
    assert "step 4/4  validation 50.00%" in shown
    assert shown.rstrip().endswith("\x1b[2K"), "the bar is erased at the end"


def test_elsewhere_there_is_a_line_for_each_validation() -> None:
    console = Console(file=io.StringIO(), width=100)
    watch = watcher(console, quiet=False)
    assert not isinstance(watch, Bar)
    run(watch)
    assert written(console) == (
        "step 4/4  validation 50.00%  loss 0.2500  training 50.00%  length 17  8.0 s\n"
    )


@pytest.mark.parametrize("console", [terminal(), Console(file=io.StringIO())])
def test_quiet_shows_nothing(console: Console) -> None:
    run(watcher(console, quiet=True))
    assert written(console) == ""


def test_a_bar_leaves_the_terminal_as_it_was_after_an_error() -> None:
    console = terminal()
    with pytest.raises(KeyboardInterrupt), watcher(console, quiet=False) as watch:
        watch.started(4, 0)
        raise KeyboardInterrupt
    assert "\x1b[?25l" in written(console), "the cursor was hidden"
    assert "\x1b[?25h" in written(console), "and is shown again"


def test_a_run_that_goes_on_says_from_where() -> None:
    console = Console(file=io.StringIO())
    watcher(console, quiet=False).started(20, 10)
    assert written(console) == "goes on from step 10 of 20\n"
