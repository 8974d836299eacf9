"""The appendix: 1/N <A_I h_0, A_J h_0> -> δ_IJ, which makes a structure maximally expressive.

A_I is the product of the A^i along the word I. Expectations are taken by averaging over seeds.
"""

from itertools import product

import pytest
import torch
from torch import Tensor

from slicekit import BlockDiagonal, Dense, Diagonal, Sparse, WalshHadamard
from slicekit.structures import Structure

DIM = 1024
SEEDS = 12
WORDS = [word for length in range(4) for word in product((0, 1), repeat=length)]


def gram(structure: Structure, seed: int) -> Tensor:
    """1/N <A_I h_0, A_J h_0> for all words up to length three over two letters."""
    source = torch.Generator().manual_seed(seed)
    parameters = structure.init(2, source)
    letters = structure.combine(parameters, torch.eye(2)).unbind(0)
    vectors: dict[tuple[int, ...], Tensor] = {(): torch.randn(structure.dim, generator=source)}
    for word in WORDS[1:]:
        vectors[word] = letters[word[-1]].mv(vectors[word[:-1]])
    stacked = torch.stack([vectors[word] for word in WORDS])
    return stacked @ stacked.mT / structure.dim


def spread(structure: Structure, longest: int) -> float:
    """Root mean square, over the seeds, of the worst distance from δ_IJ: the theorem's L2 norm."""
    keep = [i for i, word in enumerate(WORDS) if len(word) <= longest]
    grams = torch.stack([gram(structure, seed)[keep][:, keep] for seed in range(SEEDS)])
    return float((grams - torch.eye(len(keep))).square().mean(0).amax().sqrt())


EXPRESSIVE: dict[str, Structure] = {
    "dense": Dense(DIM),
    "sparse": Sparse(DIM, epsilon=0.5),
    "hadamard": WalshHadamard(DIM, bounded=False),
}


@pytest.mark.parametrize("name", EXPRESSIVE)
def test_words_become_orthonormal(name: str) -> None:
    """Fluctuations are of order N^(-1/2) = 0.03, times a constant that grows with the words."""
    assert spread(EXPRESSIVE[name], longest=2) < 0.25
    assert spread(EXPRESSIVE[name], longest=3) < 0.5


@pytest.mark.parametrize("kind", ["dense", "hadamard"])
def test_the_error_shrinks_with_the_size(kind: str) -> None:
    make = {"dense": Dense, "hadamard": lambda n: WalshHadamard(n, bounded=False)}[kind]
    errors = [spread(make(size), longest=2) for size in (16, 128, 1024)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < errors[0] / 3


def test_growing_blocks_become_expressive() -> None:
    """The bias of blocks of size b is 1/b; averaging over blocks and seeds leaves only that."""
    keep = [i for i, word in enumerate(WORDS) if len(word) <= 2]
    errors = []
    for block in (4, 8, 16, 32, 64):
        structure = BlockDiagonal(DIM, block)
        mean = torch.stack([gram(structure, seed) for seed in range(2 * SEEDS)]).mean(0)
        errors.append(float((mean - torch.eye(len(WORDS)))[keep][:, keep].abs().max()))
        assert errors[-1] == pytest.approx(1 / block, rel=0.4)
    assert errors == sorted(errors, reverse=True)


def test_diagonals_cannot_tell_the_order_of_letters() -> None:
    first, second = WORDS.index((0, 1)), WORDS.index((1, 0))
    values = [float(gram(Diagonal(DIM), seed)[first, second]) for seed in range(2 * SEEDS)]
    assert sum(values) / len(values) == pytest.approx(1, abs=0.15)
    for structure in EXPRESSIVE.values():
        values = [float(gram(structure, seed)[first, second]) for seed in range(SEEDS)]
        assert abs(sum(values) / len(values)) < 0.15
