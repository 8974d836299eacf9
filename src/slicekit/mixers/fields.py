"""Vector fields of controlled differential equations: a multilayer perceptron, and its derivatives.

| here | in the papers |
|---|---|
| `dim`, `columns` | the sizes of h, and of what drives it (channels, or β log-signature terms) |
| row i of `field(h)` | f_i(h), so that dh = Σ_i f_i(h) dX^i |
| `bracketed` | Σ_i λ_i f_i + Σ_{i<j} λ_{ij} [f_i, f_j], the Log-ODE field of depth 2 |
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from slicekit.checks import check_positive
from slicekit.mixers.arguments import check_sizes


class Activation(NamedTuple):
    """A function of z, and its derivative from z and the value."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]


def _silu_slope(z: Tensor, value: Tensor) -> Tensor:
    gate = torch.sigmoid(z)
    return gate + value * (1 - gate)


RELU = Activation(torch.relu, lambda z, value: (z > 0).to(z.dtype))
SILU = Activation(functional.silu, _silu_slope)
TANH = Activation(torch.tanh, lambda z, value: 1 - value.square())
IDENTITY = Activation(lambda z: z, lambda z, value: torch.ones_like(z))


class Field(nn.Module):
    """A perceptron from h to the rows f_1(h), ..., f_columns(h).

    Args:
        dim: size of h.
        columns: number of rows f_i.
        hidden: size of the layers between.
        activations: one after each linear map; the last one acts on the rows.
        scale: what weights and biases are divided by at the start.

    The weights of its maps are read, as they stand: derivatives are made from them, and the maps
    themselves are not called. Parametrisations count therefore, and hooks do not.

    Example:
        >>> field = Field(4, 3, hidden=8, activations=[RELU, TANH])
        >>> field.prepare(torch.float32).rows(torch.zeros(2, 4)).shape
        torch.Size([2, 3, 4])
    """

    def __init__(
        self,
        dim: int,
        columns: int,
        hidden: int,
        activations: Sequence[Activation],
        scale: float = 1.0,
    ) -> None:
        """Draw the weights."""
        super().__init__()
        check_sizes(dim=dim, columns=columns, hidden=hidden)
        check_positive("scale", scale)
        self.dim, self.columns, self.activations = dim, columns, tuple(activations)
        sizes = [dim] + [hidden] * (len(self.activations) - 1) + [columns * dim]
        self.maps = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        with torch.no_grad():
            for p in self.maps.parameters():
                p.div_(scale)

    def prepare(self, dtype: torch.dtype) -> "Prepared":
        """The field with its weights in a dtype, cast once for a whole sequence."""
        maps = cast(Any, self.maps)
        weights = [(m.weight.to(dtype), m.bias.to(dtype)) for m in maps]
        return Prepared(self.dim, self.columns, self.activations, weights)

    def lipschitz_penalty(self) -> Tensor:
        """Σ over the linear maps of (mean norm of a row of W + norm of the bias)."""
        norm = torch.linalg.vector_norm
        maps = cast(Any, self.maps)
        terms = [norm(m.weight, dim=-1).mean() + norm(m.bias) for m in maps]
        return torch.stack(terms).sum()


class Prepared(NamedTuple):
    """What a `Field` is at work."""

    dim: int
    columns: int
    activations: tuple[Activation, ...]
    weights: list[tuple[Tensor, Tensor]]

    def rows(self, h: Tensor) -> Tensor:
        """The rows f_i(h): h (batch, dim) -> (batch, columns, dim)."""
        for (weight, bias), activation in zip(self.weights, self.activations, strict=True):
            h = activation.value(functional.linear(h, weight, bias))
        return h.view(-1, self.columns, self.dim)

    def driven(self, h: Tensor, velocity: Tensor) -> Tensor:
        """Σ_i f_i(h) velocity^i: h (batch, dim), velocity (batch, columns) -> (batch, dim)."""
        return torch.bmm(velocity.unsqueeze(1), self.rows(h)).squeeze(1)

    def bracketed(self, h: Tensor, velocity: Tensor, area: Tensor) -> Tensor:
        """Σ_i velocity^i f_i(h) + Σ_{i<j} area^{ij} [f_i, f_j](h), [f, g] = (Dg) f - (Df) g.

        With area antisymmetric the second sum is Σ_j (Df_j) v_j, v_j = Σ_i area^{ij} f_i: one
        tangent for each row, carried through the layers, instead of one for each pair.

        Args:
            h: (batch, dim).
            velocity: (batch, columns).
            area: (batch, columns, columns), antisymmetric.

        Returns:
            (batch, dim).
        """
        layers = []
        value = h
        for (weight, bias), activation in zip(self.weights, self.activations, strict=True):
            z = functional.linear(value, weight, bias)
            value = activation.value(z)
            layers.append(activation.slope(z, value))
        rows = value.view(-1, self.columns, self.dim)
        tangents = area.mT @ rows
        for (weight, _), slope in zip(self.weights[:-1], layers[:-1], strict=True):
            tangents = functional.linear(tangents, weight) * slope.unsqueeze(1)
        # Row j is wanted along tangent j alone.
        last = self.weights[-1][0].view(self.columns, self.dim, -1)
        moved = torch.bmm(tangents.transpose(0, 1), last.mT).transpose(0, 1)
        moved = moved * layers[-1].view(-1, self.columns, self.dim)
        return (velocity.unsqueeze(-1) * rows + moved).sum(1)
