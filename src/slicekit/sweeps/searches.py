"""Which trial comes next? All of a grid, random draws, or what Optuna suggests.

Each is a function of the trial's number and what came of the others, and of nothing else: a sweep
that was interrupted goes on as if it had not been.
"""

import random
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from slicekit.engines.base import load
from slicekit.sweeps.space import Choices, Domain, Draw, Space
from slicekit.sweeps.sweep import GRID, RANDOM, TPE, Sweep
from slicekit.training.seeds import derived_seed

Scored = tuple[Draw, float | None]
"""The values of a trial and its score; None as long as it goes on."""

MOST = 10_000
"""Points of a grid."""

WARM = 10
"""Random trials before Optuna learns from them."""


class Search:
    """How a sweep chooses its trials.

    Args:
        sweep: which one.

    Raises:
        ValueError: if a grid is too large, or has a range without a count.
        ImportError: if Optuna is asked for and missing.
    """

    def __init__(self, sweep: Sweep) -> None:
        """Check that it can be done."""
        self._sweep, self._grid = sweep, list[Draw]()
        kind = sweep.table["search"]
        if kind == GRID:
            self._grid = _grid(sweep.space)
        elif kind == TPE:
            load("optuna", "sweep")
        self.trials: int = len(self._grid) if kind == GRID else sweep.table["trials"]
        self._propose = {GRID: self._next, RANDOM: self._random, TPE: self._tpe}[kind]

    @property
    def learns(self) -> bool:
        """Whether a trial depends on what came of others."""
        return self._sweep.table["search"] == TPE

    def propose(self, number: int, known: Sequence[Scored]) -> Draw:
        """The values of a trial.

        Args:
            number: of the trial, from 0.
            known: the trials before it.
        """
        return self._propose(number, known)

    def _seed(self, number: int) -> int:
        return derived_seed(self._sweep.table["seed"], f"trial {number}")

    def _next(self, number: int, known: Sequence[Scored]) -> Draw:
        return self._grid[number]

    def _random(self, number: int, known: Sequence[Scored]) -> Draw:
        source = random.Random(self._seed(number))
        return {name: _drawn(domain, source) for name, domain in self._sweep.space.items()}

    def _tpe(self, number: int, known: Sequence[Scored]) -> Draw:
        return _suggested(self._sweep.space, known, self._seed(number) % 2**32)


def _grid(space: Space) -> list[Draw]:
    points = [domain.points(name) for name, domain in space.items()]
    count = 1
    for point in points:
        count *= len(point)
    if count > MOST:
        raise ValueError(
            f"the grid has {count:,} points; expected at most {MOST:,}; use search = 'random'"
        )
    return [dict(zip(space, values, strict=True)) for values in product(*points)]


def _drawn(domain: Domain, source: random.Random) -> Any:
    if isinstance(domain, Choices):
        return source.choice(domain.values)
    return domain.at(source.random())


def _suggested(space: Space, known: Sequence[Scored], seed: int) -> Draw:
    """What Optuna's tree-structured Parzen estimator suggests after these trials."""
    optuna = load("optuna", "sweep")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    kinds = {name: _distribution(optuna, domain) for name, domain in space.items()}
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=WARM, constant_liar=True),
    )
    states = optuna.trial.TrialState
    for draw, score in known:
        study.add_trial(
            optuna.trial.create_trial(
                params={name: _coded(space[name], x) for name, x in draw.items()},
                distributions=kinds,
                value=score,
                state=states.RUNNING if score is None else states.COMPLETE,
            )
        )
    suggested: Mapping[str, Any] = study.ask(kinds).params
    return {name: _decoded(space[name], suggested[name]) for name in space}


def _distribution(optuna: Any, domain: Domain) -> Any:
    if isinstance(domain, Choices):  # by their numbers: a value may be a list
        return optuna.distributions.CategoricalDistribution(range(len(domain.values)))
    if domain.whole:
        high = domain.low + (domain.high - domain.low) // domain.step * domain.step
        return optuna.distributions.IntDistribution(
            int(domain.low), int(high), log=domain.log, step=domain.step
        )
    return optuna.distributions.FloatDistribution(domain.low, domain.high, log=domain.log)


def _coded(domain: Domain, value: Any) -> Any:
    return domain.values.index(value) if isinstance(domain, Choices) else value


def _decoded(domain: Domain, value: Any) -> Any:
    return domain.values[value] if isinstance(domain, Choices) else value
