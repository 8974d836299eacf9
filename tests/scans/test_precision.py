"""Half precision and autocast: computed in float32, returned in the increments' dtype."""

import pytest
import torch

from slicekit import Associative, Chunked, Exponential, Projective, Recurrent, Tabulated, solve
from slicekit.scans import Scan
from tests.market import CHANNELS, STRUCTURES, every_structure, make_parameters

HALVES = [torch.bfloat16, torch.float16]
SCANS: list[Scan] = [Recurrent(), Associative(), Chunked()]

pytestmark = pytest.mark.filterwarnings("ignore:Associative.. composes")
every_scan = pytest.mark.parametrize("scan", SCANS, ids=lambda scan: type(scan).__name__)


@every_scan
@every_structure
def test_autocast_changes_nothing(name: str, scan: Scan) -> None:
    structure = STRUCTURES[name]
    parameters = make_parameters(structure, torch.float32)
    path = torch.randn(2, 6, CHANNELS, requires_grad=True)
    state, inputs = torch.randn(2, structure.dim), torch.randn(2, 6, structure.dim)

    def run() -> torch.Tensor:
        return solve(structure, parameters, path * 0.3, state, scan=scan, inputs=inputs)[0]

    plain = run()
    with torch.autocast("cpu", torch.bfloat16):
        cast = run()
    assert cast.dtype == torch.float32
    assert torch.equal(cast, plain)
    gradients = [torch.autograd.grad(x.square().sum(), path)[0] for x in (cast, plain)]
    assert torch.equal(*gradients)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@every_structure
def test_half_increments_are_computed_in_single_precision(name: str, dtype: torch.dtype) -> None:
    structure = STRUCTURES[name]
    parameters = make_parameters(structure, torch.float32)
    path = (torch.randn(2, 6, CHANNELS) * 0.3).to(dtype).requires_grad_()
    state = torch.randn(2, structure.dim, dtype=dtype)
    states, last = solve(structure, parameters, path, state, scan=Chunked())
    expected, end = solve(structure, parameters, path.float(), state.float(), scan=Chunked())
    assert states.dtype == dtype
    assert last.dtype == torch.float32
    assert torch.equal(states, expected.to(dtype))
    assert torch.equal(last, end)
    (gradient,) = torch.autograd.grad(last.sum(), path)
    (in_single,) = torch.autograd.grad(end.sum(), path)
    assert gradient.dtype == dtype
    torch.testing.assert_close(gradient, in_single)


@every_scan
@pytest.mark.parametrize("name", ["blocks", "joint-dplr", "hadamard-8", "orthogonal-sum"])
def test_half_parameters_are_computed_in_the_increments_precision(name: str, scan: Scan) -> None:
    structure = STRUCTURES[name]
    halves = {k: x.requires_grad_() for k, x in make_parameters(structure, torch.bfloat16).items()}
    path, state = torch.randn(2, 6, CHANNELS) * 0.3, torch.randn(2, structure.dim)
    states, last = solve(structure, halves, path, state, scan=scan)
    floats = {k: x.detach().float().requires_grad_() for k, x in halves.items()}
    expected, end = solve(structure, floats, path, state, scan=scan)
    assert states.dtype == torch.float32
    assert torch.equal(states, expected)
    actual = torch.autograd.grad(last.sum(), list(halves.values()))
    wanted = torch.autograd.grad(end.sum(), list(floats.values()))
    for x, y in zip(actual, wanted, strict=True):
        assert x.dtype == torch.bfloat16
        assert torch.equal(x, y.bfloat16())


@every_scan
def test_a_state_in_single_precision_goes_on_through_half_increments(scan: Scan) -> None:
    structure = STRUCTURES["blocks"]
    parameters = make_parameters(structure, torch.float32)
    path = (torch.randn(2, 8, CHANNELS) * 0.3).bfloat16()
    whole = solve(structure, parameters, path, torch.ones(2, 8), scan=scan)[1]
    middle = solve(structure, parameters, path[:, :3], torch.ones(2, 8), scan=scan)[1]
    end = solve(structure, parameters, path[:, 3:], middle, scan=scan)[1]
    torch.testing.assert_close(end, whole)


def test_half_tables_are_computed_in_single_precision() -> None:
    structure = STRUCTURES["orthogonal-4"]
    parameters = make_parameters(structure, torch.float32)
    tokens = Tabulated(torch.randn(4, CHANNELS).bfloat16(), torch.randint(-1, 4, (2, 9)))
    states, _ = solve(structure, parameters, tokens, torch.ones(2, 8), Exponential())
    expected, _ = solve(structure, parameters, tokens.map(torch.Tensor.float), torch.ones(2, 8))
    assert states.dtype == torch.bfloat16
    assert torch.equal(states, expected.bfloat16())


def test_half_precision_projective_states_keep_their_norm_in_single() -> None:
    structure = STRUCTURES["dense"]
    parameters = make_parameters(structure, torch.float32)
    path = torch.randn(2, 9, CHANNELS).bfloat16()
    states, last = solve(structure, parameters, path, Projective.of(torch.ones(2, 5).bfloat16()))
    expected, _ = solve(structure, parameters, path.float(), Projective.of(torch.ones(2, 5)))
    assert states.direction.dtype == torch.bfloat16
    assert states.log_norm.dtype == last.log_norm.dtype == last.direction.dtype == torch.float32
    torch.testing.assert_close(states.log_norm, expected.log_norm, rtol=1e-2, atol=1e-2)
