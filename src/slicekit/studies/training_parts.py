"""Training data to choose settings by: those of archives, some that ship with aeon, and families
that are made up. No test set is ever read.

| family | what tells its classes apart |
|---|---|
| motifs | which short shape stands somewhere in noise |
| order | which of two events comes first |
| memory | the sign of a pulse at the very start, long before the end |
| spectra | how fast an oscillation with a random phase is |
"""

from importlib import import_module
from importlib.util import find_spec

import numpy as np

from slicekit.tasks.archive_task import has_classes, on_disk
from slicekit.tasks.archives.places import load

SHIPPED = {
    "ACSF1": "load_acsf1",
    "ArrowHead": "load_arrow_head",
    "GunPoint": "load_gunpoint",
    "ItalyPowerDemand": "load_italy_power_demand",
    "OSULeaf": "load_osuleaf",
    "UnitTest": "load_unit_test",
}
"""What ships with aeon, and its functions for it."""

CASES, LENGTH, CHANNELS, CLASSES = 90, 120, 2, 3
"""Of a family that is made up; `order` and `memory` have two classes."""

LONG = ("MotorImagery", "PenDigits")
"""Sets that take longest; they are left out unless the user names them."""

Labelled = tuple[list[np.ndarray], np.ndarray]
"""Series (channels, length) each, and their classes (cases,)."""


def names(data: str | None = None) -> tuple[str, ...]:
    """All that is at hand."""
    shipped = tuple(SHIPPED) if find_spec("aeon") is not None else ()
    others = (x for x in on_disk(data) if x not in shipped and has_classes(x, data))
    return (*FAMILIES, *shipped, *others)


def training_part(name: str, data: str | None = None) -> Labelled:
    """The training data of a set, or a family."""
    if name in FAMILIES:
        return FAMILIES[name](np.random.default_rng([len(name), *name.encode()]))
    if name in SHIPPED:
        read = getattr(import_module("aeon.datasets"), SHIPPED[name])
        X, y = read(split="train")
        return [np.asarray(x, dtype=np.float64) for x in X], np.unique(y, return_inverse=True)[1]
    series = load(name, data).train
    cases = [np.ascontiguousarray(x.numpy().T, dtype=np.float64) for x in series.cases()]
    return cases, series.answers.numpy()


def _noise(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return random.normal(size=(CASES, CHANNELS, LENGTH)), np.arange(CASES) % CLASSES


def _motifs(random: np.random.Generator) -> Labelled:
    X, y = _noise(random)
    shapes = 2 * random.normal(size=(CLASSES, CHANNELS, 12)).cumsum(-1)
    shapes -= shapes.mean(-1, keepdims=True)
    for x, label in zip(X, y, strict=True):
        at = random.integers(0, LENGTH - 12)
        x[:, at : at + 12] += shapes[label]
    return list(X), y


def _order(random: np.random.Generator) -> Labelled:
    X, y = _noise(random)
    y = y % 2
    for x, label in zip(X, y, strict=True):
        first, second = np.sort(random.choice(np.arange(5, LENGTH - 15, 12), 2, replace=False))
        x[label, first : first + 8] += 3
        x[1 - label, second : second + 8] += 3
    return list(X), y


def _memory(random: np.random.Generator) -> Labelled:
    X, y = _noise(random)
    y = y % 2
    X[:, 0, :6] += np.where(y, 2.0, -2.0)[:, None]
    return list(X.cumsum(-1) - X[..., :1]), y


def _spectra(random: np.random.Generator) -> Labelled:
    X, y = _noise(random)
    speed = 0.3 * 1.25 ** y[:, None, None]
    phase = random.uniform(0, 2 * np.pi, (CASES, CHANNELS, 1))
    return list(X + np.sin(speed * np.arange(LENGTH) + phase)), y


FAMILIES = {"motifs": _motifs, "order": _order, "memory": _memory, "spectra": _spectra}
