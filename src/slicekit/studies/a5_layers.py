"""The paper's figure for the A5 benchmark: how many layers does a model need at each length?"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from slicekit import figures
from slicekit.catalogue import RECIPES, as_path
from slicekit.studies.a5_lengths import papers_rows, seeds_of
from slicekit.studies.line_ups import BASELINES, OTHERS, SLICES
from slicekit.studies.plans import Choice, Outcome, Plan, Test, label
from slicekit.studies.study import QUICK_SEQUENCES, Study
from slicekit.studies.tables import NOTHING, PAPERS_STEPS, Table, percent, steps_made

THRESHOLD = 0.9
"""A model has enough layers if its validation accuracy is greater."""

STOP_AT, SHORTEST = 0.995, 3
"""Of recipes whose lengths grow: when to stop, and the length to start from."""

ONE, GROWING = "1 at every length", "more as the length grows"
PAPER = {
    "bd-slice": ONE,
    "dplr-slice": ONE,
    "wh-slice": ONE,
    "s-slice": ONE,
    "de-lncde": ONE,
    "d-slice": GROWING,
    "d-de-slice": GROWING,
    "lstm": ONE,
    "slstm": ONE,
    "mlstm": GROWING,
    "mamba": GROWING,
    "gated-deltaproduct": GROWING,
}
"""What the paper says, after 100,000 steps each."""

Needed = dict[tuple[str, int, int], str]
"""A number of layers by model, seed and length."""


class A5Layers(Study):
    """The smallest number of layers with more than 90% validation accuracy, for lengths 3 to 20.

    Words of A5 of one length, a million distinct ones or all, four fifths for training, with a
    small batch of words of length 2 at each step: the task `a5-fixed`. Layers are added one by one
    until they are enough, or `max_layers` are not.
    """

    name = "a5-layers"
    summary = "A5: the smallest number of layers with more than 90% validation accuracy"
    models = ("orthogonal-slice", *SLICES, *OTHERS, *BASELINES)
    seeds = (0,)
    of_paper = "figure 1a"

    def lengths(self, choice: Choice) -> tuple[int, ...]:
        """Those to train on."""
        return choice.lengths or ((3, 4) if choice.quick else tuple(range(3, 21)))

    def lengths_of(self, outcome: Outcome) -> tuple[int, ...]:
        """The one that a run was trained on."""
        return (outcome.plan.options["length"],)

    def covering(self, choice: Choice, outcomes: Sequence[Outcome]) -> Choice:
        """Also as many layers as were tried before."""
        most = max((x.plan.layers or 1 for x in outcomes), default=1)
        whole = super().covering(choice, outcomes)
        return replace(whole, max_layers=max(self._most(choice), most))

    def wanted(self, choice: Choice, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """For each cell, layers until they are enough."""
        self.chosen_models(choice)
        plans = []
        for cell in self._cells(choice):
            for layers in range(1, self._most(choice) + 1):
                plan = self._plan(choice, *cell, layers)
                plans.append(plan)
                outcome = outcomes.get(plan.name)
                if outcome is None or _passes(outcome):
                    break
        return plans

    def _cells(self, choice: Choice) -> Iterator[tuple[int, str, int]]:
        for length in self.lengths(choice):
            for model in self.shown_models(choice):
                for seed in self.chosen_seeds(choice):
                    yield length, model, seed

    def _most(self, choice: Choice) -> int:
        return min(choice.max_layers, 2) if choice.quick else choice.max_layers

    def _plan(self, choice: Choice, length: int, model: str, seed: int, layers: int) -> Plan:
        options: dict[str, Any] = {"length": length}
        if choice.quick:
            options["sequences"] = 1000
        settings = self.settings(choice, model, "a5-fixed", seed, **options)
        if settings.grow_at is None:
            settings = replace(settings, stop_at=math.nextafter(THRESHOLD, 1))
        else:  # lengths grow by prefixes of the words
            settings = replace(settings, stop_at=STOP_AT, lengths=(min(SHORTEST, length), length))
        place = as_path(model, choice.recipe)
        sequences = QUICK_SEQUENCES if choice.quick else 2048
        return Plan(
            name=_name(length, place, layers, seed),
            task="a5-fixed",
            model=model,
            settings=settings,
            tests=(Test(length, length, sequences),),
            options=options,
            layers=layers,
            recipe=choice.recipe,
        )

    def needed(self, choice: Choice, outcomes: Sequence[Outcome]) -> Needed:
        """The number of layers of each cell: ">4" if 4 are not enough, or no more were tried."""
        known = {outcome.plan.name: outcome for outcome in outcomes}
        needed: Needed = {}
        for model, recipe in self._lines(choice, outcomes):
            place = as_path(model, recipe)
            for seed, length in product(self.chosen_seeds(choice), self.lengths(choice)):
                cell = (label(model, recipe), seed, length)
                needed[cell] = NOTHING
                for layers in range(1, self._most(choice) + 1):
                    outcome = known.get(_name(length, place, layers, seed))
                    if outcome is None:
                        break
                    if _passes(outcome):
                        needed[cell] = str(layers)
                        break
                    needed[cell] = f">{layers}"
        return needed

    def _lines(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
        """Models and recipes of the rows: those of the choice, and those of which there is more."""
        known = {(x.plan.model, x.plan.recipe) for x in outcomes}
        models = {model for model, _ in known}
        return [
            (model, recipe)
            for model in self.shown_models(choice)
            for recipe in RECIPES
            if (model, recipe) in known or (recipe == choice.recipe and model not in models)
        ]

    def tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """A row for each model and seed, a column for each length."""
        needed, lengths = self.needed(choice, outcomes), self.lengths(choice)
        rows = []
        for model, recipe in self._lines(choice, outcomes):
            row = label(model, recipe)
            for seed in self.chosen_seeds(choice):
                runs = [x for x in outcomes if (x.plan.label, x.plan.settings.seed) == (row, seed)]
                if not runs and any(x.plan.label == row for x in outcomes):
                    continue
                cells = (needed[row, seed, length] for length in lengths)
                rows.append((row, str(seed), steps_made(runs), *cells, _said(model)))
        rows += papers_rows(PAPER, outcomes, len(lengths))
        columns = ("model", "seed", "steps", *(f"k={length}" for length in lengths), "the paper")
        note = (
            "Smallest number of layers for words of length k, and the steps that we made at most "
            f"until the answer was known. The paper made {PAPERS_STEPS} steps."
        )
        return [Table("Layers needed", columns, tuple(rows), note)]

    def recorded(self, outcomes: Sequence[Outcome]) -> Choice:
        """Only the lengths and layers that were tried."""
        lengths = sorted({length for x in outcomes for length in self.lengths_of(x)})
        most = max((x.plan.layers or 1 for x in outcomes), default=1)
        return replace(super().recorded(outcomes), lengths=tuple(lengths), max_layers=most)

    def words(self, outcome: Outcome) -> tuple[str, ...]:
        """Also the length, and how many layers were tried."""
        (length,) = self.lengths_of(outcome)
        layers = str(outcome.plan.layers or 1)
        return ("--lengths", str(length), "--max-layers", layers, *super().words(outcome))

    def page_tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """A row for each model and recipe."""
        needed = self.needed(choice, outcomes)
        rows = []
        for model, recipe in self._lines(choice, outcomes):
            row = label(model, recipe)
            runs = [x for x in outcomes if x.plan.label == row]
            layers = {
                length: ", ".join(_alike(needed, row, length)) for length in self.lengths(choice)
            }
            cells = (_by_length(layers), " ".join(self._longest(runs)), _said(model))
            rows.append((row, self._seeds(runs), steps_made(runs), *cells))
        columns = ("model", "seeds", "steps", "layers", "validation, %", "the paper")
        note = (
            "Smallest number of layers for words of length k, steps until the answer was known, "
            "and the accuracy of each seed at the largest k. The paper made "
            f"{PAPERS_STEPS} steps."
        )
        return [Table("Layers needed", columns, tuple(rows), note)]

    def _seeds(self, runs: Sequence[Outcome]) -> str:
        """Those of runs, at each length where lengths differ in them."""
        lengths = sorted({self.lengths_of(x) for x in runs})
        seeds = {
            length: seeds_of([x for x in runs if self.lengths_of(x) == (length,)])
            for (length,) in lengths
        }
        return _by_length(seeds) if len(set(seeds.values())) > 1 else seeds_of(runs)

    def _longest(self, runs: Sequence[Outcome]) -> list[str]:
        """Accuracy of each seed on the longest words, with the most layers."""
        last = max((self.lengths_of(x) for x in runs), default=())
        most: dict[int, Outcome] = {}
        for run in sorted(runs, key=lambda x: x.plan.layers or 1):
            if self.lengths_of(run) == last:
                most[run.plan.settings.seed] = run
        return [percent(most[seed].best_accuracy or 0.0) for seed in sorted(most)]

    def plot(self, choice: Choice, outcomes: Sequence[Outcome], path: Path) -> None:
        """A square for each model and length: the darker, the more layers."""
        needed, lengths = self.needed(choice, outcomes), self.lengths(choice)
        rows = [label(*line) for line in self._lines(choice, outcomes)]
        cells = {row: [_alike(needed, row, length) for length in lengths] for row in rows}
        cells = {row: own for row, own in cells.items() if any(own)}
        width, height = 2.4 + 0.4 * len(lengths), 1.4 + 0.2 * len(cells)
        made, (axis,) = figures.figure(1, max(width, 7), height, self.summary)
        figures.squares(
            axis,
            list(cells),
            [str(length) for length in lengths],
            [[_darkness(words) for words in own] for own in cells.values()],
            [[", ".join(words) for words in own] for own in cells.values()],
            low=0,
            high=self._most(choice) + 1,
        )
        title = "fewest layers that learn it; > more than were tried; white: not tried"
        figures.label(axis, title=title, x="length")
        figures.write(made, path)


def _darkness(needed: Sequence[str]) -> float:
    """Of the seed that needs most, one more than were tried if those are not enough.

    >>> _darkness(["1", ">2"])
    3
    """
    return max((int(x[1:]) + 1 if x[0] == ">" else int(x) for x in needed), default=math.nan)


def _name(length: int, place: str, layers: int, seed: int) -> str:
    """Of a plan."""
    return f"length-{length:02d}/{place}/layers-{layers}/seed-{seed}"


def _passes(outcome: Outcome) -> bool:
    return outcome.best_accuracy is not None and outcome.best_accuracy > THRESHOLD


def _alike(needed: Needed, row: str, length: int) -> list[str]:
    """What each seed needs, or one for all if they agree; nothing if none was tried."""
    of_seeds = [x for (model, _, n), x in needed.items() if (model, n) == (row, length)]
    tried = [x for x in of_seeds if x != NOTHING]
    return tried[:1] if len(set(tried)) <= 1 else tried


def _by_length(layers: Mapping[int, str]) -> str:
    """As in "1 at k = 3 to 10, 12; 2 at k = 20", from the words for each length, "" where none are.

    >>> _by_length({3: "1", 4: "1", 5: "", 6: "2", 8: "1"})
    '1 at k = 3 to 4, 8; 2 at k = 6'
    """
    spans: dict[str, list[list[int]]] = {}
    for length, words in layers.items():
        own = spans.setdefault(words, [])
        if own and own[-1][-1] == length - 1:
            own[-1].append(length)
        else:
            own.append([length])
    spans.pop("", None)
    shown = {
        words: ", ".join(str(x[0]) if len(x) == 1 else f"{x[0]} to {x[-1]}" for x in own)
        for words, own in spans.items()
    }
    return "; ".join(f"{words} at k = {lengths}" for words, lengths in shown.items()) or NOTHING


def _said(model: str) -> str:
    return PAPER.get(model, NOTHING)
