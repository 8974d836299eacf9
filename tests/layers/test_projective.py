"""Projective layers: direction and norm apart, exact at any length."""

import pytest
import torch
from torch import Tensor

from slicekit import Dense, Diagonal, Projective, SLiCE, State
from tests.layers.reference import (
    INPUTS,
    assert_near,
    every_drive,
    every_initial,
    gradients,
    make_input,
    make_layer,
    run_steps,
)
from tests.market import STRUCTURES, every_structure


def twins(name: str, drive: str, initial: str) -> tuple[SLiCE, SLiCE]:
    """A projective layer and a plain one with the same parameters."""
    plain, projective = (make_layer(name, drive, initial, mode) for mode in ("plain", "projective"))
    projective.load_state_dict(plain.state_dict())
    return plain, projective


def assert_norms_match(name: str, drive: str, initial: str) -> None:
    plain, projective = twins(name, drive, initial)
    x = make_input()
    states, final = projective.trajectory(x)
    assert isinstance(states, Projective)
    expected, last = plain(x, return_state=True)
    logs = expected.norm(dim=-1).log()
    answers = {"direction": states.direction, "log norm": states.log_norm}
    found = answers | gradients(states.log_norm, projective, x)
    unit = expected / expected.norm(dim=-1, keepdim=True)
    assert_near(found, {"direction": unit, "log norm": logs} | gradients(logs, plain, x))
    rebuilt = final["hidden"] * final["log_norm"].exp().unsqueeze(-1)
    assert_near({"hidden": rebuilt}, {"hidden": last["hidden"]})


@every_structure
def test_log_norms_of_every_structure_are_those_of_the_plain_layer(name: str) -> None:
    assert_norms_match(name, "time-and-input", "first-input")


@every_drive
@every_initial
def test_log_norms_of_every_drive_are_those_of_the_plain_layer(drive: str, initial: str) -> None:
    assert_norms_match("blocks", drive, initial)


@every_structure
def test_outputs_are_unit_vectors(name: str) -> None:
    y = make_layer(name, mode="projective")(make_input())
    torch.testing.assert_close(y.norm(dim=-1), torch.ones(2, 5, dtype=torch.float64))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("factor", [-0.999, 30.0], ids=["dying", "exploding"])
def test_states_far_outside_the_range_of_floats_keep_direction_norm_and_gradient(
    factor: float,
) -> None:
    """h_{l+1} = (1 + factor) h_l for 300 steps: 10^-900 and 10^447 in float32."""
    layer = SLiCE(1, Diagonal(2), projective=True)
    with torch.no_grad():
        layer.A.floating()[0].copy_(torch.tensor([[0.0, 0.0], [40 * factor, 40 * factor]]))
    x = torch.ones(1, 301, 1, requires_grad=True)
    states, final = layer.trajectory(x)
    assert isinstance(states, Projective)
    steps = torch.arange(301.0)
    expected = states.log_norm[0, 0] + steps * torch.tensor(1 + factor).log()
    torch.testing.assert_close(states.log_norm[0], expected, rtol=1e-4, atol=1e-2)
    torch.testing.assert_close(states.direction[0], states.direction[0, :1].expand(301, 2))
    found = gradients(states.direction, layer, x)
    assert all(g.isfinite().all() for g in found.values())
    assert final["hidden"].isfinite().all() and final["log_norm"].isfinite().all()


@pytest.mark.filterwarnings("error")
def test_steps_do_not_overflow_either() -> None:
    layer = SLiCE(INPUTS, Dense(3), projective=True)
    _, state = run_steps(layer, torch.full((1, 60, INPUTS), 1e3))
    assert isinstance(state, State)
    assert state["hidden"].isfinite().all()
    assert state["log_norm"].item() > 60


EULER = ("dense", "diagonal", "blocks", "ragged", "diagonal-dense", "dplr", "sparse-by-density")
EULER += ("unbounded-hadamard-32", "circulant")
"""Structures whose steps are as large as what drives them."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", EULER)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_inputs_may_be_a_million(name: str, padded: bool, dtype: torch.dtype) -> None:
    """In float32, against a plain layer in float64, in values and gradients."""
    torch.manual_seed(0)
    layer = SLiCE(INPUTS, STRUCTURES[name], projective=True)
    plain = SLiCE(INPUTS, STRUCTURES[name]).double()
    plain.load_state_dict(layer.state_dict())
    x = (1e6 * torch.randn(2, 20, INPUTS)).to(dtype)
    lengths = torch.tensor([20, 17]) if padded else None
    h = plain(x.double(), lengths=lengths)
    expected = h / h.norm(dim=-1, keepdim=True)
    tolerance = 1e-3 if dtype is torch.float32 else 2e-2
    y = layer(x, lengths=lengths)
    assert y.dtype is dtype
    found, final = layer.trajectory(x.float(), lengths=lengths)
    assert isinstance(found, Projective)
    for direction in (y, found.direction):
        assert relative_error(direction, expected) < tolerance
    assert relative_error(found.log_norm, h.norm(dim=-1).log()) < tolerance
    weights = torch.randn(expected.shape, dtype=torch.float64)
    wanted = torch.autograd.grad(expected, list(plain.parameters()), weights)
    ways = (y, found.direction) if dtype is torch.float32 else (found.direction,)
    for direction in ways:
        pulled = torch.autograd.grad(direction, list(layer.parameters()), weights.to(direction))
        for got, want in zip(pulled, wanted, strict=True):
            assert relative_error(got, want) < tolerance
    if not padded:
        _, state = run_steps(layer, x.float())
        torch.testing.assert_close(state["hidden"], final["hidden"], rtol=1e-3, atol=1e-3)


def test_a_projective_layer_that_overflows_is_not_told_to_be_projective() -> None:
    layer = SLiCE(INPUTS, Dense(3), projective=True)
    x = torch.full((1, 9, INPUTS), torch.inf)
    with pytest.warns(RuntimeWarning, match=r"finite.*Use an Orthogonal structure or smaller"):
        layer.trajectory(x)
    with pytest.warns(RuntimeWarning, match=r"finite.*Use an Orthogonal structure or smaller"):
        layer(x)


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).detach().norm() / expected.detach().norm())


def test_a_state_of_zero_stays_zero_with_finite_gradients() -> None:
    layer, x = make_layer("blocks", mode="projective"), make_input()
    with torch.no_grad():
        for start in layer.start.parameters():
            start.zero_()
    y = layer(x)
    assert y.count_nonzero() == 0
    assert all(g.isfinite().all() for g in gradients(y, layer, x).values())


def test_affine_and_projective_together_are_refused() -> None:
    with pytest.raises(ValueError, match=r"affine=True with projective=True"):
        SLiCE(INPUTS, Dense(3), affine=True, projective=True)


def test_a_plain_state_can_not_start_a_projective_layer() -> None:
    plain, projective = twins("blocks", "time-and-input", "learned")
    _, state = plain(make_input(), return_state=True)
    with pytest.raises(KeyError, match=r"state has no 'log_norm'; it holds hidden"):
        projective(make_input(), state)
