"""Blocks whose rows have an absolute sum of at most one, as in block-diagonal LRUs.

M(Δω) has the blocks of T = I + B(Δω), B linear in Δω, with every row divided by max(1, Σ_j |T_ij|).
Products of such matrices are such matrices, and the largest modulus of a block's state never grows;
it can mix, flip and forget. Where nothing moves M is the identity.

Glossary: blocks (..., k, b, b) are the B_j, and those of M - I.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.descriptions import row_normalised as descriptions
from slicekit.structures.base import Drawn, Parameters, weighted_sum
from slicekit.structures.block_diagonal import BlockGenerator


@dataclass(frozen=True)
class RowNormalised(descriptions.RowNormalised, Drawn):
    """Blocks of I + B(Δω), with rows divided by their absolute sums where these exceed one.

    Its A(Δω) is that less I, so that an Euler step is the matrix itself; an exponential of it has
    rows of absolute sum at most one as well.

    Args:
        dim: size of the state.
        block: size of a block; it divides dim.
        scale: entries of B^i start with standard deviation scale / sqrt(block).

    Example:
        >>> parameters = {"blocks": torch.tensor([[[[0.0, 3.0], [-0.5, 0.0]]]])}
        >>> RowNormalised(2, 2).combine(parameters, torch.ones(1)).euler().as_dense()
        tensor([[ 0.2500,  0.7500],
                [-0.3333,  0.6667]])
    """

    def combine(self, parameters: Parameters, increments: Tensor) -> BlockGenerator:
        """M(Δω) - I for increments (..., channels)."""
        moved = weighted_sum(increments, parameters["blocks"])
        unit = torch.eye(self.block, dtype=moved.dtype, device=moved.device)
        rows = unit + moved
        sums = rows.abs().sum(-1, keepdim=True).clamp_min(1)
        return BlockGenerator(rows / sums - unit)
