"""The floor under a scan: the matrix products that no method avoids, and nothing else.

For a structure whose transitions have K entries made from the increments, forward and backward need

    transitions                 (B L, channels) x (channels, K)
    gradient of the increments  (B L, K) x (K, channels)
    gradient of the parameters  (channels, B L) x (B L, K)

where K is, for the structures timed here:

    diagonal, Walsh-Hadamard    dim
    block-diagonal              dim b
    dense, sparse               dim^2 (the sum of sparse matrices over the channels is dense)
    diagonal-dense              dim - b + b^2
    joint DPLR                  (1 + 2 r) dim
    orthogonal                  dim / b blocks of b (b - 1) / 2 angles; exponentials do not count
    DPLR                        dim, and six products with factors that all steps share:
                                the state and its cotangent with either factor, and the gradients of
                                both factors, (B L, dim) x (dim, channels r) or as large

All go into outputs that are allocated beforehand, by `torch.mm`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.bench.problems import RANK, Setting


@dataclass(frozen=True, eq=False)
class Product:
    """left @ right into a given output."""

    left: Tensor
    right: Tensor
    out: Tensor

    @classmethod
    def of(cls, left: Tensor, right: Tensor) -> "Product":
        """Allocate, and touch, the output."""
        return cls(left, right, torch.zeros(left.shape[0], right.shape[1]))

    def run(self) -> None:
        """Multiply."""
        torch.mm(self.left, self.right, out=self.out)


def products(setting: Setting) -> list[Product]:
    """The products of a setting's floor."""
    dim, channels = setting.shape.dim, setting.channels
    sizes = _bilinear(setting.steps, channels, setting.case.columns(dim))
    if setting.structure == "dplr-4":
        sizes += _shared_factors(setting.steps, dim, channels * RANK)
    return sizes


def floor(setting: Setting) -> Callable[[], None]:
    """Something to time that runs the floor's products."""
    sizes = products(setting)

    def run() -> None:
        for product in sizes:
            product.run()

    return run


def _bilinear(steps: int, channels: int, columns: int) -> list[Product]:
    increments, gradient = torch.randn(steps, channels), torch.randn(steps, columns)
    parameters = torch.randn(channels, columns)
    return [
        Product.of(increments, parameters),
        Product.of(gradient, parameters.t()),
        Product.of(increments.t(), gradient),
    ]


def _shared_factors(steps: int, dim: int, columns: int) -> list[Product]:
    state, cotangent = torch.randn(steps, dim), torch.randn(steps, dim)
    inner, in_inner = torch.randn(steps, columns), torch.randn(steps, columns)
    left, right = torch.randn(dim, columns), torch.randn(dim, columns)
    return [
        Product.of(state, right),
        Product.of(inner, left.t()),
        Product.of(cotangent, left),
        Product.of(in_inner, right.t()),
        Product.of(cotangent.t(), inner),
        Product.of(state.t(), in_inner),
    ]
