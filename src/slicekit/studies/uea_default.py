"""Our classifier as it comes, on every data set with the archive's split, and two references."""

import math
from collections.abc import Sequence
from typing import Any

from slicekit.studies import classifiers
from slicekit.studies.classifiers import BAND, LIMIT, NAMES, OURS, WARPING
from slicekit.studies.plans import Choice, Outcome, Plan
from slicekit.studies.study import QUICK_STEPS
from slicekit.studies.tables import NOTHING, Table, mean_and_deviation
from slicekit.training.settings import Settings

SEEDS = (0, 1, 2)
QUICK_LIMIT = 1e8


def plans(choice: Choice, sets: Sequence[str], models: Sequence[str]) -> list[Plan]:
    """Every data set, classifier whose packages are installed, and seed; DTW has none."""
    return [
        classifier_plan(choice, f"default/{data_set}/{model}/seed-{seed}", data_set, model, seed)
        for data_set in sets
        for model in NAMES
        if model in models and classifiers.installed(model)
        for seed in _seeds(choice, model)
    ]


def _seeds(choice: Choice, model: str) -> tuple[int, ...]:
    if model == WARPING:
        return (0,)
    return choice.seeds or (SEEDS[:1] if choice.quick else SEEDS)


def classifier_plan(
    choice: Choice, name: str, data_set: str, model: str, seed: int, **options: Any
) -> Plan:
    """The plan of one fit of a classifier."""
    if choice.data is not None:
        options["data"] = choice.data
    steps = choice.steps or (QUICK_STEPS if choice.quick else None)
    if model == OURS and steps is not None:
        options["max_steps"] = steps
    if model == WARPING:
        options["limit"] = QUICK_LIMIT if choice.quick else LIMIT
    return Plan(name, data_set, model, Settings(steps=1, seed=seed), (), options)


def tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """Accuracy and seconds of every classifier on every data set."""
    sets = list(dict.fromkeys(x.plan.task for x in outcomes))
    found = {
        (data_set, model): [x for x in outcomes if (x.plan.task, x.plan.model) == (data_set, model)]
        for data_set in sets
        for model in NAMES
    }
    rows = [
        (
            data_set,
            *(accuracy_cell(found[data_set, model]) for model in NAMES),
            *(_seconds(found[data_set, model]) for model in NAMES),
        )
        for data_set in sets
    ]
    common = [x for x in sets if all(_means(found[x, model]) for model in NAMES)]
    if common:
        rows.append(
            (f"mean of {len(common)}", *_averages(found, common), *(NOTHING for _ in NAMES))
        )
    columns = ("data set", *NAMES.values(), *(f"s, {name}" for name in NAMES))
    note = (
        "Test accuracy in %, and seconds to fit and predict on one thread, with the archive's own "
        "split. Mean and deviation over seeds; DTW has none. DTW is that of all channels together, "
        f"within {BAND:.0%} of the length, and skipped where it would take more than {LIMIT:.0e} "
        "multiplications. For MiniRocket, short series stay at their last value. The mean is that "
        "of the data sets on which all have a result."
    )
    return [Table("The default classifier", columns, tuple(rows), note)]


def _means(outcomes: Sequence[Outcome]) -> list[float]:
    return [x.on_test_set for x in outcomes if x.on_test_set is not None]


def accuracy_cell(outcomes: Sequence[Outcome]) -> str:
    """Mean and deviation, or that it was skipped."""
    if outcomes and not _means(outcomes):
        return outcomes[0].reason
    return mean_and_deviation(_means(outcomes))


def _seconds(outcomes: Sequence[Outcome]) -> str:
    took = [x.seconds for x in outcomes if x.tested and not math.isnan(x.seconds)]
    return f"{sum(took) / len(took):.1f}" if took else NOTHING


def _averages(found: dict[tuple[str, str], list[Outcome]], sets: Sequence[str]) -> list[str]:
    cells = []
    for model in NAMES:
        means = [_means(found[data_set, model]) for data_set in sets]
        cells.append(mean_and_deviation([sum(sum(x) / len(x) for x in means) / len(means)]))
    return cells


def draw(axis: Any, outcomes: Sequence[Outcome]) -> None:
    """Bars for each data set, a colour for each classifier."""
    sets = list(dict.fromkeys(x.plan.task for x in outcomes))
    for number, (model, label) in enumerate(NAMES.items()):
        for place, data_set in enumerate(sets):
            own = _means([x for x in outcomes if (x.plan.task, x.plan.model) == (data_set, model)])
            if own:
                at = place + 0.27 * (number - 1)
                height = 100 * sum(own) / len(own)
                axis.bar(at, height, 0.25, color=f"C{number}", label=label)
                label = None
    axis.set_xticks(range(len(sets)), sets, fontsize=6, rotation=60, ha="right")
    axis.set_ylim(0, 102)
    axis.set_ylabel("test accuracy, %")
    axis.set_title("defaults, the archive's split", fontsize=10)
    axis.legend(fontsize=7)
