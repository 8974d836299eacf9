"""What a study is: a table or figure of the paper, as runs to do and a way to show them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slicekit import catalogue, tasks
from slicekit.devices import find_device
from slicekit.engines import Engine, Local
from slicekit.locks import WRITER, writing
from slicekit.studies.budgets import Budget
from slicekit.studies.grid import GridWatcher, Standing, run_grid
from slicekit.studies.line_ups import expand
from slicekit.studies.plans import Choice, Outcome, Plan, Test
from slicekit.studies.results import RUNS, Results, claim, gathered
from slicekit.studies.tables import Table
from slicekit.training import Settings

QUICK_STEPS, QUICK_BATCH, QUICK_SEQUENCES, QUICK_LENGTH = 20, 16, 8, 128
"""Enough to see that everything works."""


class Study(ABC):
    """A table or figure of the paper, with our models beside the paper's.

    Attributes:
        name: what it is called on the command line.
        summary: one line.
        models: what it compares, if the user names none.
        seeds: a run each, if the user names none.
        needs_data: whether what it wants depends on the data that are at hand.
        of_paper: which of the paper's tables and figures it is; nothing if it is none of them.
    """

    name: str
    summary: str
    models: tuple[str, ...]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    of_paper: str = ""
    needs_data: bool = False

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
    def plot(self, choice: Choice, outcomes: Sequence[Outcome], path: Path) -> None:
        """Write the picture, a PNG."""

    def chosen_models(self, choice: Choice) -> tuple[str, ...]:
        """The models to compare.

        Raises:
            ValueError: if a name is unknown.
        """
        for name in expand(choice.models or ()):
            catalogue.check_name(name)
        return self.shown_models(choice)

    def shown_models(self, choice: Choice) -> tuple[str, ...]:
        """The models of the tables; a name may be of an earlier version."""
        return expand(choice.models or self.models)

    @abstractmethod
    def lengths(self, choice: Choice) -> tuple[int, ...]:
        """The lengths of the tables' columns."""

    def lengths_of(self, outcome: Outcome) -> tuple[int, ...]:
        """Those of them that a run has results for."""
        return tuple(tested.low for tested in outcome.tested if tested.low == tested.high)

    def covering(self, choice: Choice, outcomes: Sequence[Outcome]) -> Choice:
        """A choice that also wants the models, seeds and lengths of what was found before.

        Args:
            choice: what the user wants now.
            outcomes: what was found, then or now.
        """
        models = dict.fromkeys((*self.shown_models(choice), *(x.plan.model for x in outcomes)))
        covered = [model for model in self.models if model in models]
        seeds = {*self.chosen_seeds(choice), *(x.plan.settings.seed for x in outcomes)}
        known = set(self.lengths(choice))
        more = {length for x in outcomes for length in self.lengths_of(x)}
        return replace(
            choice,
            models=(*covered, *sorted(models.keys() - set(covered))),
            seeds=tuple(sorted(seeds)),
            lengths=choice.lengths if more <= known else tuple(sorted(known | more)),
        )

    def whole(self, choice: Choice) -> Choice:
        """What it takes to show all that the paper shows."""
        return choice

    def glimpse(self, choice: Choice) -> Choice:
        """A quick look at few models, for one at all studies."""
        return replace(choice, quick=True, models=self.models[:2])

    def absent(self, choice: Choice) -> tuple[str, ...]:
        """Data that the paper has, and that are not at hand."""
        return ()

    def recorded(self, outcomes: Sequence[Outcome]) -> Choice:
        """The choice whose tables show what is on record, and no more."""
        models = tuple(dict.fromkeys(x.plan.model for x in outcomes))
        seeds = tuple(sorted({x.plan.settings.seed for x in outcomes}))
        return self.covering(Choice(models=models, seeds=seeds), outcomes)

    def page_tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """What a page has room for: not every seed, but how far they lie apart."""
        return self.tables(choice, outcomes)

    def short_tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """What a page that says more than these results has room for."""
        return self.page_tables(choice, outcomes)

    def known_plans(self, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """All runs that show what the paper shows, whatever data are at hand.

        Args:
            outcomes: of the runs that are finished, by name.
        """
        return self.wanted(self.whole(Choice()), outcomes)

    def named(self, outcome: Outcome) -> str:
        """What the command that repeats a run calls its model."""
        return outcome.plan.model

    def words(self, outcome: Outcome) -> tuple[str, ...]:
        """Options of the command that repeats a run, besides its model and seed."""
        plan = outcome.plan
        recipe = () if plan.recipe == catalogue.FAST else ("--recipe", plan.recipe)
        settings = plan.settings
        return (*recipe, "--steps", str(settings.steps), "--batch", str(settings.batch))

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
        recipe = catalogue.settings(model, tasks.make(task, **options), choice.recipe)
        return adapted(recipe, choice, seed)


def adapted(settings: Settings, choice: Choice, seed: int) -> Settings:
    """A model's own settings, with what the user chose."""
    steps = choice.steps or (QUICK_STEPS if choice.quick else settings.steps)
    batch = choice.batch or (QUICK_BATCH if choice.quick else settings.batch)
    often = max(1, steps // 20)
    return replace(
        settings,
        seed=seed,
        steps=steps,
        batch=batch,
        evaluate_every=min(settings.evaluate_every, often),
        checkpoint_every=min(settings.checkpoint_every, often),
    )


def conduct(
    study: Study,
    choice: Choice,
    folder: Path,
    *,
    processes: int = 1,
    watch: GridWatcher | None = None,
    device: str | None = None,
    engine: Engine | None = None,
    budget: float | None = None,
) -> Standing:
    """Do what a study wants, and write results.json, results.md and results.png.

    They are written whenever a run is finished, each as a whole. A study may be stopped at any
    time. Done again with the same folder, it keeps what is finished, goes on with what is not, and
    comes to the same results; another choice of models, seeds or lengths adds to them. If runs fail
    and no other is finished, results that are there stay as they are.

    Args:
        study: which one.
        choice: what the user wants of it.
        folder: for the results, and the runs below it; a quick look needs one of its own.
        processes: how many runs at a time, with one thread each, if no engine is given.
        watch: is told of everything.
        device: of the machine that does a run, "cpu", "cuda" or "mps"; None is the CPU.
        engine: where the runs are done; None is this machine. A cluster's nodes must see `folder`.
        budget: seconds that it may take; None is as long as it needs. No run is begun that would
            likely pass the end, by the time that others took, and those that do pass it are stopped
            and can go on.

    Returns:
        How it stands at the end: outcomes and failures, and what was left for another time.

    Raises:
        InUse: if another process is doing a study in the folder.
        ValueError: if a model's name is unknown, there is no such device, or the folder is of
            another study.
        ImportError: if the engine's library is missing.
        Unreachable: if its cluster does not answer, or does no more.
        OSError: if a file can't be written.
    """
    engine, within = engine or Local(processes), Budget(budget)
    if not engine.shared:
        find_device(device)
    study.wanted(choice, {})  # what is wrong with the choice comes out before there is a folder
    with writing(folder), engine.opened(folder):
        claim(study, choice, folder)
        gathered(study, choice, Standing(), folder)  # as does what is wrong with the folder
        results = Results(study, choice, folder)
        standing = run_grid(
            lambda known: study.wanted(choice, known),
            folder / RUNS,
            engine,
            watch,
            device,
            folder / WRITER,
            within,
            results.write_soon,
        )
        standing.written = results.write(standing)
    return standing
