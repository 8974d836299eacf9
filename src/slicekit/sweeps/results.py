"""The results of a sweep: tables, a picture, and the best trial as a configuration."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import slicekit
from slicekit import figures, files
from slicekit.studies.tables import NOTHING, Table, mean_and_deviation, percent, steps_made
from slicekit.sweeps.effects import grouped, share
from slicekit.sweeps.space import Choices, Range
from slicekit.sweeps.sweep import Sweep
from slicekit.sweeps.trials import Trial, ranked
from slicekit.training import toml

RESULTS, MARKDOWN, PICTURE, BEST = "results.json", "results.md", "results.png", "best.toml"

PANELS = 3
"""Panels side by side."""


@dataclass(frozen=True)
class Effect:
    """What a setting did.

    Args:
        name: dotted.
        share: of the differences between trials that it explains alone; NaN if it can't be told.
        means: the mean score of each group of its values, by what the group is called.
    """

    name: str
    share: float
    means: dict[str, float]


def effects(sweep: Sweep, trials: Sequence[Trial]) -> list[Effect]:
    """What each setting did, the one that mattered most first."""
    judged = [(x, x.score) for x in trials if x.score is not None]
    scores = [score for _, score in judged]
    shares = []
    for name, domain in sweep.space.items():
        values = [trial.draw[name] for trial, _ in judged]
        groups = grouped(domain, values)
        means = {}
        for group in sorted(set(groups)):
            members = [n for n, x in enumerate(groups) if x == group]
            told = _called([values[n] for n in members])
            means[told] = sum(scores[n] for n in members) / len(members)
        shares.append(Effect(name, share(groups, scores), means))
    return sorted(shares, key=lambda x: -1 if math.isnan(x.share) else x.share, reverse=True)


def _called(values: Sequence[Any]) -> str:
    """A value, or the two ends of several."""
    if all(x == values[0] for x in values):
        return show(values[0])
    return f"{show(min(values))} to {show(max(values))}"


def show(value: Any) -> str:
    """A value as tables have it.

    >>> show(0.00123456), show(None), show([3, 40]), show("mamba")
    ('0.001235', 'none', '3:40', 'mamba')
    """
    if value is None:
        return "none"
    if isinstance(value, list):
        return ":".join(map(show, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def tables(sweep: Sweep, trials: Sequence[Trial]) -> list[Table]:
    """What mattered, every trial, the best first, and why some have no score."""
    faults = tuple((str(x.number), x.fault) for x in trials if x.fault is not None)
    without = [Table("Trials without a score", ("trial", "why"), faults)] if faults else []
    return [_mattered(sweep, trials), _trials(sweep, trials), *without]


def _mattered(sweep: Sweep, trials: Sequence[Trial]) -> Table:
    names, rows = sweep.names(), []
    for effect in effects(sweep, trials):
        means = sorted(effect.means.items(), key=lambda item: -item[1])
        told = (
            [f"{value}: {percent(mean)}" for value, mean in (means[0], means[-1])] if means else []
        )
        explained = NOTHING if math.isnan(effect.share) else f"{100 * effect.share:.0f}"
        rows.append((names[effect.name], explained, *(told or [NOTHING, NOTHING])))
    columns = ("setting", "explains alone, %", "best value, its mean %", "worst value, its mean %")
    note = (
        "How much of the differences between trials in validation accuracy each setting explains "
        "by itself, corrected for chance (ω²); what settings do together is in none of the rows."
    )
    return Table("What mattered", columns, tuple(rows), note)


def _trials(sweep: Sweep, trials: Sequence[Trial]) -> Table:
    names, rows = sweep.names(), []
    for trial in ranked(list(trials)):
        runs = trial.outcomes
        score = NOTHING
        if trial.score is not None:
            score = mean_and_deviation([x.best_accuracy or 0.0 for x in runs])
        rows.append(
            (
                str(trial.number),
                *(show(trial.draw[name]) for name in sweep.space),
                score,
                steps_made(runs),
                f"{trial.best_step:,.0f}" if runs else NOTHING,
                f"{runs[0].parameters:,}" if runs else NOTHING,
                f"{sum(x.seconds for x in runs):.0f}" if runs else NOTHING,
            )
        )
    columns = (
        "trial",
        *(names[name] for name in sweep.space),
        "best validation, %",
        "steps",
        "best step",
        "parameters",
        "seconds",
    )
    seeds = "" if len(sweep.seeds) == 1 else f", mean over {len(sweep.seeds)} seeds"
    note = f"By validation accuracy{seeds}; no test data was looked at. Seconds are of training."
    return Table("Every trial", columns, tuple(rows), note)


def plot(sweep: Sweep, trials: Sequence[Trial], path: Path) -> None:
    """The picture: how much each setting mattered, and the score against each, in that order."""
    effects_found, names = effects(sweep, trials), sweep.names()
    columns = min(PANELS, 1 + len(effects_found))
    rows = -(-(1 + len(effects_found)) // columns)
    made, axes = figures.figure(
        columns, 4.2 * columns, 3.4 * rows, f"Sweep of {sweep.table['task']}", rows=rows
    )
    first, *others = axes
    shares = [0.0 if math.isnan(x.share) else 100 * x.share for x in effects_found]
    first.bar(range(len(effects_found)), shares, 0.6, **figures.bar(0))
    figures.names_below(first, [names[x.name] for x in effects_found])
    figures.label(first, title="what mattered")
    figures.percentages(first, "explains alone, %", low=0)
    for axis, effect in zip(others, effects_found, strict=False):
        _panel(axis, sweep, trials, effect, names[effect.name])
    for axis in others[len(effects_found) :]:
        axis.axis("off")
    figures.write(made, path)


def _panel(axis: Any, sweep: Sweep, trials: Sequence[Trial], effect: Effect, name: str) -> None:
    """The score of every trial against one setting."""
    domain = sweep.space[effect.name]
    judged = [(x.draw[effect.name], 100 * x.score) for x in trials if x.score is not None]
    if not isinstance(domain, Choices):
        places = [x for x, _ in judged]
    else:
        places = [domain.values.index(x) for x, _ in judged]
        heights = [100 * effect.means.get(show(x), math.nan) for x in domain.values]
        axis.plot(range(len(domain.values)), heights, "_", **_mean_look())
        figures.names_below(axis, [show(x) for x in domain.values])
        axis.set_xlim(-0.5, len(domain.values) - 0.5)
    axis.plot(places, [score for _, score in judged], "o", color="C0", markersize=4, alpha=0.6)
    if isinstance(domain, Range) and domain.log:
        figures.logarithmic(axis, "x")
    figures.label(axis, title=name)
    axis.set_ylabel("best validation, %")
    axis.grid(alpha=0.3)


def _mean_look() -> dict[str, Any]:
    return {"color": "C1", "markersize": 22, "markeredgewidth": 2}


def write(sweep: Sweep, trials: Sequence[Trial], folder: Path) -> bool:
    """Write down how a sweep stands.

    Returns:
        Whether it was written: not if no trial has a score.

    Raises:
        OSError: if a file can't be written.
    """
    order = ranked(list(trials))
    if not order or order[0].score is None:
        return False
    best = order[0]
    told = [_as_data(trial) for trial in trials]
    mattered = {
        x.name: {"explains": None if math.isnan(x.share) else x.share, "means": x.means}
        for x in effects(sweep, trials)
    }
    data = {
        "sweep": dict(sweep.table),
        "slicekit": slicekit.__version__,
        "best": best.number,
        "mattered": mattered,
        "trials": told,
    }
    text = "\n\n".join(
        [
            f"## Sweep of {sweep.table['task']}",
            *(table.as_markdown() for table in tables(sweep, trials)),
        ]
    )
    files.write(folder / MARKDOWN, (text + "\n").encode())
    if figures.available():
        plot(sweep, trials, folder / PICTURE)
    files.write(folder / BEST, _configuration(best).encode())
    files.write(folder / RESULTS, (json.dumps(data, indent=2) + "\n").encode())
    return True


def _as_data(trial: Trial) -> dict[str, Any]:
    """A trial without what differs when it is done again."""
    runs = [x.as_dict() for x in trial.outcomes]
    for run in runs:
        del run["seconds"]
    return {
        "number": trial.number,
        "values": trial.draw,
        "score": trial.score,
        "fault": trial.fault,
        "runs": runs,
    }


def _configuration(best: Trial) -> str:
    """A file for `slicekit train --config`."""
    plan = best.plans[0]
    table: dict[str, Any] = {"task": plan.task, "model": plan.model, "recipe": plan.recipe}
    if plan.layers is not None:
        table["layers"] = plan.layers
    if plan.options:
        table["task_options"] = plan.options
    header = f"# Trial {best.number} of a sweep, {percent(best.score or 0.0)}% in validation.\n"
    return header + toml.dumps(table | {"training": plan.settings.as_table()})
