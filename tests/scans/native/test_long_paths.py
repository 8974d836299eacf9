"""Very many steps: norms that stay, and states beyond the range of single precision."""

import pytest
import torch

from slicekit import (
    Dense,
    Diagonal,
    DirectSum,
    Euler,
    JointDPLR,
    Native,
    Orthogonal,
    Projective,
    Recurrent,
    Tabulated,
    solve,
)
from slicekit.scans import Scan
from tests.market import make_parameters
from tests.scans.native.problems import needs_library
from tests.scans.problems import Answers, assert_near

STEPS = 20_000


@needs_library
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("kind", ["increments", "tokens"])
@pytest.mark.parametrize("block", [2, 3, 4, 5])
def test_rotations_keep_every_norm_over_very_many_equal_steps(
    block: int, kind: str, columns: int
) -> None:
    structure = DirectSum(Orthogonal(3 * block, block), Diagonal(1))
    parameters = {k: x.float() for k, x in make_parameters(structure).items()}
    parameters["part1_values"] = torch.zeros(3, 1)
    state, increment = torch.randn(2, 3 * block + 1, columns), torch.randn(1, 3)
    path = increment.expand(2, STEPS, 3)
    tokens = Tabulated(increment, torch.zeros(2, STEPS, dtype=torch.int64))
    states, _ = solve(
        structure, parameters, tokens if kind == "tokens" else path, state, scan=Native()
    )
    blocks = states[:, :, :-1].unflatten(2, (3, block)).double().norm(dim=3)
    before = state[:, :-1].unflatten(1, (3, block)).double().norm(dim=2).unsqueeze(1)
    assert (blocks / before - 1).abs().max() < 1e-5
    assert (states[:, :, -1] == state[:, None, -1]).all()


@needs_library
@pytest.mark.parametrize(
    ("drift", "tokens"), [(0.3, False), (-0.3, True)], ids=["exploding", "vanishing-tokens"]
)
def test_projective_states_outlive_the_range_of_single_precision(
    drift: float, tokens: bool
) -> None:
    steps, structure = 3000, DirectSum(Dense(7), JointDPLR(4, 1))
    parameters = {k: x.float() * 0.1 for k, x in make_parameters(structure).items()}
    parameters["part0_blocks"][0] = drift * torch.eye(7) + 0.2 / 7  # one direction ahead
    parameters["part1_diagonal"][0] = drift
    table = torch.cat([torch.ones(50, 1), torch.randn(50, 2)], -1)
    index, state = torch.randint(0, 50, (1, steps)), torch.randn(1, 11)
    weights = torch.randn(1, steps, 11).double()

    def found(scan: Scan, dtype: torch.dtype) -> Answers:
        leaves = {k: x.to(dtype).requires_grad_() for k, x in parameters.items()}
        rows = table.to(dtype).requires_grad_()
        path = Tabulated(rows, index) if tokens else rows[index]
        h, last = solve(structure, leaves, path, Projective.of(state.to(dtype)), Euler(), scan)
        loss = (weights * h.direction).sum() + h.log_norm.double().sum() / steps
        gradients = torch.autograd.grad(loss, (*leaves.values(), rows))
        named = {f"gradient {i}": x for i, x in enumerate(gradients)}
        values = {"direction": h.direction, "log_norm": h.log_norm, "last": last.direction}
        return {k: x.detach() for k, x in (values | named).items()}

    single, double = found(Native(), torch.float32), found(Recurrent(), torch.float64)
    assert double["log_norm"].abs().max() > 250  # float32 ends at exp(88)
    assert_near(single, double, 1e-4)
