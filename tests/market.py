"""The market: every structure that the property tests try, and a user's own among them."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from slicekit import (
    DPLR,
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    DirectSum,
    Euler,
    Exponential,
    Householder,
    JointDPLR,
    Orthogonal,
    PermutationDiagonal,
    RowNormalised,
    Sparse,
    WalshHadamard,
)
from slicekit.flows import Flow
from slicekit.structures import BlockGenerator, Parameters, Structure

CHANNELS = 3


@dataclass(frozen=True)
class Circulant(Structure):
    """A structure as a user writes it: one class, nothing registered."""

    dim: int

    def init(
        self, channels: int, generator: torch.Generator | None = None, *, increment: float = 1.0
    ) -> Parameters:
        return {"first": torch.randn(channels, self.dim, generator=generator) / self.dim**0.5}

    def combine(self, parameters: Parameters, increments: Tensor) -> BlockGenerator:
        first = increments @ parameters["first"]
        row = torch.arange(self.dim)
        return BlockGenerator(first[..., (row[:, None] - row) % self.dim].unsqueeze(-3))

    def step_cost(self, channels: int) -> int:
        return (channels + self.dim) * self.dim


STRUCTURES: dict[str, Structure] = {
    "dense": Dense(5),
    "diagonal": Diagonal(7),
    "blocks": BlockDiagonal(8, 4),
    "ragged": BlockDiagonal(blocks=[3, 2, 2, 1]),
    "diagonal-dense": DiagonalDense(8, 3),
    "dplr": DPLR(6, 2),
    "joint-dplr": JointDPLR(6, 2),
    "sparse-by-density": Sparse(6, density=0.4),
    "sparse-by-epsilon": Sparse(8, epsilon=0.5),
    "hadamard-8": WalshHadamard(8),
    "unbounded-hadamard-32": WalshHadamard(32, bounded=False),
    "orthogonal-2": Orthogonal(8, 2),
    "orthogonal-4": Orthogonal(8, 4),
    "open-sum": DirectSum(Diagonal(2), DirectSum(DPLR(3, 1), JointDPLR(2, 1))),
    "householder": Householder(6, 3),
    "row-normalised": RowNormalised(8, 4),
    "permutation-diagonal": PermutationDiagonal(8, 4, scale=1.0, angle=0.5),
    "orthogonal-sum": DirectSum(Dense(2), DirectSum(Orthogonal(4, 2), Diagonal(2))),
    "circulant": Circulant(5),
}

TINY: dict[str, Structure] = {
    "dense": Dense(2),
    "diagonal": Diagonal(3),
    "ragged": BlockDiagonal(blocks=[2, 1, 1]),
    "diagonal-dense": DiagonalDense(3, 2),
    "dplr": DPLR(3, 1),
    "joint-dplr": JointDPLR(3, 2),
    "sparse": Sparse(3, density=0.6),
    "hadamard": WalshHadamard(4),
    "unbounded-hadamard": WalshHadamard(4, bounded=False),
    "orthogonal": Orthogonal(4, 2),
    "open-sum": DirectSum(Diagonal(1), DirectSum(DPLR(2, 1), Dense(1))),
    "householder": Householder(3, 2),
    "row-normalised": RowNormalised(4, 2),
    "orthogonal-sum": DirectSum(Diagonal(1), Orthogonal(3, 3)),
    "circulant": Circulant(3),
}
"""The same kinds, small enough for finite differences in every direction; without those whose
gradients differ from them on purpose (the straight-through ones of PermutationDiagonal)."""

NONLINEAR = ("joint-dplr", "open-sum", "householder", "row-normalised", "permutation-diagonal")
"""Those whose A(Δω) is not linear in Δω."""

NO_KERNEL = {"circulant": "Circulant", "householder": "Householder"}
NO_KERNEL |= {"row-normalised": "RowNormalised", "permutation-diagonal": "PermutationDiagonal"}
"""Those that no kernel takes, with the names of their classes."""

FLOWS: dict[str, Flow | None] = {"euler": Euler(), "exponential": Exponential(), "natural": None}

every_structure = pytest.mark.parametrize("name", STRUCTURES)
every_tiny_structure = pytest.mark.parametrize("name", TINY)

FLOWS_OF = [
    (name, flow)
    for name, structure in STRUCTURES.items()
    for flow in ("exponential", "natural" if structure.exponential_only else "euler")
]
"""Both flows of every structure: its own, which is Euler's where that is allowed, and the exact."""

every_structure_and_flow = pytest.mark.parametrize(("name", "flow_name"), FLOWS_OF)


def make_parameters(structure: Structure, dtype: torch.dtype = torch.float64) -> Parameters:
    """Reproducible parameters of CHANNELS matrices; integer ones (a pattern) as they are."""
    made = structure.init(CHANNELS, torch.Generator().manual_seed(1))
    return {name: x.to(dtype) if x.is_floating_point() else x for name, x in made.items()}
