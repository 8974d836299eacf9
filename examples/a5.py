"""Track the state of A5 far past the lengths of training: the main result, from nothing.

A5, the even permutations of five points, is the smallest group whose word problem is complete for
NC1: no fixed number of diagonal layers (S4D, S6, Mamba) solves it at every length. Here one layer
of rotations learns it from words of at most 40 letters, and is asked for words of up to 5120. Then
it learns once more, by cross-entropy alone: without the consistency of its features it is lost.

    python examples/a5.py [--seed 0] [--steps 2000] [--out runs/demo]
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from slicekit import catalogue, tasks
from slicekit.cli.progress import watcher
from slicekit.training import Score, evaluate, train
from slicekit.training.plots import plot_lengths

TRAINED = (3, 40)
LENGTHS = (20, 40, 80, 160, 320, 640, 1280, 2560, 5120)
PAPER = (
    "In the paper, after 100,000 steps, the best parallel models keep a high accuracy to at least "
    "8 times the length of training, here 320."
)


def run(changes: dict[str, Any], folder: Path, console: Console) -> list[Score]:
    """Train on words of up to 40 letters, and measure the accuracy at every length."""
    task = tasks.make("a5")
    name = catalogue.default(task)
    settings = replace(catalogue.settings(name, task), **changes)
    model = catalogue.build(name, task, seed=settings.seed)
    size = sum(x.numel() for x in model.parameters())
    console.print(f"Training {name} on {task.name}: one layer, {size:,} parameters.")
    with watcher(console, quiet=False) as watch:
        described = {"task": task.name, "model": name}
        result = train(model, task, settings, folder=folder, watch=watch, describe=described)
    console.print(f"{result.steps:,} steps in {result.seconds:.0f} s.")
    return evaluate(result.model, task, LENGTHS, sequences=64)


def free(folder: Path) -> Path:
    """The folder, with a number if there is one already."""
    if not folder.exists():
        return folder
    numbered = (folder.with_name(f"{folder.name}-{n}") for n in count(2))
    return next(path for path in numbered if not path.exists())


def table(found: Mapping[str, Sequence[Score]]) -> Table:
    """Accuracy by length, of each run."""
    shown = Table(title="A5, one layer of rotations: accuracy over all positions / at the last")
    for head in ("length", "times training", *found):
        shown.add_column(head, justify="right")
    for scores in zip(*found.values(), strict=True):
        length = scores[0].length
        cells = (f"{score.overall:.2%} / {score.last:.2%}" for score in scores)
        shown.add_row(f"{length:,}", f"{length / TRAINED[1]:g}", *cells)
    return shown


def main(argv: Sequence[str] | None = None) -> None:
    """Train, measure, print the table and save the plot."""
    parser = argparse.ArgumentParser(description="A5 state tracking to length 5120.")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data")
    parser.add_argument("--steps", type=int, help="of training; the recipe's by default")
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder of the runs")
    options = parser.parse_args(argv)
    console, folder = Console(), free(options.out)
    changes = {"seed": options.seed} | ({"steps": options.steps} if options.steps else {})
    found = {
        "the recipe": run(changes, folder / "recipe", console),
        "without consistency": run(changes | {"consistency": 0.0}, folder / "without", console),
    }
    console.print(table(found))
    console.print(PAPER, soft_wrap=True)
    picture = folder / "a5.png"
    plot_lengths(found, picture, trained=TRAINED)
    console.print(f"Plot saved to {picture.resolve()}", soft_wrap=True)


if __name__ == "__main__":
    main()
