"""The trials of a sweep: chosen, written down before they are run, judged by validation alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slicekit import files
from slicekit.studies.grid import GridWatcher, Standing
from slicekit.studies.plans import Outcome, Plan
from slicekit.sweeps.searches import Scored, Search
from slicekit.sweeps.space import Draw
from slicekit.sweeps.sweep import Sweep

TRIALS = "trials.json"
"""The values of every trial, in the sweep's folder."""

DIVERGED = "diverged"
"""Why a run ended whose numbers were no longer finite."""


@dataclass(frozen=True)
class Trial:
    """One draw from the space, and what came of it.

    Args:
        number: from 0.
        draw: its values.
        plans: its runs; none if the values do not fit together.
        outcomes: what came of them, as far as they are finished.
        fault: why it has no score, None if it has one or may get one.
    """

    number: int
    draw: Draw
    plans: tuple[Plan, ...]
    outcomes: tuple[Outcome, ...] = ()
    fault: str | None = None

    @property
    def score(self) -> float | None:
        """The mean over seeds of the best validation accuracy; None unless all runs came to it."""
        if self.fault is not None or len(self.outcomes) < len(self.plans):
            return None
        return sum(x.best_accuracy or 0.0 for x in self.outcomes) / len(self.outcomes)

    @property
    def best_step(self) -> float:
        """When it was reached, the mean over seeds."""
        return sum(x.best_step for x in self.outcomes) / max(1, len(self.outcomes))


class Trials(GridWatcher):
    """Chooses trials as they are wanted, and hears what comes of them.

    Args:
        sweep: which one.
        search: how they are chosen.
        folder: of the sweep, where they are written down.
        at_once: how many runs there are at a time: who learns from trials chooses no more.
        watch: is told of everything too.

    Raises:
        ValueError: if what was written down before is damaged.
    """

    def __init__(
        self, sweep: Sweep, search: Search, folder: Path, at_once: int, watch: GridWatcher
    ) -> None:
        """Read those of an earlier process."""
        self._sweep, self._search, self._watch = sweep, search, watch
        self._path, self._at_once = folder / TRIALS, at_once
        self._draws = _read(self._path, sweep)
        self._failures: dict[str, str] = {}
        self._planned: dict[int, tuple[tuple[Plan, ...], str | None]] = {}

    def wanted(self, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """All runs that are known to be wanted, given what came of some."""
        while len(self._draws) < self._search.trials and self._may_choose(outcomes):
            known = [_scored(trial) for trial in self.all(outcomes)]
            self._draws.append(self._search.propose(len(self._draws), known))
            if self._search.learns:
                self._write()
        self._write()
        return [plan for trial in self.all(outcomes) for plan in trial.plans]

    def _may_choose(self, outcomes: Mapping[str, Outcome]) -> bool:
        if not self._search.learns:
            return True
        going = [x for x in self.all(outcomes) if x.score is None and x.fault is None]
        return sum(len(x.plans) for x in going) < self._at_once

    def all(self, outcomes: Mapping[str, Outcome]) -> list[Trial]:
        """Every trial so far, in the order in which they were chosen."""
        return [self._trial(n, draw, outcomes) for n, draw in enumerate(self._draws)]

    def _trial(self, number: int, draw: Draw, outcomes: Mapping[str, Outcome]) -> Trial:
        plans, fault = self._plans(number, draw)
        done = tuple(outcomes[plan.name] for plan in plans if plan.name in outcomes)
        failed = [self._failures[plan.name] for plan in plans if plan.name in self._failures]
        ended = [x for x in done if x.reason == DIVERGED]
        if failed:
            fault = failed[0]
        elif ended:
            fault = f"diverged after {ended[0].steps} steps, seed {ended[0].plan.settings.seed}"
        return Trial(number, draw, plans, done, fault)

    def _plans(self, number: int, draw: Draw) -> tuple[tuple[Plan, ...], str | None]:
        """The runs of a trial, or why there are none."""
        if number not in self._planned:
            try:
                self._planned[number] = tuple(self._sweep.plans(number, draw)), None
            except (TypeError, ValueError) as error:
                self._planned[number] = (), f"does not fit: {error}"
        return self._planned[number]

    def _write(self) -> None:
        content = (json.dumps(self._draws, indent=1) + "\n").encode()
        if not self._path.exists() or self._path.read_bytes() != content:
            files.write(self._path, content)

    def moved(self, standing: Standing) -> None:
        """Pass it on."""
        self._watch.moved(standing)

    def finished(self, outcome: Outcome, kept: bool) -> None:
        """Pass it on."""
        self._watch.finished(outcome, kept)

    def failed(self, name: str, why: str) -> None:
        """Take note of it, and pass it on."""
        self._failures[name] = why
        self._watch.failed(name, why)

    def restarted(self, name: str, why: str) -> None:
        """Pass it on."""
        self._watch.restarted(name, why)


def _scored(trial: Trial) -> Scored:
    """What a search learns: of a trial that failed, that it is as bad as can be."""
    return trial.draw, 0.0 if trial.fault is not None else trial.score


def _read(path: Path, sweep: Sweep) -> list[Draw]:
    if not path.exists():
        return []
    try:
        draws = json.loads(path.read_bytes())
        if not isinstance(draws, list):
            raise TypeError(f"it holds a {type(draws).__name__}")
        for draw in draws:
            if not isinstance(draw, dict) or list(draw) != list(sweep.space):
                raise TypeError(f"{draw!r:.80} is no trial of {', '.join(sweep.space)}")
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}. Nothing was changed") from error
    return draws


def ranked(trials: list[Trial]) -> list[Trial]:
    """Best first: by score, then by how soon it was reached, then by number; those without last."""

    def order(trial: Trial) -> tuple[bool, float, float, int]:
        score = trial.score
        return score is None, -(score or 0.0), trial.best_step, trial.number

    return sorted(trials, key=order)
