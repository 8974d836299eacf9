"""What a linear read-out of a random structured CDE can tell of a path: the theorems' own words.

Matrices are drawn at random, and nothing of them is trained. A linear map of the last state is
fitted by least squares to functionals of smooth random paths, and judged on other paths.

Glossary: channels of a path are time, x and y; S^xy is the iterated integral of dx dy; an error is
the root mean square over the paths of the test, as a share of the functional's deviation: 1 is no
better than the mean.
"""

import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor

from slicekit.flows import Exponential, LogODE
from slicekit.paths.tensor_algebra import signature
from slicekit.scans import solve
from slicekit.studies.drawn_structures import is_logarithmic, made
from slicekit.studies.plans import Plan
from slicekit.studies.word_ranks import doubled

CHANNELS, DEPTH, WAVES = 3, 3, 4
SIZE = 0.15
"""Of a path: so small that the words beyond those of the functionals fade."""

WINDOW = 8
"""Observations of a log-signature."""

LARGEST_LIFTED = 64
"""The largest dim with log-signatures where brackets are dense: their exponentials cost dim³."""

PENALTIES = tuple(10.0**-n for n in range(2, 17, 2))
"""To choose from, on the mean square of a state of size 1."""

FUNCTIONALS = ("product", "area", "integral", "area²")
"""x y at the end, which needs no order; the Lévy area of x and y; S^xyx; and the area squared."""


def measure(plan: Plan) -> tuple[int, dict[str, Any]]:
    """Errors of all functionals.

    Args:
        plan: its model is one of `drawn_structures`; its options are dims, draws (seeds of the
            matrices), paths (for the fit; half as many for the test) and length.

    Returns:
        The parameters at the largest dim, and for every dim a list of errors for each functional,
        one for every draw.
    """
    asked, parameters = plan.options, {}
    increments = drawn_paths(asked["paths"] * 3 // 2, asked["length"])
    targets = functionals(increments)
    logarithmic = is_logarithmic(plan.model)
    measured: dict[str, Any] = {"dims": {}}
    for dim in asked["dims"]:
        structure = made(plan.model, dim)
        if logarithmic and structure.lift(2) != structure and dim > LARGEST_LIFTED:
            continue
        exact = LogODE(2, WINDOW, Exponential())
        flow = exact if logarithmic else (Exponential() if structure.exponential_only else None)
        errors = []
        for seed in asked["draws"]:
            source = torch.Generator().manual_seed(seed)
            parameters = doubled(structure.init(CHANNELS, source))
            start = torch.randn(dim, generator=source).double()
            with torch.no_grad(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "LogODE.* brackets leave this structure")
                starts = start.expand(len(increments), -1)
                _, last = solve(structure, parameters, increments, starts, flow)
            errors.append(errors_of(last, targets, asked["paths"]))
        by_functional = dict(zip(FUNCTIONALS, zip(*errors, strict=True), strict=True))
        measured["dims"][str(dim)] = {name: list(x) for name, x in by_functional.items()}
    return sum(x.numel() for x in parameters.values()), measured


@cache
def drawn_paths(count: int, length: int) -> Tensor:
    """Increments (count, length, 3) of time and two sums of sines."""
    source = torch.Generator().manual_seed(0)
    weights = torch.randn(count, 2, WAVES, 1, generator=source).double()
    phases = torch.rand(count, 2, WAVES, 1, generator=source).double() * 2 * torch.pi
    waves = torch.arange(1, WAVES + 1).double()[:, None]
    clock = torch.linspace(0, 1, length + 1, dtype=torch.float64)
    values = (weights / waves * torch.sin(torch.pi * waves * clock + phases)).sum(2).mT * SIZE
    path = torch.cat([SIZE * clock.expand(count, 1, -1).mT, values], -1)
    return path.diff(dim=1)


def functionals(increments: Tensor) -> Tensor:
    """(paths, functionals), each with mean 0 and deviation 1."""
    signatures = signature(increments, DEPTH)

    def of(*word: int) -> Tensor:
        place = sum(CHANNELS**n for n in range(1, len(word)))
        for letter, power in zip(word, reversed(range(len(word))), strict=True):
            place += letter * CHANNELS**power
        return signatures[:, place]

    area = (of(1, 2) - of(2, 1)) / 2
    values = torch.stack([of(1) * of(2), area, of(1, 2, 1), area.square()], 1)
    return (values - values.mean(0)) / values.std(0)


def errors_of(states: Tensor, targets: Tensor, fitted: int) -> list[float]:
    """Errors on the last paths of a linear map of the states, fitted to the first `fitted`.

    The penalty is chosen on a fourth of these.
    """
    features = torch.cat([states, torch.ones_like(states[:, :1])], 1)
    features = features / features[:fitted].square().mean(0).sqrt().clamp_min(1e-300)
    seen = fitted * 3 // 4
    left, sizes, right = torch.linalg.svd(features[:seen], full_matrices=False)
    turned, aims = features @ right.mT, left.mT @ targets[:seen]
    missed = torch.stack(
        [turned @ (aims * (sizes / (sizes.square() + x * seen))[:, None]) for x in PENALTIES]
    ).sub(targets)
    best = missed[:, seen:fitted].square().mean(1).argmin(0)
    errors = missed[:, fitted:].square().mean(1).sqrt() / targets[fitted:].std(0)
    return errors.gather(0, best[None])[0].tolist()
