"""Classifiers that train in their own way: ours with its defaults, and strong others.

They see the archive's series as they are, channel first, and the archive's own test set. Where
series have time stamps, or a share of the observations is dropped, ours is told the times, and the
others see lines drawn between what was observed, at regular times.
"""

import time
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from slicekit.studies.plans import Outcome, Plan, Tested
from slicekit.tasks.archives import Series
from slicekit.tasks.archives.places import load
from slicekit.training.seeds import derived_seed
from slicekit.training.settings import Settings

OURS, ROCKET, BOTH, HYDRA, WARPING = (
    "slice-classifier",
    "minirocket",
    "multirocket-hydra",
    "hydra",
    "dtw",
)
NAMES = {
    OURS: "SliceClassifier()",
    ROCKET: "MiniRocket",
    BOTH: "MultiRocket-Hydra",
    HYDRA: "Hydra",
    WARPING: "1-NN DTW",
}
"""What they are called in plans, and in tables."""

BAND = 0.1
"""Half the width of the band of DTW, as a share of the length."""

LIMIT = 3e11
"""The most multiplications that DTW may take, more than which are skipped."""

SHORTEST = 9
"""The shortest series that filters of the rockets take."""

Cases = list[np.ndarray]
"""A series each, (channels, length)."""


def installed(name: str) -> bool:
    """Whether what a classifier needs is installed."""
    return find_spec("sklearn" if name == OURS else "aeon") is not None


def perform(plan: Plan, device: str | None = None) -> Outcome:
    """Fit a classifier on the archive's training set, and judge it by the test set.

    Args:
        plan: `model` is one of `NAMES`, `task` a data set. Its options: `data`, the folder of the
            data sets; `dropped`, a share of the observations; `groups` of filters of ours; `limit`
            of DTW.
        device: of ours; None is the CPU.

    Returns:
        What came of it: nothing tested if it was skipped, as too costly.
    """
    archive = load(plan.task, plan.options.get("data"))
    seed, dropped = plan.settings.seed, plan.options.get("dropped", 0.0)
    train, test = _Sample(archive.train, dropped, seed), _Sample(archive.test, dropped, seed + 1)
    _compile(plan.model)
    began = time.process_time()
    said = _METHODS[plan.model](train, test, plan, device)
    seconds = time.process_time() - began
    if said is None:
        return Outcome(plan, 0, 0, "skipped", None, 0, (), 0.0)
    guesses, parameters = said
    share = float(np.mean(guesses == test.answers))
    lengths = archive.test.lengths
    tested = Tested(int(lengths.min()), int(lengths.max()), len(test.answers), share, share)
    return Outcome(plan, parameters, 1, "steps", None, 1, (tested,), seconds)


@lru_cache
def _compile(model: str) -> None:
    """Have all imported and compiled, once in a process, so that no fit has to wait for it."""
    random, answers = np.random.default_rng(0), [0, 1] * 4
    noise = Series.of([random.normal(size=(20, 2)) for _ in answers], answers, ("a", "b"))
    sample = _Sample(noise, 0.0, 0)
    _METHODS[model](sample, sample, Plan("", "", model, Settings(), ()), None)


class _Sample:
    """The series of a set, some of their observations dropped at random.

    What is left at a larger share is also left at a smaller one.
    """

    def __init__(self, series: Series, dropped: float, seed: int) -> None:
        random = np.random.default_rng(derived_seed(seed, f"dropped from {series.name}"))
        self.answers = series.answers.numpy()
        self.whole: Cases = []
        self.times: list[np.ndarray] = []
        self.stamped = series.times is not None
        self._stamps = [np.arange(n, dtype=np.float64) for n in series.lengths.tolist()]
        if series.times is not None:
            self._stamps = [x.numpy() for x in series.times.split(series.lengths.tolist())]
        for case in series.cases():
            length = len(case)
            left = max(2, round((1 - dropped) * length))
            order = random.permutation(length)
            self.times.append(np.sort(order[:left]))
            self.whole.append(np.ascontiguousarray(case.numpy().T))

    def observed(self) -> Cases:
        """What is left of the series."""
        return [x[:, kept] for x, kept in zip(self.whole, self.times, strict=True)]

    def clocks(self) -> list[np.ndarray]:
        """When that was observed."""
        return [stamps[kept] for stamps, kept in zip(self._stamps, self.times, strict=True)]

    def interpolated(self) -> Cases:
        """The series as long as they were, with lines across what was dropped, or was missing."""
        every = zip(self.whole, self._stamps, self.times, strict=True)
        return [_lines(x, stamps, kept) for x, stamps, kept in every]


def _lines(series: np.ndarray, stamps: np.ndarray, kept: np.ndarray) -> np.ndarray:
    grid, lines = np.linspace(stamps[0], stamps[-1], len(stamps)), np.zeros_like(series)
    for row, channel in enumerate(series):
        known = kept[~np.isnan(channel[kept])]
        if len(known):
            lines[row] = np.interp(grid, stamps[known], channel[known])
    return lines


def _equally_long(train: Cases, test: Cases, shortest: int) -> tuple[np.ndarray, np.ndarray]:
    """As arrays (cases, channels, length): short series stay at their last value."""
    length = max(shortest, *(x.shape[1] for x in (*train, *test)))

    def stacked(cases: Cases) -> np.ndarray:
        wide = [np.pad(x, ((0, 0), (0, length - x.shape[1])), mode="edge") for x in cases]
        return np.stack(wide).astype(np.float64)

    return stacked(train), stacked(test)


Found = tuple[np.ndarray, int] | None
"""The classes of the test series, and the number of trained parameters; None if skipped."""


def _ours(train: _Sample, test: _Sample, plan: Plan, device: str | None) -> Found:
    from slicekit.estimators import Ridge, SliceClassifier

    solver = Ridge(groups=plan.options.get("groups"))
    classifier = SliceClassifier(solver=solver, random_state=plan.settings.seed, device=device)
    timed = train.stamped or "dropped" in plan.options
    told, asked = ({"times": x.clocks()} if timed else {} for x in (train, test))
    classifier.fit(train.observed(), train.answers, **told)
    guesses = classifier.predict(test.observed(), **asked)
    members: Any = vars(classifier.model_)["members"]
    readouts = [readout for member in members for readout in member.readouts.values()]
    return guesses, sum(x.weight.numel() for x in readouts)


def _rocket(train: _Sample, test: _Sample, plan: Plan, _: str | None) -> Found:
    kind = getattr(import_module("aeon.classification.convolution_based"), _ROCKETS[plan.model])
    shortest = SHORTEST + (plan.model == BOTH)  # which also filters differences
    seen, asked = _equally_long(train.interpolated(), test.interpolated(), shortest)
    classifier = kind(random_state=plan.settings.seed)
    classifier.fit(seen, train.answers)
    return np.asarray(classifier.predict(asked)), 0


_ROCKETS = {
    ROCKET: "MiniRocketClassifier",
    BOTH: "MultiRocketHydraClassifier",
    HYDRA: "HydraClassifier",
}
"""What they are called in aeon."""


def _warping(train: _Sample, test: _Sample, plan: Plan, _: str | None) -> Found:
    from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier

    seen, asked = train.interpolated(), test.interpolated()
    if warping_cost(seen, asked) > plan.options.get("limit", LIMIT):
        return None
    classifier = KNeighborsTimeSeriesClassifier(
        n_neighbors=1, distance="dtw", distance_params={"window": BAND}
    )
    equal = len({x.shape for x in (*seen, *asked)}) == 1
    classifier.fit(np.stack(seen) if equal else seen, train.answers)
    return np.asarray(classifier.predict(np.stack(asked) if equal else asked)), 0


def warping_cost(train: Cases, test: Cases) -> float:
    """About how many multiplications 1-NN DTW takes: pairs x cells in the band x channels."""
    longest = max(x.shape[1] for x in (*train, *test))
    cells = longest * min(longest, 2 * BAND * longest + 1)
    return len(train) * len(test) * cells * train[0].shape[0]


_METHODS: dict[str, Callable[[_Sample, _Sample, Plan, str | None], Any]] = {
    OURS: _ours,
    ROCKET: _rocket,
    BOTH: _rocket,
    HYDRA: _rocket,
    WARPING: _warping,
}
