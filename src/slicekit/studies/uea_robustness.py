"""Accuracy as observations are dropped at random times, in training and test alike."""

from collections.abc import Sequence
from typing import Any

from slicekit.studies import classifiers
from slicekit.studies.classifiers import NAMES, OURS, ROCKET
from slicekit.studies.plans import Choice, Outcome, Plan
from slicekit.studies.tables import NOTHING, Table
from slicekit.studies.uea_default import accuracy_cell, classifier_plan

SETS = ("ArticularyWordRecognition", "BasicMotions", "NATOPS", "SelfRegulationSCP1")
"""The data sets, if the user names none."""

METHODS = (OURS, ROCKET)
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
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
        if choice.sets is not None or data_set in SETS
        for model in METHODS
        if model in models and classifiers.installed(model)
        for share in (QUICK_SHARES if choice.quick else SHARES)
        for seed in choice.seeds or (0,)
    ]


def tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """A row for each data set and classifier, a column for each share."""
    shares = sorted({x.plan.options["dropped"] for x in outcomes}) or list(SHARES)
    rows = [
        (data_set, NAMES[model], *(_cell(outcomes, data_set, model, share) for share in shares))
        for data_set, model in _lines(outcomes)
    ]
    columns = ("data set", "classifier", *(f"{share:.0%}" for share in shares))
    note = (
        "Test accuracy in % with that share of the observations dropped, of training and test "
        "series alike, all channels at once. Ours is told the times of those that are left; for "
        "MiniRocket lines are drawn between them."
    )
    return [Table("With observations dropped at random times", columns, tuple(rows), note)]


def _lines(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    sets = dict.fromkeys(x.plan.task for x in outcomes)
    known = {(x.plan.task, x.plan.model) for x in outcomes}
    return [(name, model) for name in sets for model in METHODS if (name, model) in known]


def _own(outcomes: Sequence[Outcome], data_set: str, model: str, share: float) -> list[Outcome]:
    wanted = (data_set, model, share)
    return [x for x in outcomes if (x.plan.task, x.plan.model, x.plan.options["dropped"]) == wanted]


def _cell(outcomes: Sequence[Outcome], data_set: str, model: str, share: float) -> str:
    own = _own(outcomes, data_set, model, share)
    return accuracy_cell(own) if own else NOTHING


def draw(axis: Any, outcomes: Sequence[Outcome]) -> None:
    """A line for each data set: ours whole, MiniRocket's broken."""
    sets = list(dict.fromkeys(x.plan.task for x in outcomes))
    for data_set, model in _lines(outcomes):
        points: dict[float, list[float]] = {}
        for x in outcomes:
            if (x.plan.task, x.plan.model) == (data_set, model) and x.on_test_set is not None:
                points.setdefault(100 * x.plan.options["dropped"], []).append(100 * x.on_test_set)
        shares = sorted(points)
        means = [sum(points[share]) / len(points[share]) for share in shares]
        style, label = ("-o", data_set) if model == OURS else ("--", None)
        axis.plot(shares, means, style, color=f"C{sets.index(data_set)}", label=label, markersize=4)
    axis.set_xlabel("dropped, % of the observations")
    axis.set_ylim(0, 102)
    axis.set_ylabel("test accuracy, %")
    axis.set_title(f"{NAMES[OURS]}; broken: {NAMES[ROCKET]}", fontsize=10)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)
