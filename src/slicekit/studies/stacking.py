"""The paper's outlook: a Log-SLiCE that maps paths to paths, and another driven by its path.

Glossary: a window is of observations in the first layer, and of elements of the path before it in
the further ones; width is the number of channels of these paths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slicekit import catalogue, figures, tasks
from slicekit.studies.over_sampling import accuracies, without_sizes
from slicekit.studies.plans import Choice, Outcome, Plan, Test
from slicekit.studies.study import Study, adapted
from slicekit.studies.tables import NOTHING, Table, mean_and_deviation, percent

TASK, OPTIONS = "areas", {"samples": 64, "fold": 1.0}
WIDTH, WINDOW, DEPTH = 6, 4, 2
RATE, BATCH, STEPS = 3e-3, 64, 800
SEQUENCES = 2048


@dataclass(frozen=True)
class Case:
    """One of the models that are compared.

    Attributes:
        what: how tables call it.
        dim: of the states.
        layers: how many; None for the paper's bare layer on the series itself.
        further: window of the layers after the first.
    """

    what: str
    dim: int = 32
    layers: int | None = None
    further: int = 2

    def sizes(self) -> str:
        """What stands behind the colon in a model's name."""
        stacked = f",width={WIDTH},further={self.further}" if self.layers else ""
        return f"dim={self.dim},window={WINDOW},depth={DEPTH}{stacked}"


CASES = {
    "bare": Case("the paper's one layer, on the series itself"),
    "layers-1": Case("one layer", layers=1),
    "layers-2": Case("two layers, windows of 4 and 2", layers=2),
    "layers-3": Case("three layers, windows of 4, 2 and 2", layers=3),
    "layers-2-further-1": Case("two layers, windows of 4 and 1", layers=2, further=1),
    "wide-64": Case("one layer as large as two", dim=64, layers=1),
    "wide-96": Case("one layer as large as three", dim=96, layers=1),
}


class Stacking(Study):
    """Whether the signed area of a folded path is positive: it is bent first, integrated then.

    A linear CDE integrates, and the block around it bends; so one layer has to approximate the fold
    by higher iterated integrals, where a second can integrate what the first has bent. All models
    are trained for the same number of steps.
    """

    name = "stacking"
    summary = "Log-SLiCEs stacked path to path: accuracy on folded paths against one layer"
    models = ("bd-slice",)
    seeds = (0, 1, 2)
    of_paper = "its outlook"

    def wanted(self, choice: Choice, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """Every case, one seed after the other.

        Raises:
            ValueError: if a model is not for series, or its name has sizes.
        """
        return [
            self._plan(choice, model, case, seed)
            for seed in self.chosen_seeds(choice)
            for model in without_sizes(self.chosen_models(choice))
            for case in CASES
        ]

    def _plan(self, choice: Choice, model: str, case: str, seed: int) -> Plan:
        chosen, name = CASES[case], f"{model}:{CASES[case].sizes()}"
        settings = catalogue.settings(name, tasks.make(TASK, **OPTIONS), choice.recipe)
        settings = replace(settings, rate=RATE, batch=BATCH, steps=STEPS)
        samples = OPTIONS["samples"]
        tests = [Test(int(samples), int(samples), SEQUENCES)]
        return Plan(
            name=f"{model}/{case}/seed-{seed}",
            task=TASK,
            model=name,
            settings=adapted(settings, choice, seed),
            tests=self.chosen_tests(replace(choice, lengths=None), tests),
            options=dict(OPTIONS),
            layers=chosen.layers,
            recipe=choice.recipe,
        )

    def lengths(self, choice: Choice) -> tuple[int, ...]:
        """None: all series are alike."""
        return ()

    def lengths_of(self, outcome: Outcome) -> tuple[int, ...]:
        """None, likewise."""
        return ()

    def named(self, outcome: Outcome) -> str:
        """The model, without the sizes that the study gives it."""
        return outcome.plan.name.split("/")[0]

    def tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """A row for each case."""
        rows = []
        for (model, case), runs in _lines(outcomes).items():
            shares = accuracies(runs)
            parameters = f"{runs[0].parameters:,}"
            paces = [x.pace for x in runs if x.pace is not None]
            pace = f"{sum(paces) / len(paces):.1f}" if paces else NOTHING
            seeds = " ".join(percent(x) for x in shares)
            told = (CASES[case].what, parameters, mean_and_deviation(shares), seeds, pace)
            rows.append((model, *told))
        columns = ("model", "what", "parameters", "accuracy, %", "every seed", "s / 1,000 steps")
        note = (
            f"Test accuracy on {SEQUENCES:,} folded paths of {OPTIONS['samples']} observations "
            f"after {STEPS} steps of {BATCH}, mean and deviation over seeds; a guess has 50. "
            "Seconds are of the processor, validation and test included."
        )
        return [Table("One layer and several", columns, tuple(rows), note)]

    def plot(self, choice: Choice, outcomes: Sequence[Outcome], path: Path) -> None:
        """A bar for each case, a dot for each seed."""
        lines = _lines(outcomes)
        made, (axis,) = figures.figure(1, 9, 4.4, self.summary)
        for number, runs in enumerate(lines.values()):
            shares = [100 * x for x in accuracies(runs)]
            if shares:
                axis.bar(number, sum(shares) / len(shares), 0.7, **figures.bar(0), alpha=0.6)
                axis.plot([number] * len(shares), shares, "k.", markersize=4)
        figures.names_below(axis, [CASES[case].what for _, case in lines])
        figures.percentages(axis, "test accuracy, %", low=50)
        figures.write(made, path)


def _lines(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], list[Outcome]]:
    """The runs of each model and case, in order."""
    models = dict.fromkeys(x.plan.name.split("/")[0] for x in outcomes)
    lines = {
        (model, case): [x for x in outcomes if x.plan.name.startswith(f"{model}/{case}/")]
        for model in models
        for case in CASES
    }
    return {line: runs for line, runs in lines.items() if runs}
