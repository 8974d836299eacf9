"""How many words a structure tells apart: the argument of the paper's theorems, at finite size.

A state of dh = Σ_i A^i h dω^i is Σ_I (A_I h_0) S^I(ω), so a linear read-out sees as many iterated
integrals S^I as there are independent vectors A_I h_0. The theorems show that these become
orthogonal as the state grows: <A_I h_0, A_J h_0> / N tends to 1 where I = J, and to 0 elsewhere.

Glossary: letters are A^1, ..., A^dω; a word I is a product of letters, A_I; dim is N.
"""

from itertools import product
from typing import Any

import torch
from torch import Tensor

from slicekit.paths.lie_bases import hall
from slicekit.structures import Generator, Parameters, Structure
from slicekit.studies.drawn_structures import is_logarithmic, made
from slicekit.studies.plans import Plan

LETTERS = 2
SHORT, NEAR = 2, 0.5
"""Words up to this length are compared, and called orthonormal if no product is further off."""

TOLERANCE = 1e-9
"""Singular values below this, of vectors of length 1, count as none; in double precision."""

MOST, LARGEST_SUMMED = 8, 64
"""Letters of the longest alternating sum, and the largest dim at which it is taken."""


def measure(plan: Plan) -> tuple[int, dict[str, Any]]:
    """Ranks, distances from orthonormal words and alternating sums of random matrices.

    Args:
        plan: its model is one of `drawn_structures`; its options are dims, draws (seeds of the
            matrices) and length, of the longest words.

    Returns:
        The parameters at the largest dim, and for every dim the ranks and the distances of all
        draws; "words" is how many there are, and "invisible" the fewest letters whose alternating
        sum vanishes, None if it does for no number up to 8.
    """
    asked = plan.options
    measured: dict[str, Any] = {"words": _count(asked["length"]), "dims": {}}
    parameters: Parameters = {}
    for dim in asked["dims"]:
        structure = made(plan.model, dim)
        ranks, distances = [], []
        for seed in asked["draws"]:
            source = torch.Generator().manual_seed(seed)
            parameters = doubled(structure.init(LETTERS, source))
            start = torch.randn(dim, generator=source).double()
            letters, weights = letters_of(structure, parameters, is_logarithmic(plan.model))
            vectors = spelt(letters, weights, start, asked["length"])
            ranks.append(rank(list(vectors.values())))
            distances.append(distance(vectors, dim))
        measured["dims"][str(dim)] = {"ranks": ranks, "distances": distances}
    largest = min(LARGEST_SUMMED, asked["dims"][-1])
    measured["invisible"] = invisible(made(plan.model, largest), asked["draws"][0])
    return sum(x.numel() for x in parameters.values()), measured


def _count(length: int) -> int:
    return sum(LETTERS**n for n in range(length + 1))


def doubled(parameters: Parameters) -> Parameters:
    """In double precision."""
    return {k: x.double() if x.is_floating_point() else x for k, x in parameters.items()}


def letters_of(
    structure: Structure, parameters: Parameters, logarithmic: bool
) -> tuple[list[Generator], list[int]]:
    """The matrices, and of how many letters each is: with brackets for log-signatures."""
    if not logarithmic:
        letters = structure.combine(parameters, torch.eye(LETTERS, dtype=torch.float64))
        return letters.unbind(0), [1] * LETTERS
    basis = hall(LETTERS, 2)
    lifted = structure.lift_parameters(parameters, basis)
    unit = torch.eye(basis.size, dtype=torch.float64)
    return structure.lift(2).combine(lifted, unit).unbind(0), [1] * LETTERS + [2]


def spelt(
    letters: list[Generator], weights: list[int], start: Tensor, length: int
) -> dict[tuple[int, ...], Tensor]:
    """A_I h_0 for all words whose letters' weights add up to at most `length`."""
    vectors: dict[tuple[int, ...], Tensor] = {(): start}
    last = {(): 0}
    while last:
        longer = {}
        for (word, weight), letter in product(last.items(), range(len(letters))):
            if weight + weights[letter] <= length:
                longer[(*word, letter)] = weight + weights[letter]
                vectors[(*word, letter)] = letters[letter].mv(vectors[word])
        last = longer
    return vectors


def rank(vectors: list[Tensor]) -> int:
    """How many of some vectors are independent, whatever their lengths."""
    stacked = torch.stack([x / x.norm().clamp_min(1e-300) for x in vectors])
    return int((torch.linalg.svdvals(stacked) > TOLERANCE * len(vectors) ** 0.5).sum())


def distance(vectors: dict[tuple[int, ...], Tensor], dim: int) -> float:
    """The largest |<A_I h_0, A_J h_0> / N - δ_IJ| over short words without brackets."""
    short = [x for word, x in vectors.items() if len(word) <= SHORT and max((0, *word)) < LETTERS]
    stacked = torch.stack(short)
    return float((stacked @ stacked.mT / dim - torch.eye(len(short))).abs().max())


def invisible(structure: Structure, seed: int) -> int | None:
    """The fewest letters k with Σ_π sgn(π) A_π(1) ... A_π(k) h_0 = 0, None if there are none.

    For matrices of b x b that is 2b (Amitsur and Levitzki), however many blocks there are: the
    alternating iterated integral of 2b channels is then no read-out of any state.
    """
    source = torch.Generator().manual_seed(seed)
    parameters = doubled(structure.init(MOST, source))
    start = torch.randn(structure.dim, generator=source).double()
    letters = structure.combine(parameters, torch.eye(MOST, dtype=torch.float64)).unbind(0)
    sums, sizes = {0: start}, {0: start.norm()}
    for count in range(1, MOST + 1):
        for chosen in (x for x in range(2**MOST) if x.bit_count() == count):
            # The letter that acts last is any of those chosen; its sign is that of its place.
            places = [i for i in range(MOST) if chosen >> i & 1]
            parts = [letters[i].mv(sums[chosen ^ 1 << i]) * (-1) ** n for n, i in enumerate(places)]
            sums[chosen] = torch.stack(parts).sum(0)
            sizes[chosen] = torch.stack([x.norm() for x in parts]).sum()
        whole = 2**count - 1
        if count > 1 and sums[whole].norm() < 1e-9 * sizes[whole].clamp_min(1e-300):
            return count
    return None
