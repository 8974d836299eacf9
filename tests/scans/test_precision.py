"""Half precision and autocast: computed in float32, returned in the increments' dtype.

And how far an exponential that all but forgets is from exact.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from slicekit import (
    Associative,
    BlockDiagonal,
    Chunked,
    Diagonal,
    Exponential,
    Projective,
    Recurrent,
    Tabulated,
    solve,
)
from slicekit.scans import Scan
from slicekit.structures import Generator, Parameters, Structure
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


FORGETTING = [-1.0, -4.0, -8.0, -12.0, -15.0, -18.0, -30.0, -60.0]
FEW = 4
EPS = torch.finfo(torch.float32).eps


@dataclass(frozen=True)
class OwnBlocks(BlockDiagonal):
    """No kernel knows them; by tokens, one is given exp(A) - I."""

    def combine(self, parameters: Parameters, increments: Tensor) -> Generator:
        return super().combine(parameters, increments)


BLOCKS: list[Structure] = [Diagonal(6), BlockDiagonal(6, 3), OwnBlocks(6, 3)]


def one_step(structure: Structure, leaves: list[Tensor], run: Callable) -> list[Tensor]:
    """h, and the gradients of the product of h with given numbers in A, Δω and h_0."""
    a, table, start, weights = leaves
    trained = [x.clone().requires_grad_() for x in (a, table, start)]
    h = run(structure, *trained)
    gradients = torch.autograd.grad((h * weights).sum(), trained)
    return [h.detach().double(), *(g.double() for g in gradients)]


def by_dense(structure: Structure, a: Tensor, table: Tensor, h: Tensor) -> Tensor:
    (name,) = structure.blank(1)
    dense = structure.combine({name: a}, table[:1]).as_dense()
    return (torch.matrix_exp(dense) @ h.unsqueeze(-1)).squeeze(-1)


def by_scan(scan: Scan | None, tokens: bool) -> Callable:
    def run(structure: Structure, a: Tensor, table: Tensor, h: Tensor) -> Tensor:
        (name,) = structure.blank(1)
        path = Tabulated(table, torch.zeros(4, 1, dtype=torch.int64))
        steps = path if tokens else path.dense()
        return solve(structure, {name: a}, steps, h, Exponential(), scan)[1]

    return run


def rates(structure: Structure, coupled: bool) -> Tensor:
    """One matrix near the unit matrix, or that itself."""
    (start,) = structure.init(1, torch.Generator().manual_seed(2)).values()
    unit = torch.eye(start.shape[-1]).expand(start.shape) if start.ndim > 2 else 0 * start + 1
    return unit + 0.05 * coupled * start


@pytest.mark.parametrize("tokens", [False, True], ids=["steps", "tokens"])
@pytest.mark.parametrize("rate", FORGETTING)
@pytest.mark.parametrize("structure", BLOCKS, ids=lambda structure: type(structure).__name__)
def test_an_exponential_errs_by_a_few_roundings_of_the_state_it_moves(
    structure: Structure, rate: float, tokens: bool
) -> None:
    random = torch.Generator().manual_seed(1)
    start, weights = (torch.rand(4, 6, generator=random) * 2 - 1 for _ in range(2))
    leaves = [rates(structure, True), torch.full((1, 1), rate), start, weights]
    expected = one_step(structure, [x.double() for x in leaves], by_dense)
    found = one_step(structure, leaves, by_scan(None, tokens))
    sizes = [1.0, 4 * abs(rate), 4 * 6, 1.0]  # of h and of sums of products with it
    for ours, theirs, size in zip(found, expected, sizes, strict=True):
        assert (ours - theirs).abs().max() <= FEW * EPS * size


@every_scan
@pytest.mark.parametrize("rate", FORGETTING)
@pytest.mark.parametrize("structure", BLOCKS, ids=lambda structure: type(structure).__name__)
def test_scans_in_torch_keep_what_an_exponential_leaves(
    structure: Structure, rate: float, scan: Scan
) -> None:
    start = torch.rand(4, 6, generator=torch.Generator().manual_seed(1)) + 0.5
    leaves = [rates(structure, False), torch.full((1, 1), rate), start, start]
    expected = one_step(structure, [x.double() for x in leaves], by_dense)
    found = one_step(structure, leaves, by_scan(scan, False))
    for place in (0, 3):
        error = (found[place] - expected[place]).abs()
        assert (error <= FEW * EPS * expected[place].abs()).all()
