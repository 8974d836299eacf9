"""Projective states: right in direction and log-norm at lengths where plain states are lost."""

import numpy as np
import pytest
import torch
from torch import Tensor

from slicekit import Chunked, Dense, Euler, Projective, Recurrent, Tabulated, solve
from slicekit.scans.projective import normalise
from slicekit.structures import Parameters

DIM, LONG = 8, 100_000


def drifting(drift: float) -> Parameters:
    """A constant channel that grows or decays at a rate, one direction ahead; and two that mix.

    Without the gap between the growth rates the direction would be ill-conditioned in itself.
    """
    blocks = torch.randn(3, 1, DIM, DIM) * 0.2 / DIM**0.5
    blocks[0] = drift * torch.eye(DIM) + 0.2 / DIM
    return {"blocks": blocks}


def one_by_one(parameters: Parameters, increments: Tensor, state: Tensor) -> tuple:
    """Directions and log-norms (length, dim) and (length,), by dense matrices in float64."""
    a = torch.tensordot(increments.double(), parameters["blocks"].squeeze(1).double(), 1)
    matrices = (torch.eye(DIM).double() + a).numpy()
    direction, log_norm = state.double().numpy(), 0.0
    directions, log_norms = np.empty((len(matrices), DIM)), np.empty(len(matrices))
    for step, matrix in enumerate(matrices):
        direction = matrix @ direction
        norm = np.sqrt(direction @ direction)
        direction, log_norm = direction / norm, log_norm + np.log(norm)
        directions[step], log_norms[step] = direction, log_norm
    return torch.from_numpy(directions), torch.from_numpy(log_norms)


@pytest.mark.parametrize("drift", [0.3, -0.3], ids=["exploding", "vanishing"])
def test_no_length_makes_a_projective_state_explode_or_vanish(drift: float) -> None:
    structure, parameters = Dense(DIM), drifting(drift)
    increments = torch.cat([torch.ones(1, LONG, 1), torch.randn(1, LONG, 2)], -1)
    state = torch.randn(1, DIM)
    plain, _ = solve(structure, parameters, increments[:, :1000], state, Euler(), Chunked())
    lost = plain[:, -1].abs()
    assert (~lost.isfinite() if drift > 0 else lost < torch.finfo(lost.dtype).tiny).all()

    states, last = solve(
        structure, parameters, increments, Projective.of(state), Euler(), Chunked()
    )
    directions, log_norms = one_by_one(parameters, increments[0], state[0])
    assert states.direction.isfinite().all()
    assert (states.direction[0] - directions).norm(dim=-1).max() < 1e-4
    errors = (states.log_norm[0] - log_norms).abs() / log_norms.abs().clamp_min(1)
    assert errors.max() < 1e-4
    assert torch.equal(last.direction, states.direction[:, -1])
    assert torch.equal(last.log_norm, states.log_norm[:, -1])


@pytest.mark.parametrize("drift", [0.3, -0.3], ids=["exploding", "vanishing"])
def test_tokens_keep_a_projective_state_as_well(drift: float) -> None:
    structure, parameters = Dense(DIM), drifting(drift)
    table = torch.tensor([[1.0, 2.0, -1.0], [1.0, -1.0, 0.5]])
    index = torch.randint(-1, 2, (1, LONG // 10))
    state = torch.randn(1, DIM)
    start = Projective.of(state)
    states, _ = solve(structure, parameters, Tabulated(table, index), start, Euler(), Chunked())
    dense = Tabulated(table, index).dense()[0]
    directions, log_norms = one_by_one(parameters, dense, state[0])
    assert (states.direction[0] - directions).norm(dim=-1).max() < 1e-4
    errors = (states.log_norm[0] - log_norms).abs() / log_norms.abs().clamp_min(1)
    assert errors.max() < 1e-4


@pytest.mark.parametrize("drift", [0.3, -0.3], ids=["exploding", "vanishing"])
def test_gradients_stay_those_of_double_precision(drift: float) -> None:
    structure, parameters = Dense(DIM), drifting(drift)
    increments = torch.cat([torch.ones(1, 700, 1), torch.randn(1, 700, 2)], -1)
    state, weights = torch.randn(1, DIM), torch.randn(1, 700, DIM)
    gradients = []
    for dtype, scan in ((torch.float32, Chunked()), (torch.float64, Recurrent())):
        moved = {k: x.to(dtype).requires_grad_() for k, x in parameters.items()}
        path = increments.to(dtype).requires_grad_()
        start = Projective.of(state.to(dtype))
        states, _ = solve(structure, moved, path, start, Euler(), scan)
        loss = (weights.to(dtype) * states.direction).sum() + states.log_norm.sum()
        gradients.append(torch.autograd.grad(loss, (moved["blocks"], path)))
    for single, double in zip(*gradients, strict=True):
        assert (single - double).norm() < 1e-4 * double.norm()


def test_of_takes_a_state_apart() -> None:
    state = torch.randn(3, 5, 2).double()
    matrix = Projective.of(state, matrix=True)
    assert matrix.direction.shape == (3, 5, 2)
    assert matrix.log_norm.shape == (3, 2)
    torch.testing.assert_close(matrix.direction.norm(dim=1), torch.ones(3, 2).double())
    torch.testing.assert_close(matrix.log_norm.exp().unsqueeze(1) * matrix.direction, state)
    vector = Projective.of(state[..., 0])
    torch.testing.assert_close(vector.direction, matrix.direction[..., 0])
    torch.testing.assert_close(vector.log_norm, matrix.log_norm[..., 0])


def test_a_state_of_zeros_stays_zero_and_finite() -> None:
    structure = Dense(DIM)
    state = torch.zeros(2, DIM)
    state[1] = 1
    for scan in (Recurrent(), Chunked()):
        state = state.detach().requires_grad_()
        increments = torch.randn(2, 20, 3, requires_grad=True)
        start = Projective.of(state)
        states, _ = solve(structure, drifting(0.1), increments, start, Euler(), scan)
        assert (states.direction[0] == 0).all()
        assert states.log_norm.isfinite().all()
        gradients = torch.autograd.grad(states.direction.sum(), (increments, state))
        assert all(x.isfinite().all() for x in gradients)


@pytest.mark.parametrize("size", [1e-30, 1e-18, 1e18, 1e30])
def test_states_near_the_ends_of_single_precision_are_taken_apart(size: float) -> None:
    state = torch.randn(4, DIM, 2)
    direction, log_norm = normalise(state * size)
    expected, middle = normalise(state.double())
    torch.testing.assert_close(direction.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(log_norm.double(), middle + np.log(size), rtol=1e-5, atol=1e-5)


def test_the_log_norm_that_is_passed_in_is_carried_on() -> None:
    structure, parameters = Dense(DIM), drifting(0.1)
    increments, state = torch.randn(2, 12, 3), torch.randn(2, DIM)
    start = Projective.of(state)
    far = Projective(start.direction * 3, start.log_norm + 1000)
    near, _ = solve(structure, parameters, increments, start, scan=Chunked())
    states, _ = solve(structure, parameters, increments, far, scan=Chunked())
    torch.testing.assert_close(states.direction, near.direction)
    torch.testing.assert_close(states.log_norm, near.log_norm + 1000 + np.log(3))
