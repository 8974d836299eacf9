"""The paper's table of regular languages, trained on lengths 3 to 40, tested on 40 to 256."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from slicekit import figures
from slicekit.catalogue import as_path
from slicekit.studies.a5_lengths import by_model
from slicekit.studies.line_ups import BASELINES, OTHERS, SIZES, SLICES
from slicekit.studies.plans import Choice, Outcome, Plan, Test
from slicekit.studies.study import QUICK_SEQUENCES, Study
from slicekit.studies.tables import (
    NOTHING,
    PAPERS_STEPS,
    Table,
    batches_made,
    mean_and_deviation,
    means_of,
    percent,
    steps_made,
)

LANGUAGES = {
    "cycle-navigation": "Cycle Nav.",
    "even-pairs": "Even Pairs",
    "modular-arithmetic": "Mod Arith. No Brack.",
    "parity": "Parity",
}
AVERAGE = "average"
RANGE = Test(40, 256, 2048)
BEYOND = (Test(1024, 1024, 256), Test(4096, 4096, 256))

RANDOM = "random"
"""A guess, which takes no steps."""

PAPER: dict[str, tuple[str, str, str, str, str]] = {
    "LSTM (recurrent)": ("100.0 ± 0.0", "100.0 ± 0.0", "99.9 ± 0.1", "100.0 ± 0.0", "100"),
    "sLSTM (recurrent)": ("32.5 ± 0.4", "100.0 ± 0.0", "27.7 ± 0.6", "100.0 ± 0.0", "65.1"),
    "xLSTM[1:1] (recurrent)": ("53.5 ± 5.6", "99.0 ± 1.9", "29.3 ± 1.6", "100.0 ± 0.0", "70.5"),
    "DeltaNet": ("49.8 ± 4.7", "100.0 ± 0.0", "42.2 ± 4.8", "57.8 ± 0.8", "62.5"),
    "DeltaNet[-1,1]": ("46.7 ± 6.1", "100.0 ± 0.0", "66.4 ± 8.8", "97.7 ± 2.0", "77.7"),
    "Gated DeltaNet": ("53.8 ± 8.8", "100.0 ± 0.0", "42.8 ± 8.2", "56.5 ± 1.9", "63.3"),
    "Gated DeltaProduct[-1,1]": (
        "46.3 ± 6.6",
        "100.0 ± 0.0",
        "78.4 ± 10.9",
        "98.0 ± 1.4",
        "80.7",
    ),
    "RWKV-7": ("37.8 ± 5.0", "88.1 ± 14.2", "39.5 ± 6.1", "51.1 ± 0.3", "54.1"),
    "mLSTM": ("52.4 ± 10.5", "99.9 ± 0.1", "28.8 ± 3.1", "53.0 ± 2.1", "58.5"),
    "Transformer": ("24.4 ± 0.5", "90.4 ± 10.4", "23.6 ± 0.7", "52.2 ± 0.4", "47.7"),
    "Mamba": ("48.4 ± 2.2", "100.0 ± 0.0", "33.1 ± 6.6", "54.2 ± 2.1", "58.9"),
    "S4D": ("23.7 ± 1.1", "68.7 ± 4.7", "21.7 ± 0.4", "51.2 ± 1.0", "41.3"),
    "D-SLiCE": ("69.5 ± 6.3", "100.0 ± 0.0", "20.9 ± 0.1", "100.0 ± 0.0", "72.6"),
    "WH-SLiCE": ("69.7 ± 8.8", "93.1 ± 13.9", "23.8 ± 1.1", "71.4 ± 12.9", "64.5"),
    "BD-SLiCE, dh=128, b=4": ("99.8 ± 0.2", "85.9 ± 11.3", "54.0 ± 12.5", "95.3 ± 3.9", "83.8"),
    "D-DE-SLiCE, dh=272, b=16": (
        "73.3 ± 29.4",
        "84.8 ± 8.5",
        "98.4 ± 0.7",
        "83.8 ± 11.3",
        "85.1",
    ),
    "DPLR-SLiCE, dh=57, r=4": ("81.1 ± 16.6", "100.0 ± 0.0", "68.3 ± 19.3", "91.0 ± 18.0", "85.1"),
    RANDOM: ("20.0", "50.0", "20.0", "50.0", "35.0"),
}
"""The paper's table: mean and deviation over five runs of 100,000 steps, on lengths 40 to 256."""

PAPERS_SIZES: dict[str, tuple[str, str, str, str, str]] = {
    "d-slice:dim=128": ("69.5 ± 6.3", "100.0 ± 0.0", "20.8 ± 0.2", "89.1 ± 18.6", "69.9"),
    "d-slice:dim=512": ("59.7 ± 5.1", "100.0 ± 0.0", "20.9 ± 0.1", "100.0 ± 0.0", "70.2"),
    "wh-slice:dim=128": ("69.7 ± 8.8", "93.1 ± 13.9", "20.5 ± 0.3", "50.7 ± 0.3", "58.5"),
    "wh-slice:dim=512": ("35.5 ± 1.8", "58.5 ± 2.5", "23.8 ± 1.1", "71.4 ± 12.9", "47.3"),
    "bd-slice:dim=256,block=2": ("92.5 ± 14.0", "72.7 ± 3.0", "37.7 ± 2.6", "99.6 ± 0.8", "75.6"),
    "bd-slice:dim=128,block=4": ("99.8 ± 0.2", "85.9 ± 11.3", "54.0 ± 12.5", "95.3 ± 3.9", "83.8"),
    "bd-slice:dim=64,block=8": ("99.9 ± 0.1", "91.3 ± 6.3", "70.6 ± 21.4", "54.1 ± 4.9", "79.0"),
    "bd-slice:dim=32,block=16": ("97.6 ± 3.5", "94.7 ± 6.5", "76.6 ± 22.1", "50.8 ± 0.3", "79.9"),
    "d-de-slice:dim=510,block=2": (
        "61.9 ± 20.4",
        "91.3 ± 11.5",
        "20.8 ± 0.2",
        "97.8 ± 2.9",
        "67.9",
    ),
    "d-de-slice:dim=500,block=4": (
        "81.6 ± 15.0",
        "85.3 ± 18.0",
        "29.4 ± 15.4",
        "83.7 ± 9.4",
        "70.0",
    ),
    "d-de-slice:dim=456,block=8": ("90.6 ± 9.4", "90.7 ± 3.0", "31.0 ± 4.2", "79.9 ± 3.5", "73.1"),
    "d-de-slice:dim=272,block=16": (
        "73.3 ± 29.4",
        "84.8 ± 8.5",
        "98.4 ± 0.7",
        "83.8 ± 11.3",
        "85.1",
    ),
    "dplr-slice:dim=171,rank=1": ("46.5 ± 26.3", "91.1 ± 4.4", "25.8 ± 10.2", "87.8 ± 9.5", "62.8"),
    "dplr-slice:dim=102,rank=2": ("53.1 ± 14.7", "96.8 ± 5.1", "43.9 ± 9.0", "79.7 ± 14.4", "68.4"),
    "dplr-slice:dim=57,rank=4": (
        "81.1 ± 16.6",
        "100.0 ± 0.0",
        "68.3 ± 19.3",
        "91.0 ± 18.0",
        "85.1",
    ),
    "dplr-slice:dim=30,rank=8": ("90.1 ± 10.2", "100.0 ± 0.0", "60.3 ± 19.7", "50.7 ± 0.3", "75.3"),
}
"""The appendix's table of sizes, in the same way, by the names of the catalogue."""


class Languages(Study):
    """Cycle navigation, even pairs, modular arithmetic and parity, and their average.

    As in the paper, accuracy is that at the last token, on words whose lengths are drawn from 40 to
    256. Beyond it, on words of 1024 and 4096, or of the lengths that are asked for.
    """

    name = "languages"
    summary = "Regular languages, trained on lengths up to 40"
    models = ("projective-slice", *SLICES, *OTHERS, *BASELINES)
    of_paper = "tables 2 and 4"

    def whole(self, choice: Choice) -> Choice:
        """Also the appendix's sixteen sizes."""
        return replace(choice, models=(*self.models, *SIZES))

    def wanted(self, choice: Choice, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """Every model, language and seed."""
        return [
            Plan(
                name=f"{task}/{as_path(model, choice.recipe)}/seed-{seed}",
                task=task,
                model=model,
                settings=self.settings(choice, model, task, seed),
                tests=self._tests(choice),
                recipe=choice.recipe,
            )
            for model in self.chosen_models(choice)
            for task in LANGUAGES
            for seed in self.chosen_seeds(choice)
        ]

    def _tests(self, choice: Choice) -> tuple[Test, ...]:
        """The paper's range is always among them."""
        paper = replace(RANGE, sequences=QUICK_SEQUENCES) if choice.quick else RANGE
        return (paper, *self.chosen_tests(choice, BEYOND))

    def lengths(self, choice: Choice) -> tuple[int, ...]:
        """Those to test at beyond the paper's range."""
        return tuple(test.low for test in self.chosen_tests(choice, BEYOND))

    def tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """One for the paper's lengths, one for each beyond."""
        return [self._table(choice, outcomes, test) for test in self._tests(choice)]

    def _table(self, choice: Choice, outcomes: Sequence[Outcome], test: Test) -> Table:
        rows: list[tuple[str, ...]] = []
        for model, runs in by_model(self.shown_models(choice), outcomes).items():
            by_seed = _by_seed(runs, test)
            for seed, accuracies in by_seed.items():
                made = steps_made(x for x in runs if x.plan.settings.seed == seed)
                rows.append((model, str(seed), made, *_cells(accuracies)))
            rows.append((model, "mean", steps_made(runs), *_means(list(by_seed.values()))))
        lengths, note = f"{test.low:,}", ""
        if test.low < test.high:
            lengths = f"{test.low} to {test.high}"
            shown = {x.plan.model for x in outcomes}
            sizes = {name: figures for name, figures in PAPERS_SIZES.items() if name in shown}
            rows += [
                (f"paper: {name}", "mean", NOTHING if name == RANDOM else PAPERS_STEPS, *figures)
                for name, figures in {**PAPER, **sizes}.items()
            ]
            papers = f"The paper's figures are means over five seeds, after {PAPERS_STEPS} steps."
            note = f"{papers} {batches_made(outcomes)}".rstrip()
        columns = ("model", "seed", "steps", *LANGUAGES.values(), AVERAGE)
        return Table(f"Accuracy in % at lengths {lengths}", columns, tuple(rows), note)

    def page_tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """Means alone."""
        return [means_of(table) for table in self.tables(choice, outcomes)]

    def plot(self, choice: Choice, outcomes: Sequence[Outcome], path: Path) -> None:
        """A table of squares for each test, with a row for each model."""
        models, tests = by_model(self.shown_models(choice), outcomes), self._tests(choice)
        height = 1.4 + 0.2 * len(models)
        made, axes = figures.figure(len(tests), 2.2 + 2.8 * len(tests), height, self.summary)
        for axis, test in zip(axes, tests, strict=True):
            seeds = [list(_by_seed(runs, test).values()) for runs in models.values()]
            cells = [[_seen(own, task) for task in (*LANGUAGES, AVERAGE)] for own in seeds]
            figures.squares(
                axis,
                list(models) if axis is axes[0] else [""] * len(models),
                [*LANGUAGES.values(), AVERAGE],
                [[mean for mean, _ in row] for row in cells],
                [[word for _, word in row] for row in cells],
                low=0,
                high=100,
            )
            figures.label(axis, title=f"accuracy in %, length {_label(test)}")
        figures.write(made, path)


def _seen(seeds: Sequence[Mapping[str, float]], task: str) -> tuple[float, str]:
    """The mean over seeds in %, and how it is written: with the least where they differ."""
    shares = [_average(x) if task == AVERAGE else x.get(task) for x in seeds]
    known = [100 * share for share in shares if share is not None]
    if not known:
        return math.nan, ""
    mean, least = sum(known) / len(known), min(known)
    word, lowest = f"{mean:.0f}", f"{least:.0f}"
    return mean, word if word == lowest else f"{word} ({lowest})"


def _label(test: Test) -> str:
    return str(test.low) if test.low == test.high else f"{test.low} to {test.high}"


def _by_seed(outcomes: Sequence[Outcome], test: Test) -> dict[int, dict[str, float]]:
    """Accuracy by seed and language."""
    accuracies: dict[int, dict[str, float]] = {}
    for x in outcomes:
        tested = x.at(test.low, test.high)
        if tested is not None:
            accuracies.setdefault(x.plan.settings.seed, {})[x.plan.task] = tested.last
    return dict(sorted(accuracies.items()))


def _average(accuracies: Mapping[str, float]) -> float | None:
    """Over the languages, None if one is missing."""
    if len(accuracies) < len(LANGUAGES):
        return None
    return sum(accuracies.values()) / len(accuracies)


def _cells(accuracies: Mapping[str, float]) -> list[str]:
    average = _average(accuracies)
    cells = [percent(accuracies[task]) if task in accuracies else NOTHING for task in LANGUAGES]
    return [*cells, NOTHING if average is None else percent(average)]


def _means(seeds: Sequence[Mapping[str, float]]) -> list[str]:
    """Mean and deviation over seeds of every language, and of the average."""
    means = [mean_and_deviation([x[task] for x in seeds if task in x]) for task in LANGUAGES]
    averages = [average for x in seeds if (average := _average(x)) is not None]
    return [*means, mean_and_deviation(averages)]
