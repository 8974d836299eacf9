"""Walsh-Hadamard matrices: A^i = H diag(d^i), H the orthonormal Sylvester matrix. WH-SLiCE."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from slicekit.descriptions import walsh_hadamard as descriptions
from slicekit.structures.base import Drawn, Generator, Parameters, weighted_sum
from slicekit.structures.exponential import EulerAction, ExponentialAction, exponential_action

RADIX = 16


def sylvester(size: int, like: Tensor) -> Tensor:
    """The orthonormal Hadamard matrix of a small size, which a stage of the transform applies."""
    signs = torch.ones(1, 1, dtype=like.dtype, device=like.device)
    while signs.shape[0] < size:
        signs = torch.cat([torch.cat([signs, signs], 1), torch.cat([signs, -signs], 1)])
    return signs / size**0.5


def walsh_hadamard_transform(state: Tensor) -> Tensor:
    """H X for X (..., dim, columns) in O(dim log dim): stages of radix 16, no dense H.

    H of size p q is the Kronecker product of those of size p and q, so a stage is a product with a
    matrix of at most 16 x 16, which matrix units do far faster than additions in pairs.

    Example:
        >>> walsh_hadamard_transform(torch.eye(4)) * 2
        tensor([[ 1.,  1.,  1.,  1.],
                [ 1., -1.,  1., -1.],
                [ 1.,  1., -1., -1.],
                [ 1., -1., -1.,  1.]])
    """
    dim, columns = state.shape[-2], state.shape[-1]
    lead = state.shape[:-2]
    done = 1
    while done < dim:
        stage = min(RADIX, dim // done)
        rest = state.reshape(*lead, dim // (done * stage), stage, done * columns)
        state = sylvester(stage, state) @ rest
        done *= stage
    return state.reshape(*lead, dim, columns)


@dataclass(frozen=True, eq=False)
class WalshHadamardGenerator(Generator):
    """A = H diag(values), or its transpose diag(values) H; values (..., dim)."""

    values: Tensor
    transposed: bool = False
    stepwise: ClassVar[tuple[str, ...]] = ("values",)

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.values.shape[-1]

    def act(self, state: Tensor) -> Tensor:
        """A scaling and a fast transform of state (..., dim, columns)."""
        values = self.values.unsqueeze(-1)
        if self.transposed:
            return values * walsh_hadamard_transform(state)
        return walsh_hadamard_transform(values * state)

    def adjoint(self) -> "WalshHadamardGenerator":
        """The scaling and the transform change places."""
        return WalshHadamardGenerator(self.values.conj(), not self.transposed)

    def euler(self) -> EulerAction:
        """h + A h."""
        return EulerAction(self)

    def exponential(self, substeps: int | None = None) -> ExponentialAction:
        """exp(A) as an action on the state."""
        return exponential_action(self, substeps)

    def norm_bound(self) -> Tensor:
        """Largest modulus of the diagonal: H is an isometry."""
        return self.values.abs().amax(-1)

    def pullback(self, before: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        """One transform for all steps."""
        if self.transposed:
            before = walsh_hadamard_transform(before)
        else:
            cotangent = walsh_hadamard_transform(cotangent)
        return ((cotangent * before.conj()).sum(-1),)


@dataclass(frozen=True)
class WalshHadamard(descriptions.WalshHadamard, Drawn):
    """H diag(d^i).

    Args:
        dim: size of the state, a power of two.
        bounded: whether d^i is the tanh of the parameters, and so inside (-1, 1).
        scale: standard deviation of the initial parameters.

    Example:
        >>> WalshHadamard(100)
        Traceback (most recent call last):
        ...
        ValueError: dim=100 is no power of two; choose 64 or 128
    """

    def combine(self, parameters: Parameters, increments: Tensor) -> WalshHadamardGenerator:
        """H diag(Σ_i Δω^i d^i) for increments (..., channels)."""
        values = parameters["values"]
        values = torch.tanh(values) if self.bounded else values
        return WalshHadamardGenerator(weighted_sum(increments, values))
