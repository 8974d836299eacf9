"""What a study is: a table or figure of the paper, as runs to do and a way to show them."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import slicekit
from slicekit import catalogue, files, tasks
from slicekit.locks import writing
from slicekit.studies.grid import GridWatcher, Standing, run_grid
from slicekit.studies.plans import Choice, Outcome, Plan, Test
from slicekit.studies.tables import Table, runs_table
from slicekit.training import Settings, figures

QUICK_STEPS, QUICK_BATCH, QUICK_SEQUENCES, QUICK_LENGTH = 20, 16, 8, 128
"""Enough to see that everything works."""

RESULTS, MARKDOWN, PICTURE, RUNS = "results.json", "results.md", "results.png", "runs"


class Study(ABC):
    """A table or figure of the paper, with our models beside the paper's.

    Attributes:
        name: what it is called on the command line.
        summary: one line.
        models: what it compares, if the user names none.
        seeds: a run each, if the user names none.
    """

    name: str
    summary: str
    models: tuple[str, ...]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    @abstractmethod
    def wanted(self, choice: Choice, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """All runs, as far as they are known.

        Args:
            choice: what the user wants.
            outcomes: of the runs that are finished, by name, for studies where one run decides
                whether another is wanted.
        """

    @abstractmethod
    def tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """What to show, as far as it is known."""

    @abstractmethod
    def draw(self, choice: Choice, outcomes: Sequence[Outcome], path: Path) -> None:
        """Write the picture, a PNG."""

    def chosen_models(self, choice: Choice) -> tuple[str, ...]:
        """The models to compare.

        Raises:
            ValueError: if a name is unknown.
        """
        for name in choice.models or ():
            catalogue.check_name(name)
        return choice.models or self.models

    def chosen_seeds(self, choice: Choice) -> tuple[int, ...]:
        """The seeds of the runs."""
        return choice.seeds or ((0,) if choice.quick else self.seeds)

    def chosen_tests(self, choice: Choice, tests: Sequence[Test]) -> tuple[Test, ...]:
        """The tests, at the lengths that the user chose, and few of them for a quick look."""
        if choice.lengths is not None:
            most = min(test.sequences for test in tests)
            tests = [Test(length, length, most) for length in choice.lengths]
        if choice.quick:
            tests = [replace(x, sequences=min(x.sequences, QUICK_SEQUENCES)) for x in tests]
        if choice.quick and choice.lengths is None:
            tests = [test for test in tests if test.low <= QUICK_LENGTH]
        return tuple(tests)

    def settings(
        self, choice: Choice, model: str, task: str, seed: int, **options: Any
    ) -> Settings:
        """The model's own settings for a task, with what the user chose.

        With fewer steps, validations and checkpoints come at shorter distances.
        """
        own = catalogue.settings(model, tasks.make(task, **options), choice.recipe)
        return adapted(own, choice, seed)


def adapted(own: Settings, choice: Choice, seed: int) -> Settings:
    """A model's own settings, with what the user chose."""
    steps = choice.steps or (QUICK_STEPS if choice.quick else own.steps)
    batch = choice.batch or (QUICK_BATCH if choice.quick else own.batch)
    often = max(1, steps // 20)
    return replace(
        own,
        seed=seed,
        steps=steps,
        batch=batch,
        evaluate_every=min(own.evaluate_every, often),
        checkpoint_every=min(own.checkpoint_every, often),
    )


def conduct(
    study: Study,
    choice: Choice,
    folder: Path,
    *,
    processes: int = 1,
    watch: GridWatcher | None = None,
) -> Standing:
    """Do what a study wants, and write results.json, results.md and results.png.

    It may be stopped at any time. Done again with the same folder, it keeps what is finished, goes
    on with what is not, and comes to the same results.

    Args:
        study: which one.
        choice: what the user wants of it.
        folder: for the results, and the runs below it.
        processes: how many runs at a time, with one thread each.
        watch: is told of everything.

    Returns:
        How it stands at the end: outcomes and failures.

    Raises:
        InUse: if another process is doing a study in the folder.
        ValueError: if a model's name is unknown.
        OSError: if a file can't be written.
    """
    with writing(folder):
        runs = folder / RUNS
        standing = run_grid(lambda known: study.wanted(choice, known), runs, processes, watch)
        write_results(study, choice, standing, folder)
    return standing


def ordered(standing: Standing) -> list[Outcome]:
    """The outcomes in the order of their plans."""
    return [standing.outcomes[name] for name in standing.plans if name in standing.outcomes]


def write_results(study: Study, choice: Choice, standing: Standing, folder: Path) -> None:
    """Write down how a study stands.

    results.json holds nothing that differs when the study is done again; times are in results.md.
    """
    outcomes = ordered(standing)
    runs = [x.as_dict() for x in outcomes]
    for run in runs:
        del run["seconds"]
    found = {
        "study": study.name,
        "slicekit": slicekit.__version__,
        "choice": asdict(choice),
        "runs": runs,
        "failures": standing.failures,
    }
    files.write(folder / RESULTS, (json.dumps(found, indent=2) + "\n").encode())
    tables = [*study.tables(choice, outcomes), runs_table(outcomes)]
    text = "\n\n".join([f"## {study.summary}", *(table.as_markdown() for table in tables)])
    failures = [f"- {name} failed: {why}" for name, why in standing.failures.items()]
    files.write(folder / MARKDOWN, "\n".join([text, "", *failures]).encode())
    if outcomes and figures.available():
        study.draw(choice, outcomes, folder / PICTURE)
