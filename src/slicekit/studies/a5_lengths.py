"""The paper's plot of length generalisation on A5: trained up to 40, tested up to 5120."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from slicekit.catalogue import RECIPES, as_path
from slicekit.studies.line_ups import BASELINES, OTHERS, SLICES
from slicekit.studies.plans import Choice, Outcome, Plan, Test, Tested, label
from slicekit.studies.plots import plot_lengths
from slicekit.studies.study import Study
from slicekit.studies.tables import (
    NOTHING,
    PAPERS_STEPS,
    Table,
    both,
    both_means,
    percent,
    steps_made,
)

LENGTHS = tuple(20 * 2**n for n in range(9))
SEQUENCES = 64

STOP_AT = 0.9995
"""Validation accuracy at which the paper's models stop early, as in its code."""

NOT_EVEN = "no high accuracy even at training lengths"
TWICE = "about 2x the training length, not beyond 128"
FAR = "high to at least 8x the training length"
HOLDS = "high beyond training and validation lengths"
PAPER = {
    "bd-slice": FAR,
    "dplr-slice": FAR,
    "wh-slice": NOT_EVEN,
    "s-slice": FAR,
    "de-lncde": FAR,
    "d-de-slice": TWICE,
    "lstm": HOLDS,
    "slstm": HOLDS,
    "mamba": NOT_EVEN,
    "gated-deltaproduct": TWICE,
}
"""What the paper says of those models that pass 90% at length 20, after 100,000 steps each."""


class A5Lengths(Study):
    """Trained on lengths 3 to 40, stopped early on 40 to 128, tested at 20, 40, ..., 5120.

    The model with the best validation accuracy is tested, over all positions and at the last.
    """

    name = "a5-lengths"
    summary = "A5, trained on lengths up to 40: test accuracy against length"
    models = ("orthogonal-slice", *SLICES, *OTHERS, *BASELINES)
    of_paper = "figure 1b"

    def wanted(self, choice: Choice, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """Every model and seed."""
        return [
            self._plan(choice, model, seed)
            for model in self.chosen_models(choice)
            for seed in self.chosen_seeds(choice)
        ]

    def _plan(self, choice: Choice, model: str, seed: int) -> Plan:
        settings = self.settings(choice, model, "a5", seed)
        if settings.stop_at is not None:
            settings = replace(settings, stop_at=STOP_AT)
        tests = self.chosen_tests(choice, [Test(n, n, SEQUENCES) for n in LENGTHS])
        place = f"{as_path(model, choice.recipe)}/seed-{seed}"
        return Plan(place, "a5", model, settings, tests, recipe=choice.recipe)

    def lengths(self, choice: Choice) -> tuple[int, ...]:
        """Those to test at."""
        return tuple(x.low for x in self._plan(choice, self.models[0], 0).tests)

    def tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """Every seed and the mean, over all positions and at the last."""
        rows: list[tuple[str, ...]] = []
        lengths = self.lengths(choice)
        for model, runs in by_model(self.shown_models(choice), outcomes).items():
            for x in runs:
                cells = (both(x.at(length)) for length in lengths)
                rows.append((model, str(x.plan.settings.seed), steps_made([x]), *cells, NOTHING))
            means = (both_means(x.at(length) for x in runs) for length in lengths)
            said = PAPER.get(runs[0].plan.model, NOTHING)
            rows.append((model, "mean", steps_made(runs), *means, said))
        rows += papers_rows(PAPER, outcomes, len(lengths))
        columns = ("model", "seed", "steps", *(f"{length:,}" for length in lengths), "the paper")
        note = (
            "Accuracy in %, over all positions / at the last. Trained on lengths 3 to 40, by us for"
            f" so many steps, by the paper for {PAPERS_STEPS}."
        )
        return [Table("Accuracy at each length", columns, tuple(rows), note)]

    def page_tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """A row for each model: over all positions, and at the last."""
        everywhere = self._page_table(choice, outcomes, "over all positions", lambda x: x.overall)
        last = self._page_table(choice, outcomes, "at the last position", lambda x: x.last)
        return [everywhere, last]

    def _page_table(
        self,
        choice: Choice,
        outcomes: Sequence[Outcome],
        where: str,
        share: Callable[[Tested], float],
    ) -> Table:
        lengths = self.lengths(choice)
        rows = []
        for model, runs in by_model(self.shown_models(choice), outcomes).items():
            tested = ([x.at(length) for x in runs] for length in lengths)
            cells = (_mean_and_least([share(x) for x in found if x]) for found in tested)
            said = PAPER.get(runs[0].plan.model, NOTHING)
            rows.append((model, seeds_of(runs), steps_made(runs), *cells, said))
        columns = ("model", "seeds", "steps", *(f"{length:,}" for length in lengths), "the paper")
        note = (
            f"Accuracy in % {where} of 64 words, trained on lengths 3 to 40: the mean over seeds, "
            f"and in brackets the least where they differ. The paper made {PAPERS_STEPS} steps."
        )
        return Table(f"Accuracy at each length, {where}", columns, tuple(rows), note)

    def plot(self, choice: Choice, outcomes: Sequence[Outcome], path: Path) -> None:
        """A line for each model."""
        plot_lengths(by_model(self.shown_models(choice), outcomes), path, self.summary, (3, 40))


def _mean_and_least(shares: Sequence[float]) -> str:
    """Of all seeds that were tested."""
    if not shares:
        return NOTHING
    mean, least = percent(sum(shares) / len(shares)), percent(min(shares))
    return mean if mean == least else f"{mean} ({least})"


def seeds_of(outcomes: Sequence[Outcome]) -> str:
    """The seeds of runs, in order."""
    return " ".join(map(str, sorted({x.plan.settings.seed for x in outcomes})))


def papers_rows(
    said: Mapping[str, str], outcomes: Sequence[Outcome], lengths: int
) -> list[tuple[str, ...]]:
    """What the paper says of baselines that were not run here, with nothing at each length."""
    known = {x.plan.model for x in outcomes}
    return [
        (f"paper: {name}", NOTHING, PAPERS_STEPS, *[NOTHING] * lengths, said[name])
        for name in BASELINES
        if name in said and name not in known
    ]


def by_model(models: Sequence[str], outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of each model and recipe, by their label, without those that have none."""
    labels = [label(model, recipe) for model in models for recipe in RECIPES]
    runs_of = {name: [x for x in outcomes if x.plan.label == name] for name in labels}
    return {name: runs for name, runs in runs_of.items() if runs}
