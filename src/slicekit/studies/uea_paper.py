"""The paper's table of the UEA archive: its models and data sets, five seeds, both generators."""

from collections.abc import Mapping, Sequence
from typing import Any

from slicekit import figures
from slicekit.catalogue import RECIPES, as_path
from slicekit.catalogue.series import DATA_SETS as SIZES
from slicekit.catalogue.series import STRUCTURES, series_recipe
from slicekit.catalogue.series_baselines import series_baseline
from slicekit.studies.line_ups import FIELDS, SERIES
from slicekit.studies.plans import Choice, Outcome, Plan, label
from slicekit.studies.study import adapted
from slicekit.studies.tables import (
    NOTHING,
    PAPERS_STEPS,
    Table,
    mean_and_deviation,
    percent,
    steps_made,
)
from slicekit.tasks.archive_task import LEGACY, PARTITIONABLE, SEEDS

SPLITS = (LEGACY, PARTITIONABLE)
LABELS = [label(model, recipe) for model in SERIES for recipe in RECIPES]

PAPER: dict[str, tuple[str, str, str, str, str, str]] = {
    "bd-slice": ("86 ± 4", "29 ± 7", "77 ± 6", "53 ± 3", "85 ± 2", "54 ± 8"),
    "dplr-slice": ("84 ± 6", "28 ± 5", "74 ± 6", "52 ± 6", "84 ± 3", "51 ± 6"),
    "wh-slice": ("85 ± 6", "30 ± 5", "76 ± 6", "49 ± 7", "82 ± 3", "52 ± 6"),
    "s-slice": ("88 ± 5", "30 ± 7", "73 ± 6", "48 ± 3", "83 ± 2", "49 ± 4"),
    "de-lncde": ("88 ± 4", "26 ± 5", "74 ± 5", "50 ± 6", "82 ± 4", "50 ± 3"),
    "d-slice": ("79 ± 6", "27 ± 5", "73 ± 6", "54 ± 7", "84 ± 3", "53 ± 6"),
    "d-de-slice": ("86 ± 6", "27 ± 7", "74 ± 4", "55 ± 4", "85 ± 4", "52 ± 5"),
    "log-ncde": ("86 ± 6", "34 ± 7", "75 ± 5", "54 ± 6", "83 ± 3", "54 ± 5"),
    "lru": ("88 ± 3", "22 ± 3", "78 ± 7", "48 ± 6", "83 ± 4", "51 ± 4"),
    "s6": ("85 ± 17", "26 ± 7", "77 ± 9", "51 ± 5", "83 ± 3", "50 ± 10"),
    "s5": ("81 ± 4", "24 ± 5", "78 ± 6", "48 ± 6", "90 ± 5", "51 ± 3"),
    "ncde": ("75 ± 4", "30 ± 7", "74 ± 3", "50 ± 3", "80 ± 6", "53 ± 3"),
    "nrde": ("84 ± 8", "25 ± 2", "73 ± 5", "47 ± 6", "81 ± 3", "54 ± 7"),
    "mamba": ("71 ± 16", "28 ± 5", "76 ± 4", "48 ± 5", "81 ± 2", "48 ± 4"),
}
"""The paper's test accuracy, mean and deviation over five seeds, in the order of its data sets."""

PAPERS_AVERAGES = {
    "bd-slice": 64.0,
    "dplr-slice": 62.0,
    "wh-slice": 62.5,
    "s-slice": 61.8,
    "de-lncde": 61.6,
    "d-slice": 61.7,
    "d-de-slice": 63.0,
    "log-ncde": 64.3,
    "lru": 61.7,
    "s6": 62.0,
    "s5": 61.8,
    "ncde": 60.2,
    "nrde": 60.6,
    "mamba": 58.6,
}
"""As printed: averages over its six data sets, in %, of figures that it had not rounded."""

PAPERS_COSTS: dict[str, tuple[float, float | None]] = {
    "bd-slice": (68.1, 2344),
    "log-ncde": (1321.7, 2177),
    "d-de-slice": (66.7, 2302),
    "d-slice": (11.0, 1875),
    "lru": (26.9, 4308),
    "s6": (20.1, 2938),
    "s5": (21.9, 3327),
    "de-lncde": (77.2, 12756),
    "ncde": (6923, 1962),
    "nrde": (3431, 2858),
    "mamba": (60.0, 4535),
}
"""The paper's seconds for a thousand steps and MB of an H100, means over its six data sets."""

PUBLISHED = {"LinOSS": 67.8, "PD-SSM": 67.0}
"""What others have published since as their average over the six data sets, in %."""

EVERY_SEED = "Every seed of the paper's splits"
"""The title of a table."""

MB_PER_POINT = 20.0
"""How much memory a square point of a circle's area stands for."""

Runs = dict[tuple[str, str, str], list[Outcome]]
"""By the label of model and recipe, splits and data set."""


def plans(choice: Choice, sets: Sequence[str], models: Sequence[str]) -> list[Plan]:
    """Every data set of the paper that is there, model, generator and seed.

    Raises:
        ValueError: if there is no such seed.
    """
    return [
        _plan(choice, data_set, model, splits, seed)
        for data_set in SIZES
        if data_set in sets
        for model in models
        if model in SERIES
        for splits in (SPLITS[:1] if choice.quick or model in FIELDS else SPLITS)
        for seed in choice.seeds or ((0,) if choice.quick else range(len(SEEDS)))
    ]


def _plan(choice: Choice, data_set: str, model: str, splits: str, seed: int) -> Plan:
    if seed >= len(SEEDS):
        raise ValueError(f"seeds={seed}, but the paper has splits for 0 to {len(SEEDS) - 1} only")
    options: dict[str, Any] = {"splits": splits, "seed": SEEDS[seed]}
    if choice.data is not None:
        options["data"] = choice.data
    make = series_recipe if model in STRUCTURES else series_baseline
    recipe = make(model, data_set, SIZES[data_set].channels, choice.recipe, {})
    return Plan(
        name=f"paper/{data_set}/{as_path(model, choice.recipe)}/{splits}/seed-{seed}",
        task=data_set,
        model=model,
        settings=adapted(recipe.settings, choice, seed),
        tests=(),
        options=options,
        recipe=choice.recipe,
    )


def tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """Means beside the paper's, and every seed."""
    runs = _runs(outcomes)
    known = _known(runs)
    return [_means(runs, known), _seeds(runs, known or list(SIZES))]


def short_tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """A line for each model, with what the paper says of the data sets that we have runs of."""
    runs = _runs(outcomes)
    sets = _known(runs)
    rows = []
    for model in dict.fromkeys(model for model, _ in _lines(runs)):
        row = [model, steps_made(x for x in outcomes if x.plan.label == model)]
        for data_set in sets:
            of_splits = (runs.get((model, splits, data_set), []) for splits in SPLITS)
            row.append(" / ".join(mean_and_deviation(_accuracies(x)) for x in of_splits))
            row.append(PAPER[model.split(",")[0]][list(SIZES).index(data_set)])
        rows.append(tuple(row))
    columns = ("model", "steps", *(x for name in sets for x in (name, "the paper")))
    note = (
        f"Test accuracy in %, {' / '.join(SPLITS)}: mean and deviation over seeds, or one seed's "
        "where no deviation stands."
    )
    return [Table("Beside the paper", columns, tuple(rows), note)]


def _runs(outcomes: Sequence[Outcome]) -> Runs:
    runs: Runs = {}
    for x in outcomes:
        key = (x.plan.label, x.plan.options["splits"], x.plan.task)
        runs.setdefault(key, []).append(x)
    return runs


def _known(runs: Runs) -> list[str]:
    """The data sets that there are runs of."""
    return [x for x in SIZES if any(x == data_set for _, _, data_set in runs)]


def _means(runs: Runs, known: Sequence[str]) -> Table:
    """A column for each of the paper's data sets; averages are over those that we have runs of."""
    sets = known or list(SIZES)
    lines = {
        line: {name: _accuracies(runs.get((*line, name), [])) for name in SIZES}
        for line in _lines(runs)
    }
    ranks = _ranks({line: [_average(by_set[x]) for x in sets] for line, by_set in lines.items()})
    rows = []
    for (model, splits), by_set in lines.items():
        by_runs = [runs.get((model, splits, name), []) for name in SIZES]
        means = {name: _average(x) for name, x in by_set.items()}
        rows.append(
            (
                model,
                splits,
                steps_made(x for own in by_runs for x in own),
                *map(mean_and_deviation, by_set.values()),
                _percent(_average([means[x] for x in sets])),
                ranks[model, splits],
                _percent(_average(list(means.values()))),
                *_costs(by_runs),
            )
        )
    rows += _papers_rows(sets)
    missing = [name for name in SIZES if name not in known]
    note = (
        "Mean and deviation over seeds of the test accuracy of the weights with the best validation"
        " accuracy. The paper's deviations are those of the population, ours of the sample. Steps "
        "are those made, of the paper the most that it allows. Average and average rank are over "
        f"{', '.join(sets)}; ranks are among our rows or among the paper's. Seconds are of a "
        "thousand steps on one thread, of the processor where they are known, MB the most that "
        "the run's process had in memory, torch itself included, both means over the data sets; "
        "those of the paper are of an H100, means over its six."
        + (f" There is no run on {', '.join(missing)}." if missing else "")
    )
    columns = (
        *("model", "splits", "steps", *SIZES, "average", "rank", "average of six"),
        *("s / 1,000 steps", "MB"),
    )
    return Table("Test accuracy in %, 70/15/15", columns, tuple(rows), note)


def _papers_rows(sets: Sequence[str]) -> list[tuple[str, ...]]:
    """What the paper says, and what others have published since."""
    means = {
        name: dict(zip(SIZES, map(_figure, printed), strict=True))
        for name, printed in PAPER.items()
    }
    ranks = _ranks({name: [printed[x] for x in sets] for name, printed in means.items()})
    rows = []
    for name, printed in PAPER.items():
        seconds, memory = PAPERS_COSTS.get(name, (None, None))
        average = _percent(_average([means[name][x] for x in sets]))
        of_six = f"{PAPERS_AVERAGES[name]:.1f}"
        costs = (NOTHING if x is None else f"{x:,.0f}" for x in (seconds, memory))
        head = (f"paper: {name}", NOTHING, PAPERS_STEPS)
        rows.append((*head, *printed, average, ranks[name], of_six, *costs))
    nothing = (NOTHING,) * (len(SIZES) + 2)
    rows += [
        (f"published: {name}", NOTHING, NOTHING, *nothing, f"{average:.1f}", NOTHING, NOTHING)
        for name, average in PUBLISHED.items()
    ]
    return rows


def _lines(runs: Mapping[tuple[str, str, str], object]) -> list[tuple[str, str]]:
    """Models and splits of which there is something, in the paper's order."""
    known = {(model, splits) for model, splits, _ in runs}
    return [(label, splits) for label in LABELS for splits in SPLITS if (label, splits) in known]


def _average(values: Sequence[float | None]) -> float | None:
    """None if one is missing, or all are."""
    known = [x for x in values if x is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _ranks(means: Mapping[Any, Sequence[float | None]]) -> dict[Any, str]:
    """Average rank over the data sets of each line that has them all; equals share their ranks."""
    whole = {line: list(values) for line, values in means.items() if _average(values) is not None}
    shown = dict.fromkeys(means, NOTHING)
    for line, values in whole.items():
        ranks = []
        for n, mean in enumerate(values):
            others = [x[n] for x in whole.values()]
            better = sum(x > mean for x in others)  # type: ignore[operator]
            ranks.append(better + (1 + others.count(mean)) / 2)
        shown[line] = f"{sum(ranks) / len(ranks):.1f}"
    return shown


def _percent(share: float | None) -> str:
    return NOTHING if share is None else percent(share)


def _figure(printed: str) -> float:
    """The mean of "86 ± 4" as a share."""
    return float(printed.split()[0]) / 100


def _costs(by_set: Sequence[Sequence[Outcome]]) -> tuple[str, str]:
    """Seconds for a thousand steps, and MB."""
    seconds, memory = _pace(by_set), _most_memory(by_set)
    return (
        NOTHING if seconds is None else f"{seconds:,.0f}",
        NOTHING if memory is None else f"{memory / 1e6:,.0f}",
    )


def _pace(by_set: Sequence[Sequence[Outcome]]) -> float | None:
    return _mean_of_means([[x.pace for x in own] for own in by_set])


def _most_memory(by_set: Sequence[Sequence[Outcome]]) -> float | None:
    return _mean_of_means([[x.memory for x in own] for own in by_set])


def _mean_of_means(by_set: Sequence[Sequence[float | None]]) -> float | None:
    """Over data sets, each with as many runs as it has; None if nothing is known.

    >>> _mean_of_means([[1.0, 3.0, None], [5.0], []])
    3.5
    """
    known = [[x for x in own if x is not None] for own in by_set]
    means = [sum(own) / len(own) for own in known if own]
    return sum(means) / len(means) if means else None


def _accuracies(outcomes: Sequence[Outcome]) -> list[float]:
    return [x.on_test_set for x in outcomes if x.on_test_set is not None]


def _seeds(runs: Runs, sets: Sequence[str]) -> Table:
    rows = []
    for model, splits in _lines(runs):
        by_set = {data_set: runs.get((model, splits, data_set), []) for data_set in sets}
        seeds = sorted({x.plan.settings.seed for of_set in by_set.values() for x in of_set})
        for seed in seeds:
            cells = (_cell(by_set[data_set], seed) for data_set in sets)
            alike = [
                x for of_set in by_set.values() for x in of_set if x.plan.settings.seed == seed
            ]
            rows.append((model, splits, str(SEEDS[seed]), steps_made(alike), *cells))
    columns = ("model", "splits", "seed", "steps", *sets)
    note = "Test accuracy, and in brackets the best validation accuracy, by which it was chosen."
    return Table(EVERY_SEED, columns, tuple(rows), note)


def _cell(outcomes: Sequence[Outcome], seed: int) -> str:
    for x in outcomes:
        if x.plan.settings.seed == seed and x.on_test_set is not None:
            return f"{percent(x.on_test_set)} ({percent(x.best_accuracy or 0.0)})"
    return NOTHING


def plot_spread(axis: Any, outcomes: Sequence[Outcome]) -> None:
    """A dot for each split and seed, a dash for their mean, a black one for the paper's."""
    runs = _runs(outcomes)
    sets = _known(runs)
    models = [x for x in LABELS if any(x == model for model, _, _ in runs)]
    for number, model in enumerate(models):
        (shift, width), told = figures.beside(number, len(models)), model
        colour = figures.line(number)["color"]
        for place, data_set in enumerate(sets):
            at = place + shift
            ends = [at - width / 2, at + width / 2]
            values: list[float] = []
            for splits, marker in zip(SPLITS, ("o", "^"), strict=True):
                accuracies = _accuracies(runs.get((model, splits, data_set), []))
                values += [100 * x for x in accuracies]
                look = {"color": colour, "markersize": 3, "linestyle": "", "alpha": 0.6}
                axis.plot([at] * len(accuracies), [100 * x for x in accuracies], marker, **look)
            if values:
                mean = sum(values) / len(values)
                axis.plot(ends, [mean, mean], color=colour, linewidth=2, label=told)
                told = None
            if (said := PAPER.get(model.split(",")[0])) is not None:
                height = 100 * _figure(said[list(SIZES).index(data_set)])
                axis.plot(ends, [height, height], "k-", linewidth=1)
    figures.names_below(axis, sets)
    title = "splits and seeds (dots: legacy, triangles: partitionable); black: the paper's means"
    figures.label(axis, title=title)
    figures.percentages(axis, "test accuracy, %", low=0)
    figures.legend(axis, outside=True)


def plot_costs(axis: Any, outcomes: Sequence[Outcome]) -> None:
    """The paper's figure of time against accuracy, with areas as memory: ours full, its hollow.

    Averages are over the data sets that we have runs of, and models without runs of all of them
    are left out; times and memory of the paper's are means over its six.
    """
    runs = _runs(outcomes)
    sets = _known(runs) or list(SIZES)
    for name, (seconds, memory) in PAPERS_COSTS.items():
        printed = dict(zip(SIZES, map(_figure, PAPER[name]), strict=True))
        height = 100 * sum(printed[x] for x in sets) / len(sets)
        area = (memory or 0.0) / MB_PER_POINT
        axis.scatter([seconds], [height], s=area, facecolors="none", edgecolors="grey")
        axis.annotate(name, (seconds, height), fontsize=figures.SMALL - 1, color="grey")
    for number, model in enumerate(LABELS):
        by_set = [_both(runs, model, name) for name in sets]
        height, seconds = _average([_average(_accuracies(x)) for x in by_set]), _pace(by_set)
        if seconds is None or height is None:
            continue
        at, memory = (seconds, 100 * height), _most_memory(by_set)
        area = 20.0 if memory is None else memory / 1e6 / MB_PER_POINT
        axis.scatter(*([x] for x in at), s=area, color=figures.line(number)["color"], alpha=0.7)
        axis.annotate(model, at, fontsize=figures.SMALL - 1)
    figures.logarithmic(axis, "x")
    title = f"over {len(sets)} of the six sets: ours (full, one thread), the paper's (hollow, H100)"
    figures.label(axis, title=title, x="s / 1,000 steps", y="average test accuracy, %")
    axis.grid(alpha=0.3)


def _both(runs: Runs, model: str, data_set: str) -> list[Outcome]:
    """Runs with the splits of either generator."""
    return [x for splits in SPLITS for x in runs.get((model, splits, data_set), [])]


PANELS = (plot_spread, plot_costs)
