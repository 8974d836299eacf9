"""The paper's remark on over-sampled series: one step an observation, or one for each window.

Glossary: a SLiCE makes a step for each observation; a Log-SLiCE one for each window of them, by its
log-signature. Windows grow with the resolution, so that their number stays as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from slicekit import catalogue, figures, tasks
from slicekit.studies.plans import Choice, Outcome, Plan, Test
from slicekit.studies.study import Study, adapted
from slicekit.studies.tables import NOTHING, Table, mean_and_deviation

TASK, DIM, RATE, BATCH, STEPS = "areas", 32, 3e-3, 64, 300
LENGTHS = (32, 128, 512, 2048)
WINDOWS, DEPTH = 16, 2
"""How many windows a series has, and the depth of their log-signatures."""

SEQUENCES = 2048
SINGLE, LOG = "SLiCE", "Log-SLiCE"
METHODS = (SINGLE, LOG)


class OverSampling(Study):
    """The same noisy paths, observed 32 to 2,048 times: which way round do they go?

    Accuracy, and processor time of a thousand training steps, with a step for each observation and
    with 16 windows whatever the resolution.
    """

    name = "over-sampling"
    summary = "A step for each observation or for each window, as series are sampled more finely"
    models = ("bd-slice", "d-slice")
    seeds = (0, 1, 2)

    def wanted(self, choice: Choice, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """Every model, way to step, resolution and seed.

        Raises:
            ValueError: if a model is not for series, or its name has sizes.
        """
        return [
            self._plan(choice, model, method, samples, seed)
            for samples in self.lengths(choice)
            for model in without_sizes(self.chosen_models(choice))
            for method in METHODS
            for seed in self.chosen_seeds(choice)
        ]

    def _plan(self, choice: Choice, model: str, method: str, samples: int, seed: int) -> Plan:
        window = max(1, samples // WINDOWS) if method == LOG else 1
        name = f"{model}:dim={DIM},window={window},depth={DEPTH if method == LOG else 1}"
        settings = catalogue.settings(name, tasks.make(TASK, samples=samples), choice.recipe)
        settings = replace(settings, rate=RATE, batch=BATCH, steps=STEPS)
        return Plan(
            name=f"{model}/{method.lower()}/samples-{samples}/seed-{seed}",
            task=TASK,
            model=name,
            settings=adapted(settings, choice, seed),
            tests=self.chosen_tests(
                replace(choice, lengths=None), [Test(samples, samples, SEQUENCES)]
            ),
            options={"samples": samples},
            recipe=choice.recipe,
        )

    def lengths(self, choice: Choice) -> tuple[int, ...]:
        """The numbers of observations."""
        return choice.lengths or (LENGTHS[:2] if choice.quick else LENGTHS)

    def named(self, outcome: Outcome) -> str:
        """The model, without the windows that the study gives it."""
        return outcome.plan.name.split("/")[0]

    def words(self, outcome: Outcome) -> tuple[str, ...]:
        """Also the resolution."""
        return ("--lengths", str(outcome.plan.options["samples"]), *super().words(outcome))

    def tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """Accuracy and time, a row for each model and way to step, a column for each resolution."""
        lengths = self.lengths(choice)
        rows: dict[str, list[tuple[str, ...]]] = {"accuracy": [], "time": []}
        for model, method in self._lines(outcomes):
            cells = [_of(outcomes, model, method, samples) for samples in lengths]
            seeds = max(len(runs) for runs in cells)
            head = (model, method, str(seeds))
            rows["accuracy"].append((*head, *(mean_and_deviation(accuracies(x)) for x in cells)))
            rows["time"].append((*head, *(_seconds(x) for x in cells)))
        columns = ("model", "how", "seeds", *(f"{n:,} observations" for n in lengths))
        note = (
            f"Test accuracy in % on {SEQUENCES:,} paths after {STEPS} steps of {BATCH}, mean and "
            f"deviation over seeds. {LOG} takes {WINDOWS} windows at every resolution."
        )
        timed = (
            "Seconds of the processor for a thousand training steps, validation and test included, "
            "the mean over seeds."
        )
        return [
            Table("Accuracy as sampling gets finer", columns, tuple(rows["accuracy"]), note),
            Table("Time as sampling gets finer", columns, tuple(rows["time"]), timed),
        ]

    def _lines(self, outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
        known = {(self.named(x), method_of(x)) for x in outcomes}
        return sorted(known, key=lambda line: (line[0], METHODS.index(line[1])))

    def plot(self, choice: Choice, outcomes: Sequence[Outcome], path: Path) -> None:
        """Accuracy and time against the resolution, a point for each seed."""
        made, axes = figures.figure(2, 11, 4.4, self.summary)
        for number, (model, method) in enumerate(self._lines(outcomes)):
            look = figures.line(number)
            for axis, what in zip(axes, (accuracies, _times), strict=True):
                points = {
                    n: [x * (100 if what is accuracies else 1) for x in what(runs)]
                    for n in self.lengths(choice)
                    if (runs := _of(outcomes, model, method, n))
                }
                points = {n: scores for n, scores in points.items() if scores}
                means = [sum(scores) / len(scores) for scores in points.values()]
                axis.plot(list(points), means, **look, label=f"{model}, {method}")
                for n, scores in points.items():
                    axis.plot([n] * len(scores), scores, ".", color=look["color"], markersize=5)
        for axis in axes:
            figures.over_lengths(axis)
            axis.set_xlabel("observations")
        figures.label(axes[0], title="accuracy")
        figures.percentages(axes[0], "test accuracy, %", low=40)
        figures.logarithmic(axes[1], "y")
        figures.label(axes[1], title="time", y="processor s / 1,000 steps")
        figures.legend(axes[1])
        figures.write(made, path)


def without_sizes(models: Sequence[str]) -> Sequence[str]:
    """Names of models, to which a study gives the sizes.

    Raises:
        ValueError: if a name has sizes already.
    """
    for name in models:
        if ":" in name:
            raise ValueError(f"model {name!r} has sizes, but those of this study are its own")
    return models


def method_of(outcome: Outcome) -> str:
    """How a run stepped."""
    word = outcome.plan.name.split("/")[1]
    return next(method for method in METHODS if method.lower() == word)


def _of(outcomes: Sequence[Outcome], model: str, method: str, samples: int) -> list[Outcome]:
    place = f"{model}/{method.lower()}/samples-{samples}/"
    return [x for x in outcomes if x.plan.name.startswith(place)]


def accuracies(outcomes: Sequence[Outcome]) -> list[float]:
    """On the test of each run that has one."""
    return [x.tested[0].overall for x in outcomes if x.tested]


def _times(outcomes: Sequence[Outcome]) -> list[float]:
    """Of a thousand steps, of runs that were not interrupted."""
    known = [(x.processor_seconds, x.steps) for x in outcomes]
    return [1000 * seconds / steps for seconds, steps in known if seconds is not None and steps]


def _seconds(outcomes: Sequence[Outcome]) -> str:
    times = _times(outcomes)
    return f"{sum(times) / len(times):.1f}" if times else NOTHING
