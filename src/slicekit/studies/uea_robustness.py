"""Accuracy as observations are dropped at random times, in training and test alike."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from slicekit import figures
from slicekit.studies import classifiers
from slicekit.studies.classifiers import BOTH, HYDRA, NAMES, OURS, ROCKET
from slicekit.studies.plans import Choice, Outcome, Plan
from slicekit.studies.tables import NOTHING, Table, mean_and_deviation
from slicekit.studies.uea_default import accuracy_cell, classifier_plan, seeds

LONG = ("MotorImagery", "PenDigits")
"""Data sets that take longest; they are left out unless the user names them."""

METHODS = (OURS, ROCKET, BOTH, HYDRA)
MEAN = "mean of "
"""How the name of a row of means begins."""

SHARES = (0.0, 0.3, 0.5, 0.7)
QUICK_SHARES = (0.0, 0.7)


def plans(choice: Choice, sets: Sequence[str], models: Sequence[str]) -> list[Plan]:
    """Every data set, classifier, share and seed."""
    return [
        classifier_plan(
            choice,
            f"robustness/{data_set}/{model}/dropped-{round(100 * share):02d}/seed-{seed}",
            data_set,
            model,
            seed,
            dropped=share,
        )
        for data_set in sets
        if choice.sets is not None or data_set not in LONG
        for model in METHODS
        if model in models and classifiers.installed(model)
        for share in (QUICK_SHARES if choice.quick else SHARES)
        for seed in seeds(choice, model)
    ]


def tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """A row for each data set and classifier, a column for each share."""
    shares = sorted({x.plan.options["dropped"] for x in outcomes}) or list(SHARES)
    rows = [
        (data_set, NAMES[model], *(_cell(outcomes, data_set, model, share) for share in shares))
        for data_set, model in _lines(outcomes)
    ]
    rows += _mean_rows(outcomes, shares)
    columns = ("data set", "classifier", *(f"{share:.0%}" for share in shares))
    note = (
        "Test accuracy in % with that share of the observations dropped, of training and test "
        "series alike, all channels at once. Ours is told the times of those that are left; for "
        "the rockets lines are drawn between them. Means are of the data sets on which all have "
        "results."
    )
    return [Table("With observations dropped at random times", columns, tuple(rows), note)]


def short_tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """Only the means."""
    return [
        replace(table, rows=tuple(row for row in table.rows if row[0].startswith(MEAN)))
        for table in tables(outcomes)
    ]


def _mean_rows(outcomes: Sequence[Outcome], shares: Sequence[float]) -> list[tuple[str, ...]]:
    """Means over the data sets that every classifier was tried on at every share."""
    models = [m for m in METHODS if any(x.plan.model == m for x in outcomes)]
    sets = [
        name
        for name in dict.fromkeys(x.plan.task for x in outcomes)
        if all(_own(outcomes, name, model, share) for model in models for share in shares)
    ]
    if not sets:
        return []

    def mean(model: str, share: float) -> str:
        by_set = [_own(outcomes, name, model, share) for name in sets]
        means = [sum(x.on_test_set or 0.0 for x in of_set) / len(of_set) for of_set in by_set]
        return mean_and_deviation([sum(means) / len(means)])

    title = f"{MEAN}{len(sets)}"
    return [(title, NAMES[m], *(mean(m, share) for share in shares)) for m in models]


def _lines(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    sets = dict.fromkeys(x.plan.task for x in outcomes)
    known = {(x.plan.task, x.plan.model) for x in outcomes}
    return [(name, model) for name in sets for model in METHODS if (name, model) in known]


def _own(outcomes: Sequence[Outcome], data_set: str, model: str, share: float) -> list[Outcome]:
    wanted = (data_set, model, share)
    return [x for x in outcomes if (x.plan.task, x.plan.model, x.plan.options["dropped"]) == wanted]


def _cell(outcomes: Sequence[Outcome], data_set: str, model: str, share: float) -> str:
    of_cell = _own(outcomes, data_set, model, share)
    return accuracy_cell(of_cell) if of_cell else NOTHING


def plot(axis: Any, outcomes: Sequence[Outcome]) -> None:
    """The mean over the data sets that all were tried on, a line for each classifier."""
    shares = sorted({x.plan.options["dropped"] for x in outcomes})
    for number, (_, name, *cells) in enumerate(_mean_rows(outcomes, shares)):
        heights, look = [float(x) for x in cells], figures.line(number)
        axis.plot([100 * share for share in shares], heights, **look, marker="o", label=name)
    figures.label(
        axis,
        title="observations dropped at random times",
        x="dropped, % of the observations",
        y="mean test accuracy, %",
    )
    axis.grid(alpha=0.3)
    figures.legend(axis)


PANELS = (plot,)
