"""Fields and their brackets against torch.func, in value and gradient."""

import pytest
import torch
from torch import Tensor
from torch.func import jacrev, vmap

from slicekit.mixers.fields import IDENTITY, RELU, SILU, TANH, Activation, Field

DIM, COLUMNS, BATCH = 4, 3, 2


@pytest.mark.parametrize("activation", [RELU, SILU, TANH, IDENTITY])
def test_slopes_of_activations_are_their_derivatives(activation: Activation) -> None:
    z = torch.linspace(-4, 4, 20, dtype=torch.float64, requires_grad=True)
    value = activation.value(z)
    (expected,) = torch.autograd.grad(value.sum(), z)
    torch.testing.assert_close(activation.slope(z, value), expected)


@pytest.mark.parametrize("activations", [[TANH], [RELU, IDENTITY], [SILU, SILU, TANH]])
def test_brackets_are_differences_of_directional_derivatives(
    activations: list[Activation],
) -> None:
    torch.manual_seed(0)
    field = Field(DIM, COLUMNS, 5, activations).double()
    own = field.prepare(torch.float64)
    h = torch.randn(BATCH, DIM, dtype=torch.float64, requires_grad=True)
    velocity = torch.randn(BATCH, COLUMNS, dtype=torch.float64, requires_grad=True)
    upper = torch.randn(BATCH, COLUMNS, COLUMNS, dtype=torch.float64).triu(1).requires_grad_()

    rows, jacobians = own.rows(h), vmap(jacrev(lambda h: own.rows(h)[0]))(h)

    def along(i: int, j: int) -> Tensor:
        """(Df_j) f_i."""
        return (jacobians[:, j] @ rows[:, i].unsqueeze(-1)).squeeze(-1)

    expected = own.driven(h, velocity)
    for i in range(COLUMNS):
        for j in range(i + 1, COLUMNS):
            expected = expected + upper[:, i, j, None] * (along(i, j) - along(j, i))
    found = own.bracketed(h, velocity, upper - upper.mT)
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(found)
    inputs = [h, velocity, *field.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs, weight, allow_unused=True, materialize_grads=True),
        torch.autograd.grad(expected, inputs, weight, allow_unused=True, materialize_grads=True),
    )


def test_weights_are_divided_at_the_start() -> None:
    torch.manual_seed(0)
    plain = Field(DIM, COLUMNS, 5, [SILU, TANH])
    torch.manual_seed(0)
    small = Field(DIM, COLUMNS, 5, [SILU, TANH], scale=10.0)
    for a, b in zip(plain.parameters(), small.parameters(), strict=True):
        torch.testing.assert_close(a, 10 * b)
