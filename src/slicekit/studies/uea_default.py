"""Our classifier as it comes, on every data set with the archive's split, beside others."""

import math
from collections.abc import Sequence
from typing import Any

from slicekit import figures
from slicekit.studies import classifiers
from slicekit.studies.classifiers import BAND, LIMIT, NAMES, OURS, ROCKET, WARPING
from slicekit.studies.plans import Choice, Outcome, Plan
from slicekit.studies.ranks import mean_ranks
from slicekit.studies.tables import NOTHING, Table, mean_and_deviation
from slicekit.training.settings import Settings

SEEDS = (0, 1, 2, 3, 4)
QUICK_LIMIT = 1e8


def plans(choice: Choice, sets: Sequence[str], models: Sequence[str]) -> list[Plan]:
    """Every data set, classifier whose packages are installed, and seed; DTW has none."""
    return [
        classifier_plan(choice, f"default/{data_set}/{model}/seed-{seed}", data_set, model, seed)
        for data_set in sets
        for model in NAMES
        if model in models and classifiers.installed(model)
        for seed in seeds(choice, model)
    ]


def seeds(choice: Choice, model: str) -> tuple[int, ...]:
    """Five, unless the user wants others; DTW has none."""
    if model == WARPING:
        return (0,)
    return choice.seeds or (SEEDS[:1] if choice.quick else SEEDS)


def classifier_plan(
    choice: Choice, name: str, data_set: str, model: str, seed: int, **options: Any
) -> Plan:
    """The plan of one fit of a classifier."""
    if choice.data is not None:
        options["data"] = choice.data
    if model == OURS and choice.quick:
        options["groups"] = 1
    if model == WARPING:
        options["limit"] = QUICK_LIMIT if choice.quick else LIMIT
    return Plan(name, data_set, model, Settings(steps=1, seed=seed), (), options)


def short_tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """All of it."""
    return tables(outcomes)


def tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """Accuracy and seconds of every classifier on every data set."""
    sets = list(dict.fromkeys(x.plan.task for x in outcomes))
    runs = {
        (data_set, model): [x for x in outcomes if (x.plan.task, x.plan.model) == (data_set, model)]
        for data_set in sets
        for model in NAMES
    }
    rows = [
        (
            data_set,
            *(accuracy_cell(runs[data_set, model]) for model in NAMES),
            *(_seconds(runs[data_set, model]) for model in NAMES),
        )
        for data_set in sets
    ]
    rows += [row for names in _comparisons() for row in _summary(runs, sets, names)]
    columns = ("data set", *NAMES.values(), *(f"s, {name}" for name in NAMES))
    note = (
        "Test accuracy in %, and seconds of the processor to fit and predict on one thread, with "
        "the archive's own split. Mean and deviation over seeds; DTW has none. DTW is that of all "
        f"channels together, within {BAND:.0%} of the length, and skipped where it would take more "
        f"than {LIMIT:.0e} multiplications. For the rockets, short series stay at their last "
        "value. Means and ranks are of the data sets on which all of those compared have a result; "
        "times are geometric means of ratios to MiniRocket's."
    )
    return [Table("The default classifier", columns, tuple(rows), note)]


def _comparisons() -> list[tuple[str, ...]]:
    """All of them, and all but the one that is skipped on long series."""
    return [tuple(NAMES), tuple(name for name in NAMES if name != WARPING)]


def _summary(
    runs: dict[tuple[str, str], list[Outcome]], sets: Sequence[str], names: Sequence[str]
) -> list[tuple[str, ...]]:
    """Rows with means, ranks and times over the sets on which those named have results."""
    common = [x for x in sets if all(_means(runs[x, model]) for model in names)]
    if not common:
        return []
    scores = {x: {model: _mean(runs[x, model]) for model in names} for x in common}
    nothing = [NOTHING] * len(NAMES)
    averages = {m: sum(of_set[m] for of_set in scores.values()) / len(common) for m in names}
    means = [mean_and_deviation([averages[m]]) if m in names else NOTHING for m in NAMES]
    ranks = mean_ranks(scores)
    assert ranks is not None
    placed = [f"{ranks.means[m]:.2f}" if m in names else NOTHING for m in NAMES]
    ratios = [_ratio(runs, common, m) if m in names else NOTHING for m in NAMES]
    return [
        (f"mean of {len(common)}", *means, *nothing),
        (f"mean rank of {len(common)}", *placed, *nothing),
        (f"time of {len(common)}", *nothing, *ratios),
    ]


def _ratio(runs: dict[tuple[str, str], list[Outcome]], sets: Sequence[str], model: str) -> str:
    """The geometric mean of a classifier's times over MiniRocket's."""
    pairs = [(_took(runs[x, model]), _took(runs[x, ROCKET])) for x in sets]
    logs = [math.log(max(a, 1e-3) / max(b, 1e-3)) for a, b in pairs if not math.isnan(a + b)]
    return f"x {math.exp(sum(logs) / len(logs)):.2f}" if logs else NOTHING


def _took(outcomes: Sequence[Outcome]) -> float:
    """The mean time of those that are known, which is no number where none is."""
    took = [x.seconds for x in outcomes if x.tested and not math.isnan(x.seconds)]
    return sum(took) / len(took) if took else math.nan


def _mean(outcomes: Sequence[Outcome]) -> float:
    means = _means(outcomes)
    return sum(means) / len(means)


def _means(outcomes: Sequence[Outcome]) -> list[float]:
    return [x.on_test_set for x in outcomes if x.on_test_set is not None]


def accuracy_cell(outcomes: Sequence[Outcome]) -> str:
    """Mean and deviation, or that it was skipped."""
    if outcomes and not _means(outcomes):
        return outcomes[0].reason
    return mean_and_deviation(_means(outcomes))


def _seconds(outcomes: Sequence[Outcome]) -> str:
    took = _took(outcomes)
    return NOTHING if math.isnan(took) else f"{took:.1f}"


def plot(axis: Any, outcomes: Sequence[Outcome]) -> None:
    """The mean ranks, and what differs; of all but DTW where it has no result in common."""
    runs: dict[str, dict[str, list[Outcome]]] = {}
    for x in outcomes:
        if x.on_test_set is not None:
            runs.setdefault(x.plan.task, {}).setdefault(x.plan.model, []).append(x)
    names = max(
        _comparisons(), key=lambda some: sum(set(some) <= of_set.keys() for of_set in runs.values())
    )
    scores = {
        data_set: {NAMES[model]: _mean(of_set[model]) for model in names}
        for data_set, of_set in runs.items()
        if set(names) <= of_set.keys()
    }
    ranks = mean_ranks(scores)
    if ranks is None:
        figures.label(axis, title="no data set on which all have a result")
        axis.axis("off")
    else:
        ranks.plot(axis)


PANELS = (plot,)
