"""Settings of `Ridge` against each other, on cases held out of training data.

A setting is whether filters of increments are blocks of their own, and how many cases speak for
equal weights of the blocks. All of them see the same features, and share their read-outs.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicekit.studies.plans import Plan
from slicekit.studies.training_parts import training_part

APART, TOGETHER = "apart", "together"
PULLS = (1, 3, 10)
SETTINGS = tuple(f"{kind}, {pull}" for kind in (APART, TOGETHER) for pull in PULLS)
"""Blocks of increments apart or with those of values, and the pull to equal weights."""

DEFAULT = f"{APART}, 3"
"""That of `SliceClassifier()`."""

FEW, ENOUGH = 5, 3
"""Cases of a class in a small split, and how many more it then has to have on average."""


def measure(plan: Plan) -> tuple[int, dict[str, Any]]:
    """The accuracy of every setting on cases that were held out.

    Args:
        plan: `model` is a set of `training_parts`, the seed the number of the split; the option
            `few` asks for five cases of each class, instead of two thirds of them.

    Returns:
        No parameters, and how many cases were right of how many, by setting.
    """
    series, y = training_part(plan.model, plan.options.get("data"))
    random = np.random.default_rng([plan.settings.seed, int(plan.options["few"])])
    held = held_out(y, plan.options["few"], random)
    if held is None:
        return 0, {"cases": 0}
    groups = plan.options.get("groups")
    blocks = _blocks(series, y, held, groups, random)
    answers = np.unique(y[~held])
    measured: dict[str, Any] = {"cases": int(held.sum())}
    for kind, (left_out, said, targets) in blocks.items():
        for pull in PULLS:
            guesses = answers[_joined(left_out, said, targets, pull).argmax(1).numpy()]
            measured[f"{kind}, {pull}"] = int((guesses == y[held]).sum())
    return 0, measured


def held_out(y: np.ndarray, few: bool, random: np.random.Generator) -> np.ndarray | None:
    """Which cases (cases,) are held out, a share of each class; None if a class has too few."""
    held = np.zeros(len(y), dtype=bool)
    if few and len(y) < (FEW + ENOUGH) * len(np.unique(y)):
        return None
    for label in np.unique(y):
        cases = random.permutation(np.flatnonzero(y == label))
        kept = FEW if few else len(cases) - len(cases) // 3
        held[cases[kept:]] = True
    return held if held.any() else None


Told = tuple[list[Tensor], list[Tensor], Tensor]
"""What blocks say of training cases that were left out, and of those held out; and the targets."""


def _blocks(
    series: list[np.ndarray],
    y: np.ndarray,
    held: np.ndarray,
    groups: int | None,
    random: np.random.Generator,
) -> dict[str, Told]:
    """What is read from blocks of increments apart from those of values, and with them."""
    from slicekit.estimators import SliceTransformer
    from slicekit.estimators.pools.filters import MOVING
    from slicekit.estimators.readout import fit_readout

    seed = int(random.integers(2**31 - 1))
    eyes = SliceTransformer(groups=groups, random_state=seed)
    train = [x for x, out in zip(series, held, strict=True) if not out]
    test = [x for x, out in zip(series, held, strict=True) if out]
    seen, asked = (torch.from_numpy(eyes.fit(train).transform(some)) for some in (train, test))
    labels = torch.from_numpy(np.unique(y[~held], return_inverse=True)[1])
    targets = 2.0 * torch.nn.functional.one_hot(labels).double() - 1
    equal = torch.ones(len(train), dtype=torch.float64)
    columns = dict(
        zip(eyes.blocks_, torch.arange(seen.shape[1]).split([*eyes.blocks_.values()]), strict=True)
    )
    together: dict[str, list[Tensor]] = {}
    for name, chosen in columns.items():
        together.setdefault(name.removeprefix(MOVING), []).append(chosen)
    kinds = {APART: list(columns.values()), TOGETHER: [torch.cat(x) for x in together.values()]}
    accuracies = {}
    for kind, blocks in kinds.items():
        read = [(fit_readout(seen[:, chosen], targets, equal, random), chosen) for chosen in blocks]
        said = [readout(asked[:, chosen]).double() for (readout, _), chosen in read]
        accuracies[kind] = [left_out for (_, left_out), _ in read], said, targets
    return accuracies


def _joined(left_out: list[Tensor], said: list[Tensor], targets: Tensor, pull: float) -> Tensor:
    from slicekit.estimators.readout import join

    weights = join(left_out, targets, torch.ones(len(targets), dtype=torch.float64), pull)
    return torch.einsum("bno,b->no", torch.stack(said), weights)
