"""The Log-ODE method against its definition, exact flows, and the dense form of every structure."""

import math

import pytest
import torch
from torch import Tensor

import slicekit as sk
from slicekit import flows
from slicekit.paths import LieBasis, hall
from slicekit.structures import Structure

STRUCTURES: dict[str, Structure] = {
    "dense": sk.Dense(4),
    "diagonal": sk.Diagonal(4),
    "blocks": sk.BlockDiagonal(4, 2),
    "ragged blocks": sk.BlockDiagonal(blocks=[1, 3]),
    "diagonal-dense": sk.DiagonalDense(4, 2),
    "orthogonal": sk.Orthogonal(4, 2, angle=0.5),
    "dplr": sk.DPLR(4, 1),
    "sparse": sk.Sparse(4, density=0.7),
    "hadamard": sk.WalshHadamard(4),
    "sum": sk.DirectSum(sk.Diagonal(1), sk.WalshHadamard(2), sk.Orthogonal(2, 2)),
}
KEPT = {"dense", "diagonal", "blocks", "ragged blocks", "diagonal-dense", "orthogonal"}

each_structure = pytest.mark.parametrize("name", STRUCTURES)
pytestmark = pytest.mark.filterwarnings("ignore:LogODE.*brackets leave this structure")


def _parameters(structure: Structure, channels: int, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    found = structure.init(channels, generator)
    return {n: x.double() if x.is_floating_point() else x for n, x in found.items()}


def _path(batch: int, length: int, channels: int, size: float, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return size * torch.randn(batch, length, channels, generator=generator, dtype=torch.float64)


def _matrices(structure: Structure, parameters: dict[str, Tensor], channels: int) -> Tensor:
    return structure.combine(parameters, torch.eye(channels, dtype=torch.float64)).as_dense()


def _commutators(matrices: Tensor, basis: LieBasis) -> Tensor:
    def matrix(element) -> Tensor:
        if isinstance(element, int):
            return matrices[element]
        a, b = (matrix(part) for part in element)
        return b @ a - a @ b

    return torch.stack([matrix(element) for element in basis.elements])


@each_structure
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_brackets_are_those_of_the_dense_matrices(name: str, depth: int) -> None:
    structure, basis = STRUCTURES[name], hall(3, depth)
    parameters = _parameters(structure, 3)
    lifted = structure.lift(depth)
    own = structure.lift_parameters(parameters, basis)
    found = lifted.combine(own, torch.eye(basis.size, dtype=torch.float64)).as_dense()
    wanted = _commutators(_matrices(structure, parameters, 3), basis)
    torch.testing.assert_close(found, wanted)


@each_structure
def test_structure_is_kept_where_it_is_closed_under_brackets(name: str) -> None:
    structure = STRUCTURES[name]
    assert (structure.lift(2) is structure) == (name in KEPT)
    assert structure.lift(1) is structure


def test_a_sum_keeps_the_parts_that_are_closed() -> None:
    lifted = STRUCTURES["sum"].lift(2)
    assert isinstance(lifted, sk.DirectSum)
    assert [type(part) for part in lifted.parts] == [sk.Diagonal, sk.Dense, sk.Orthogonal]


@each_structure
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_any_structure_moves_as_its_dense_matrices_do(name: str, depth: int) -> None:
    structure = STRUCTURES[name]
    parameters, path = _parameters(structure, 2), _path(2, 7, 2, 0.4)
    dense = {"blocks": _matrices(structure, parameters, 2).unsqueeze(1)}
    dim = structure.dim
    start = torch.ones(2, dim, dtype=torch.float64)
    flow = sk.LogODE(depth, window=3)
    found, last = sk.solve(structure, parameters, path, start, flow)
    wanted, _ = sk.solve(sk.Dense(dim), dense, path, start, flow)
    assert found.shape == (2, 3, dim)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(last, found[:, -1])


def test_one_window_is_the_exponential_of_the_bracketed_log_signature() -> None:
    """Depth 2 by its formulas: increments, and Lévy areas with [a, b] = b a - a b."""
    matrices, path = _path(1, 3, 2, 1.0).reshape(3, 2)[:2], _path(1, 5, 2, 0.5)
    a = torch.stack([torch.outer(matrices[0], matrices[1]), torch.outer(matrices[1], matrices[0])])
    steps = path[0]
    before = steps.cumsum(0) - steps
    area = 0.5 * (before[:, 0] * steps[:, 1] - before[:, 1] * steps[:, 0]).sum()
    moved = steps.sum(0)
    field = moved[0] * a[0] + moved[1] * a[1] + area * (a[1] @ a[0] - a[0] @ a[1])
    start = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    _, last = sk.solve(sk.Dense(2), {"blocks": a.unsqueeze(1)}, path, start, sk.LogODE(2, window=5))
    torch.testing.assert_close(last[0], torch.linalg.matrix_exp(field) @ start[0])


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_error_of_a_window_has_the_order_of_the_depth(depth: int) -> None:
    """Against the exact solution of a piecewise linear path, which is a product of exponentials."""
    parameters = _parameters(sk.Dense(3), 2)
    start = torch.ones(1, 3, dtype=torch.float64)
    errors = []
    for size in (0.04, 0.02):
        path = _path(1, 6, 2, size)
        _, exact = sk.solve(sk.Dense(3), parameters, path, start, sk.Exponential())
        _, found = sk.solve(sk.Dense(3), parameters, path, start, sk.LogODE(depth, window=6))
        errors.append(float((found - exact).norm()))
    assert math.log2(errors[0] / errors[1]) == pytest.approx(depth + 1, abs=0.25)


@pytest.mark.parametrize("depth", [2, 3])
def test_smooth_paths_converge_with_the_order_of_the_depth(depth: int) -> None:
    """With windows half as long the error falls by 2^depth: a fine solve is the reference."""
    parameters = _parameters(sk.Dense(3), 2)
    t = torch.linspace(0, 1, 961, dtype=torch.float64)
    path = torch.stack([torch.sin(3 * t), torch.cos(5 * t)], -1).diff(dim=0).unsqueeze(0)
    start = torch.ones(1, 3, dtype=torch.float64)
    _, exact = sk.solve(sk.Dense(3), parameters, path, start, sk.Exponential())
    errors = []
    for window in (60, 30):
        _, found = sk.solve(sk.Dense(3), parameters, path, start, sk.LogODE(depth, window))
        errors.append(float((found - exact).norm()))
    assert math.log2(errors[0] / errors[1]) > depth - 0.4


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_exact_for_nilpotent_fields(depth: int) -> None:
    """Products of more than `depth` strictly triangular matrices of that size vanish."""
    dim = depth + 1
    blocks = _path(1, 3, dim * dim, 1.0).reshape(3, dim, dim).triu(1)
    parameters, path = {"blocks": blocks.unsqueeze(1)}, _path(2, 9, 3, 1.0)
    start = torch.ones(2, dim, dtype=torch.float64)
    _, exact = sk.solve(sk.Dense(dim), parameters, path, start, sk.Exponential())
    _, found = sk.solve(sk.Dense(dim), parameters, path, start, sk.LogODE(depth, window=9))
    torch.testing.assert_close(found, exact)
    if depth > 1:
        _, rough = sk.solve(sk.Dense(dim), parameters, path, start, sk.LogODE(depth - 1, 9))
        assert not torch.allclose(rough, exact)


def test_diagonal_structures_need_no_brackets() -> None:
    structure, path = sk.Diagonal(4), _path(2, 9, 3, 0.3)
    parameters = _parameters(structure, 3)
    start = torch.ones(2, 4, dtype=torch.float64)
    exact, _ = sk.solve(structure, parameters, path, start, sk.Exponential())
    found, _ = sk.solve(structure, parameters, path, start, sk.LogODE(3, window=4))
    torch.testing.assert_close(found, exact[:, [3, 7, 8]])
    assert sk.LogODE(3, 4).basis(structure, 3).size == 3


def test_first_order_form_is_one_plus_the_field() -> None:
    structure, path = sk.BlockDiagonal(4, 2), _path(1, 4, 2, 0.3)
    parameters = _parameters(structure, 2)
    flow = sk.LogODE(2, 4, sk.Euler())
    exact = sk.LogODE(2, 4).transition(structure, parameters, path).as_dense()
    first = flow.transition(structure, parameters, path).as_dense()
    field = torch.linalg.matrix_exp(first - torch.eye(4))
    torch.testing.assert_close(field, exact)


def test_windows_of_one_step_are_the_inner_flow() -> None:
    structure, path = sk.BlockDiagonal(4, 2), _path(2, 5, 2, 0.3)
    parameters, start = _parameters(structure, 2), torch.ones(2, 4, dtype=torch.float64)
    found, _ = sk.solve(structure, parameters, path, start, sk.LogODE(2, 1))
    exact, _ = sk.solve(structure, parameters, path, start, sk.Exponential())
    torch.testing.assert_close(found, exact)


@pytest.mark.parametrize("scan", [sk.Recurrent(), sk.Chunked(2), sk.Associative(), sk.Native()])
def test_scans_agree(scan) -> None:
    structure, path = sk.BlockDiagonal(4, 2), _path(2, 11, 2, 0.3)
    parameters, start = _parameters(structure, 2), torch.ones(2, 4, dtype=torch.float64)
    wanted, _ = sk.solve(structure, parameters, path, start, sk.LogODE(2, 3))
    found, _ = sk.solve(structure, parameters, path, start, sk.LogODE(2, 3), scan)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", ["blocks", "orthogonal", "dplr"])
def test_gradients(name: str) -> None:
    structure, path = STRUCTURES[name], _path(1, 5, 2, 0.3).requires_grad_()
    parameters = _parameters(structure, 2)
    start = torch.ones(1, 4, dtype=torch.float64, requires_grad=True)
    names = list(parameters)

    def run(path: Tensor, start: Tensor, *tensors: Tensor) -> Tensor:
        own = dict(zip(names, tensors, strict=True))
        return sk.solve(structure, own, path, start, sk.LogODE(2, 3))[0]

    assert torch.autograd.gradcheck(
        run, (path, start, *(parameters[n].requires_grad_() for n in names))
    )


def test_lengths_are_exact() -> None:
    structure, path = sk.BlockDiagonal(4, 2), _path(3, 10, 2, 0.3)
    parameters, start = _parameters(structure, 2), torch.ones(3, 4, dtype=torch.float64)
    flow, lengths = sk.LogODE(2, 3), [10, 4, 0]
    found, last = sk.solve(structure, parameters, path, start, flow, lengths=lengths)
    for row, length in enumerate(lengths[:2]):
        alone, end = sk.solve(structure, parameters, path[row : row + 1, :length], start[:1], flow)
        torch.testing.assert_close(found[row, : alone.shape[1]], alone[0])
        torch.testing.assert_close(last[row], end[0])
    torch.testing.assert_close(last[2], start[2])


def test_projective_states() -> None:
    structure, path = sk.Dense(3), _path(2, 10, 2, 0.3)
    parameters, start = _parameters(structure, 2), torch.ones(2, 3, dtype=torch.float64)
    flow = sk.LogODE(2, 3)
    plain, _ = sk.solve(structure, parameters, path, start, flow)
    found, _ = sk.solve(structure, parameters, path, sk.Projective.of(start), flow)
    torch.testing.assert_close(found.direction * found.log_norm.exp().unsqueeze(-1), plain)


def test_a_dense_substitute_is_announced_once() -> None:
    structure = sk.WalshHadamard(8)
    flows._warn_dense.cache_clear()  # another test may have heard it
    with pytest.warns(UserWarning, match=r"WalshHadamard.*brackets leave.*8² entries"):
        sk.SLiCE(2, structure, flow=sk.LogODE(2, 4))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 4), ValueError, "depth=0; expected at least 1"),
        ((2, 0), ValueError, "window=0; expected at least 1"),
        ((2, 1.5), TypeError, "window=1.5 is a float; expected a whole number"),
    ],
)
def test_bad_sizes_are_named(arguments: tuple, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sk.LogODE(*arguments)


def test_impossible_combinations_are_refused() -> None:
    with pytest.raises(TypeError, match="expected Exponential"):
        sk.LogODE(2, 3, sk.LogODE(1, 2))
    with pytest.raises(ValueError, match="not linear in its increments"):
        sk.SLiCE(2, sk.JointDPLR(4, 1), flow=sk.LogODE(2, 3))
    with pytest.raises(ValueError, match="isometry only under"):
        sk.SLiCE(2, sk.Orthogonal(4, 2), flow=sk.LogODE(2, 3, sk.Euler()))
    with pytest.raises(ValueError, match="affine=True with LogODE"):
        sk.SLiCE(2, sk.Dense(4), flow=sk.LogODE(2, 3), affine=True)
    with pytest.raises(ValueError, match="inputs with LogODE"):
        sk.solve(
            sk.Dense(2),
            sk.Dense(2).init(1),
            torch.zeros(1, 3, 1),
            torch.zeros(1, 2),
            sk.LogODE(2, 3),
            inputs=torch.zeros(1, 3, 2),
        )


def test_joint_dplr_takes_windows_of_depth_one() -> None:
    layer = sk.SLiCE(2, sk.JointDPLR(4, 1), flow=sk.LogODE(1, 3))
    assert layer(torch.randn(2, 10, 2)).shape == (2, 4, 4)
