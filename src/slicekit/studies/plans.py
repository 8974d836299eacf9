"""What a study wants to be run, and what came of it, as plain data."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from slicekit.catalogue import FAST, RECIPES
from slicekit.suggestions import unknown
from slicekit.training.rules import Whole
from slicekit.training.settings import Settings


@dataclass(frozen=True)
class Choice:
    """What a user wants of a study; None leaves it to the study.

    Args:
        models: names of the catalogue, perhaps with sizes; for `uea` also of its classifiers.
        recipe: of the models, `fast` or `paper`.
        seeds: a run each.
        steps: of training, instead of the model's own.
        batch: sequences of a step, instead of the model's own.
        lengths: for `a5-layers`, which lengths to train on; for the others, which to test at.
        max_layers: for `a5-layers`, how many layers to try.
        parts: for `uea`, which of its parts.
        sets: for `uea`, which data sets.
        data: for `uea`, the folder of the data sets.
        quick: whether to only see that it works: few steps, short sequences, one seed.

    Raises:
        ValueError: if a number is out of range, or a tuple is empty.
    """

    models: tuple[str, ...] | None = None
    recipe: str = FAST
    seeds: tuple[int, ...] | None = None
    steps: int | None = None
    batch: int | None = None
    lengths: tuple[int, ...] | None = None
    max_layers: int = 4
    parts: tuple[str, ...] | None = None
    sets: tuple[str, ...] | None = None
    data: str | None = None
    quick: bool = False

    def __post_init__(self) -> None:
        """Check recipe and numbers."""
        if self.recipe not in RECIPES:
            raise unknown("recipe", self.recipe, RECIPES)
        for name, least in (("seeds", 0), ("lengths", 1)):
            for number in getattr(self, name) or ():
                Whole(least)(name, number)
        for name in ("steps", "batch", "max_layers"):
            if getattr(self, name) is not None:
                Whole(1)(name, getattr(self, name))
        for name in ("models", "seeds", "lengths", "parts", "sets"):
            if getattr(self, name) == ():
                raise ValueError(f"{name} is empty; expected at least one")


@dataclass(frozen=True)
class Test:
    """Sequences to judge a trained model by.

    Args:
        low, high: the range that their lengths are drawn from; both ends belong to it.
        sequences: how many.
    """

    __test__ = False  # not one of pytest's

    low: int
    high: int
    sequences: int


@dataclass(frozen=True)
class Plan:
    """One run: what to train, how, and what to test it on.

    Args:
        name: its place below the study's folder.
        task: a name of `slicekit.tasks`, or of `slicekit.studies.measurements`.
        model: a name of the catalogue, or of `slicekit.studies.classifiers`.
        settings: of the training; its seed is also that of the weights. Of a classifier that trains
            in its own way, only the seed counts; of a measurement, seed and steps.
        tests: what it is judged by; nothing for a finite test set, all of which then counts.
        options: arguments of the task, or of the measurement.
        layers: number of blocks, or None for the model's own.
        recipe: which of the model's recipes.
        trial: whether it is judged by validation alone: nothing is tested then, and a run that
            diverges has an outcome too.
    """

    name: str
    task: str
    model: str
    settings: Settings
    tests: tuple[Test, ...]
    options: dict[str, Any] = field(default_factory=dict)
    layers: int | None = None
    recipe: str = FAST
    trial: bool = False

    @property
    def label(self) -> str:
        """What tables call model and recipe."""
        return label(self.model, self.recipe)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as JSON gives it back."""
        return {
            "name": self.name,
            "task": self.task,
            "model": self.model,
            "settings": self.settings.as_table(),
            "tests": [asdict(test) for test in self.tests],
            "options": self.options,
            "layers": self.layers,
            "recipe": self.recipe,
            **({"trial": True} if self.trial else {}),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Plan":
        """What `as_dict` gave."""
        settings = Settings.from_table(data["settings"])
        tests = tuple(Test(**test) for test in data["tests"])
        return cls(**data | {"settings": settings, "tests": tests})


def label(model: str, recipe: str) -> str:
    """What tables call a model that was trained by a recipe.

    >>> label("bd-slice", "fast"), label("bd-slice", "paper")
    ('bd-slice', 'bd-slice, paper recipe')
    """
    return model if recipe == FAST else f"{model}, {recipe} recipe"


@dataclass(frozen=True)
class Tested:
    """Accuracy on a test.

    Args:
        low, high: the range of the lengths.
        sequences: how many there were.
        overall: over all supervised positions.
        last: at the last supervised position of each sequence.
    """

    __test__ = False  # not one of pytest's

    low: int
    high: int
    sequences: int
    overall: float
    last: float


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Args:
        plan: what was asked for.
        parameters: how many the model has.
        steps: how many were made.
        reason: why training ended: "steps", "stop_at" or "patience"; "skipped", as too costly;
            "diverged", of a trial; or "measured", where nothing was trained.
        best_accuracy: the best validation accuracy; the model that had it was tested. None for a
            classifier that tells of none.
        best_step: when that was.
        tested: a result for each test of the plan, or for the whole of a finite test set; none if
            the run was skipped, or is a trial.
        seconds: of training; of a classifier, of testing as well. NaN if that is not known.
        opened: when a classifier was shown the archive's test set, in UTC; None for other runs, and
            where that is not known.
        processor_seconds: of the processor for training and tests, None if that is not known, as of
            a run that was interrupted.
        memory: the most bytes that the run's process had, None if that is not known.
        processor: what it was done on, None if that is not known.
        version: of slicekit, None if that is not known.
        measured: what a measurement found, as plain data; nothing for runs that train.
    """

    plan: Plan
    parameters: int
    steps: int
    reason: str
    best_accuracy: float | None
    best_step: int
    tested: tuple[Tested, ...]
    seconds: float
    opened: str | None = None
    processor_seconds: float | None = None
    memory: int | None = None
    processor: str | None = None
    version: str | None = None
    measured: dict[str, Any] = field(default_factory=dict)

    @property
    def on_test_set(self) -> float | None:
        """The accuracy on a finite test set, None if the run was skipped."""
        return self.tested[-1].overall if self.tested else None

    @property
    def pace(self) -> float | None:
        """Seconds for a thousand steps, of the processor where they are known; None if no one
        knows."""
        seconds = self.seconds if self.processor_seconds is None else self.processor_seconds
        return 1000 * seconds / self.steps if self.steps and math.isfinite(seconds) else None

    def at(self, low: int, high: int | None = None) -> Tested | None:
        """The result on a range of lengths, or at one length; None if it was not tested there."""
        high = low if high is None else high
        for test in self.tested:
            if (test.low, test.high) == (low, high):
                return test
        return None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as JSON gives it back."""
        tested = [asdict(test) for test in self.tested]
        data = asdict(self) | {"plan": self.plan.as_dict(), "tested": tested}
        return {name: x for name, x in data.items() if name != "measured" or x}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Outcome":
        """What `as_dict` gave."""
        tested = tuple(Tested(**test) for test in data["tested"])
        return cls(**data | {"plan": Plan.from_dict(data["plan"]), "tested": tested})
