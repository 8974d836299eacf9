"""What blocks are blind to: closed paths in four channels, and the alternating iterated integral.

Σ_π sgn(π) S^π(1)...π(4) is, up to a factor, the Pfaffian of the Lévy areas a_ij of all pairs of
channels. No state of blocks of 2 x 2 contains it, however many blocks there are, though it contains
each of the areas and other products of two; see `word_ranks.invisible`.

Glossary: as in `path_fits`. Paths are closed, so that they have areas and no increments, and small,
so that words of more than four letters fade; flows are exact.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from slicekit.flows import Exponential
from slicekit.paths.tensor_algebra import signature
from slicekit.scans import solve
from slicekit.studies.drawn_structures import made
from slicekit.studies.path_fits import errors_of
from slicekit.studies.plans import Plan
from slicekit.studies.word_ranks import doubled

CHANNELS, WAVES, SIZE = 4, 2, 0.03

FUNCTIONALS = ("one area", "two areas", "alternating")
"""a_12; a_12 a_34; and a_12 a_34 - a_13 a_24 + a_14 a_23."""


def measure(plan: Plan) -> tuple[int, dict[str, Any]]:
    """Errors of all functionals, as in `path_fits.measure`."""
    asked, parameters = plan.options, {}
    increments = drawn_loops(asked["paths"] * 3 // 2, asked["length"])
    targets = functionals(increments)
    measured: dict[str, Any] = {"dims": {}}
    for dim in asked["dims"]:
        structure, errors = made(plan.model, dim), []
        for seed in asked["draws"]:
            source = torch.Generator().manual_seed(seed)
            parameters = doubled(structure.init(CHANNELS, source))
            start = torch.randn(dim, generator=source).double().expand(len(increments), -1)
            with torch.no_grad():
                _, last = solve(structure, parameters, increments, start, Exponential())
            errors.append(errors_of(last, targets, asked["paths"]))
        by_functional = zip(FUNCTIONALS, zip(*errors, strict=True), strict=True)
        measured["dims"][str(dim)] = {name: list(x) for name, x in by_functional}
    return sum(x.numel() for x in parameters.values()), measured


@cache
def drawn_loops(count: int, length: int) -> Tensor:
    """Increments (count, length, 4) of closed paths, sums of waves."""
    source = torch.Generator().manual_seed(0)
    sines, cosines = torch.randn(2, count, CHANNELS, WAVES, 1, generator=source).double()
    waves = torch.arange(1, WAVES + 1).double()[:, None]
    angles = 2 * torch.pi * waves * torch.linspace(0, 1, length + 1, dtype=torch.float64)
    values = ((sines * angles.sin() + cosines * angles.cos()) / waves).sum(2)
    return SIZE * values.mT.diff(dim=1)


def functionals(increments: Tensor) -> Tensor:
    """(paths, functionals), each with mean 0 and deviation 1."""
    second = signature(increments, 2)[:, CHANNELS:].unflatten(1, (CHANNELS, CHANNELS))
    a = (second - second.mT) / 2
    two = a[:, 0, 1] * a[:, 2, 3]
    pfaffian = two - a[:, 0, 2] * a[:, 1, 3] + a[:, 0, 3] * a[:, 1, 2]
    values = torch.stack([a[:, 0, 1], two, pfaffian], 1)
    return (values - values.mean(0)) / values.std(0)
