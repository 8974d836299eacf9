"""Track the state of A5 far past the lengths of training: the main result, from nothing.

A5, the even permutations of five points, is the smallest group whose word problem is complete for
NC1: no fixed number of diagonal layers (S4D, S6, Mamba) solves it at every length. Here one layer
of rotations learns it from words of at most 40 letters, and is asked for words of up to 5120.

    python examples/a5.py [--seed 0] [--steps 2000] [--out runs/demo]
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.table import Table

from slicekit import catalogue, tasks
from slicekit.cli.progress import watcher
from slicekit.training import Score, evaluate, train
from slicekit.training.plots import plot_lengths

LENGTHS = (20, 40, 80, 160, 320, 640, 1280, 2560, 5120)
PAPER = (
    "In the paper, after 100,000 steps, the best parallel models keep a high accuracy to at least "
    "8 times the length of training, here 320."
)


def run(seed: int, steps: int | None, folder: Path, console: Console) -> list[Score]:
    """Train on words of up to 40 letters, and measure the accuracy at every length."""
    task = tasks.make("a5")
    name = catalogue.default(task)
    model = catalogue.build(name, task, seed=seed)
    size = sum(x.numel() for x in model.parameters())
    console.print(f"Training {name} on {task.name}: one layer, {size:,} parameters.")
    recipe = catalogue.settings(name, task)
    settings = replace(recipe, seed=seed, steps=recipe.steps if steps is None else steps)
    with watcher(console, quiet=False) as watch:
        result = train(model, task, settings, folder=folder, watch=watch)
    console.print(f"{result.steps:,} steps in {result.seconds:.0f} s. Longer words, to 5120:")
    return evaluate(result.model, task, LENGTHS, sequences=64)


def free(folder: Path) -> Path:
    """The folder, with a number if there is one already."""
    if not folder.exists():
        return folder
    numbered = (folder.with_name(f"{folder.name}-{n}") for n in count(2))
    return next(path for path in numbered if not path.exists())


def table(scores: Sequence[Score], trained: int) -> Table:
    """Accuracy by length."""
    shown = Table(title="A5, one layer of rotations")
    for head in ("length", "times training", "all positions", "last position"):
        shown.add_column(head, justify="right")
    for score in scores:
        times = f"{score.length / trained:g}"
        shown.add_row(f"{score.length:,}", times, f"{score.overall:.2%}", f"{score.last:.2%}")
    return shown


def main(argv: Sequence[str] | None = None) -> None:
    """Train, measure, print the table and save the plot."""
    parser = argparse.ArgumentParser(description="A5 state tracking to length 5120.")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data")
    parser.add_argument("--steps", type=int, help="of training; the recipe's by default")
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="the run folder")
    options = parser.parse_args(argv)
    console, folder = Console(), free(options.out)
    scores = run(options.seed, options.steps, folder, console)
    console.print(table(scores, trained=40))
    console.print(PAPER, soft_wrap=True)
    picture = folder / "plots" / "a5.png"
    plot_lengths({"orthogonal-slice": scores}, picture, trained=(3, 40))
    console.print(f"Plot saved to {picture.resolve()}", soft_wrap=True)


if __name__ == "__main__":
    main()
