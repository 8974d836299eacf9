"""Products of generalised reflections, what the delta-rule family multiplies its states by.

M(Δω) = H_k ... H_1 with H_j = I - β_j v_j v_j^T, where v_j(Δω) = Σ_i Δω^i v_j^i and
β_j = 2 / (1 + |v_j|²). Along v_j, H_j scales by (1 - |v_j|²) / (1 + |v_j|²), inside (-1, 1]: a
short v_j changes nothing, one of length 1 forgets, a long one reflects. No state ever grows, and
where nothing moves M is the identity.

Glossary: vectors are the v_j, (..., count, dim); left and right are the factors of M - I, of rank
count (the compact form of a product of reflections).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.descriptions import householder as descriptions
from slicekit.structures.base import Drawn, Parameters, weighted_sum
from slicekit.structures.joint_dplr import LowRankGenerator


def compact(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """The factors (..., dim, count) of H_k ... H_1 - I = left right^T.

    (I - β v v^T) (I + L R^T) = I + L R^T - β v (v + R L^T v)^T, so each reflection adds a column
    to both.

    Args:
        vectors: (..., count, dim); the first acts first.
    """
    lefts: list[Tensor] = []
    rights: list[Tensor] = []
    for v in vectors.unbind(-2):
        right = v
        for earlier, seen in zip(lefts, rights, strict=True):
            right = right + seen * (earlier * v).sum(-1, keepdim=True)
        lefts.append(v * (-2 / (1 + v.square().sum(-1, keepdim=True))))
        rights.append(right)
    return torch.stack(lefts, -1), torch.stack(rights, -1)


@dataclass(frozen=True)
class Householder(descriptions.Householder, Drawn):
    """Π_k (I - 2 v_k v_k^T / (1 + |v_k|²)), where every v_k is linear in Δω.

    Its A(Δω) is that product less I, so that an Euler step is the product itself.

    Args:
        dim: size of the state.
        count: number of reflections in a step; `dim` of them reach every orthogonal matrix.
        scale: length that the vectors of a step start with.

    Example:
        >>> mirror = {"vectors": torch.tensor([[[1e4, 0.0]]])}
        >>> Householder(2, 1).combine(mirror, torch.ones(1)).euler().as_dense().round()
        tensor([[-1.,  0.],
                [ 0.,  1.]])
    """

    def combine(self, parameters: Parameters, increments: Tensor) -> LowRankGenerator:
        """M(Δω) - I of rank count, for increments (..., channels)."""
        left, right = compact(weighted_sum(increments, parameters["vectors"]))
        return LowRankGenerator(torch.zeros_like(left[..., 0]), left, right)
