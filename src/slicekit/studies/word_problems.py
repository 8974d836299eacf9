"""Our recipe for A5, unchanged, on groups with other properties."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from slicekit.catalogue import as_path
from slicekit.studies.a5_lengths import by_model
from slicekit.studies.plans import Choice, Outcome, Plan, Test
from slicekit.studies.plots import plot_lengths
from slicekit.studies.study import Study
from slicekit.studies.tables import Table, both, both_means, means_of, steps_made

GROUPS = {
    "a5": "60 elements, not solvable",
    "s5": "120 elements, not solvable",
    "a4xz5": "60 elements, solvable, not commutative",
    "z60": "60 elements, commutative",
}
LENGTHS = (40, 128, 512, 2048, 5120)
SEQUENCES = 64


class WordProblems(Study):
    """The same model and settings on A5, S5, A4 x Z5 and Z60, trained on lengths up to 40."""

    name = "word-problems"
    summary = "Word problems of four groups with one recipe, trained on lengths up to 40"
    models = ("orthogonal-slice",)

    def wanted(self, choice: Choice, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """Every model, group and seed."""
        return [
            self._plan(choice, model, group, seed)
            for model in self.chosen_models(choice)
            for group in GROUPS
            for seed in self.chosen_seeds(choice)
        ]

    def _plan(self, choice: Choice, model: str, group: str, seed: int) -> Plan:
        settings = self.settings(choice, model, group, seed)
        tests = self.chosen_tests(choice, [Test(n, n, SEQUENCES) for n in LENGTHS])
        place = f"{group}/{as_path(model, choice.recipe)}/seed-{seed}"
        return Plan(place, group, model, settings, tests, recipe=choice.recipe)

    def lengths(self, choice: Choice) -> tuple[int, ...]:
        """Those to test at."""
        return tuple(x.low for x in self._plan(choice, self.models[0], "a5", 0).tests)

    def tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """Every seed and the mean, over all positions and at the last."""
        rows: list[tuple[str, ...]] = []
        lengths = self.lengths(choice)
        for (model, group), runs in self._groups(choice, outcomes).items():
            label = (model, group, GROUPS[group])
            for x in runs:
                cells = (both(x.at(length)) for length in lengths)
                rows.append((*label, str(x.plan.settings.seed), steps_made([x]), *cells))
            means = (both_means(x.at(length) for x in runs) for length in lengths)
            rows.append((*label, "mean", steps_made(runs), *means))
        lengthwise = (f"{length:,}" for length in lengths)
        columns = ("model", "group", "about it", "seed", "steps", *lengthwise)
        note = "Accuracy in %, over all positions / at the last. Trained on lengths 3 to 40."
        return [Table("Accuracy at each length", columns, tuple(rows), note)]

    def _groups(
        self, choice: Choice, outcomes: Sequence[Outcome]
    ) -> dict[tuple[str, str], list[Outcome]]:
        by_name = by_model(self.shown_models(choice), outcomes)
        cells = [(name, group) for name in by_name for group in GROUPS]
        by_cell = {(name, g): [x for x in by_name[name] if x.plan.task == g] for name, g in cells}
        return {cell: runs for cell, runs in by_cell.items() if runs}

    def page_tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """Means alone."""
        return [means_of(table) for table in self.tables(choice, outcomes)]

    def plot(self, choice: Choice, outcomes: Sequence[Outcome], path: Path) -> None:
        """A line for each group and model."""
        runs = self._groups(choice, outcomes)
        named = {f"{group}, {model}": x for (model, group), x in runs.items()}
        plot_lengths(named, path, self.summary, (3, 40))
