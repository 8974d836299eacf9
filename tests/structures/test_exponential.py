"""The matrix exponential and the action of exponentials, against torch.matrix_exp."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from slicekit import DPLR, JointDPLR, Sparse, WalshHadamard
from slicekit.structures import Generator
from slicekit.structures.exponential import (
    MAX_SUBSTEPS,
    ExponentialAction,
    exponential_action,
    matrix_exponential,
)
from tests.market import CHANNELS, make_parameters
from tests.operator_checks import check_operators

NORMS = [0.0, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.51, 1.0, 3.0, 10.0, 50.0]


def of_norm(norm: float, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Random matrices whose largest row sum is the given one."""
    a = torch.randn(shape, dtype=dtype)
    return a * norm / a.abs().sum(-1).amax((-1,), keepdim=True).unsqueeze(-1)


def assert_relatively_near(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    """To rounding of the result, or of the identity where the result is smaller."""
    size = torch.linalg.matrix_norm(expected).clamp_min(1)
    assert (torch.linalg.matrix_norm(actual - expected) / size).max() < tolerance


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["real", "complex"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("norm", NORMS)
def test_it_is_the_exponential(norm: float, size: int, dtype: torch.dtype) -> None:
    a = of_norm(norm, 5, size, size, dtype=dtype)
    assert_relatively_near(matrix_exponential(a), torch.matrix_exp(a), 1e-13 * max(1, 10 * norm))


@pytest.mark.parametrize("norm", NORMS)
def test_it_is_the_exponential_in_single_precision(norm: float) -> None:
    a = of_norm(norm, 5, 4, 4).float()
    expected = torch.matrix_exp(a.double())
    assert_relatively_near(matrix_exponential(a).double(), expected, 1e-6 * max(1, 3 * norm))


def test_small_matrices_beside_large_ones_lose_no_digits() -> None:
    a = torch.stack([of_norm(norm, 4, 4) for norm in NORMS])
    exponential = matrix_exponential(a)
    assert_relatively_near(exponential, torch.matrix_exp(a), 1e-11)
    for i, norm in enumerate(NORMS):
        if 0 < norm <= 1e-3:
            moved = exponential[i] - torch.eye(4).double()
            first_order = torch.linalg.matrix_norm(a[i])
            assert torch.linalg.matrix_norm(moved - a[i] - a[i] @ a[i] / 2) < max(
                first_order**3, 1e-15
            )


def test_rotations_are_rotations_and_nilpotents_are_polynomials() -> None:
    angle = torch.tensor(2.5).double()
    turn = torch.tensor([[0.0, -2.5], [2.5, 0.0]]).double()
    expected = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2)
    torch.testing.assert_close(matrix_exponential(turn), expected)
    shift = torch.diag(torch.ones(3), 1).double()
    series = torch.eye(4).double() + shift + shift @ shift / 2 + shift @ shift @ shift / 6
    torch.testing.assert_close(matrix_exponential(shift), series)


@pytest.mark.parametrize("norm", [0.0, 0.3, 4.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["real", "complex"])
def test_both_derivatives_are_those_of_finite_differences(norm: float, dtype: torch.dtype) -> None:
    a = of_norm(norm, 1, 3, 3, dtype=dtype).requires_grad_()
    assert torch.autograd.gradcheck(matrix_exponential, a)
    assert torch.autograd.gradgradcheck(matrix_exponential, a)


def second_derivative(a: Tensor, scale: float = 1.0) -> Tensor:
    """Of the loss |exp(A)|², through the square of its gradient, which comes multiplied."""
    a = a.detach().requires_grad_()
    loss = scale * matrix_exponential(a).square().sum()
    (first,) = torch.autograd.grad(loss, a, create_graph=True)
    return torch.autograd.grad((first / scale).square().sum(), a)[0]


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 1.0, 65536.0])
@pytest.mark.parametrize("autocast", [False, True], ids=["", "autocast"])
def test_second_derivatives_keep_their_digits_at_any_scale(scale: float, autocast: bool) -> None:
    a = torch.randn(2, 4, 4)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        actual = second_derivative(a, scale).double()
    expected = second_derivative(a.double())
    assert (actual - expected).abs().max() < 3e-6 * expected.abs().max()


def test_second_derivatives_are_mapped_and_recorded() -> None:
    def second(exponential: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        loss = torch.func.grad(lambda a: exponential(a).square().sum())
        return torch.func.grad(lambda a: loss(a).square().sum())

    a = torch.stack([of_norm(norm, 3, 3) for norm in (0.1, 3.0, 10.0)])
    expected = second(torch.matrix_exp)(a)
    torch.testing.assert_close(torch.func.vmap(second(matrix_exponential))(a), expected)
    recorded = make_fx(second(matrix_exponential))(torch.zeros_like(a))
    torch.testing.assert_close(recorded(a), expected)
    assert second_derivative(a.to("meta")).shape == a.shape


def test_gradients_of_mixed_norms_are_those_of_torch() -> None:
    a = torch.stack([of_norm(norm, 4, 4) for norm in NORMS]).requires_grad_()
    weights = torch.randn_like(a)
    (actual,) = torch.autograd.grad((weights * matrix_exponential(a)).sum(), a)
    (expected,) = torch.autograd.grad((weights * torch.matrix_exp(a)).sum(), a)
    errors = torch.linalg.matrix_norm(actual - expected) / torch.linalg.matrix_norm(expected)
    assert errors.max() < 1e-10


def test_any_leading_axes_and_strides() -> None:
    a = torch.randn(2, 3, 4, 5, 4).double().transpose(2, 3)
    torch.testing.assert_close(matrix_exponential(a), torch.matrix_exp(a.contiguous()))
    assert matrix_exponential(a[:0]).shape == (0, 3, 5, 4, 4)


def test_infinite_and_missing_numbers_come_out_as_such() -> None:
    for bad in (torch.nan, torch.inf):
        a = torch.zeros(1, 2, 2).double()
        a[0, 0, 0] = bad
        assert not matrix_exponential(a).isfinite().all()


def test_it_maps_and_differentiates_under_torch_func() -> None:
    a = torch.randn(5, 3, 3).double()
    torch.testing.assert_close(torch.func.vmap(matrix_exponential)(a), torch.matrix_exp(a))
    moved = torch.func.vmap(matrix_exponential, in_dims=2, out_dims=2)(a.movedim(0, 2))
    torch.testing.assert_close(moved, torch.matrix_exp(a).movedim(0, 2))

    def loss(a: Tensor, exponential=matrix_exponential) -> Tensor:
        return exponential(a).square().sum()

    expected = torch.func.vmap(torch.func.grad(lambda a: loss(a, torch.matrix_exp)))(a)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(a), expected)
    jacobian = torch.func.jacrev(matrix_exponential)(a[0])
    torch.testing.assert_close(jacobian, torch.func.jacrev(torch.matrix_exp)(a[0]))


def test_it_compiles_whole() -> None:
    torch.compiler.reset()
    compiled = torch.compile(matrix_exponential, fullgraph=True, backend="aot_eager")
    a = torch.randn(5, 3, 3).double().requires_grad_()
    torch.testing.assert_close(compiled(a.detach()), torch.matrix_exp(a.detach()))
    torch.testing.assert_close(compiled(a), torch.matrix_exp(a))
    (actual,) = torch.autograd.grad(compiled(a).square().sum(), a)
    (expected,) = torch.autograd.grad(torch.matrix_exp(a).square().sum(), a)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128], ids=str)
def test_the_operators_are_well_formed(dtype: torch.dtype) -> None:
    a = torch.randn(5, 3, 3, dtype=dtype)
    for x in (a, a.mT):
        moved = x.detach().requires_grad_()
        check_operators(lambda x=moved: matrix_exponential(x).abs().sum().backward())


OPEN = {
    "dplr": DPLR(6, 2),
    "joint-dplr": JointDPLR(6, 2),
    "sparse": Sparse(6, density=0.4),
    "hadamard": WalshHadamard(8, bounded=False),
}


def generator_of_norm(name: str, norm: float, dtype: torch.dtype) -> Generator:
    """A generator whose spectral norm is the given one."""
    structure = OPEN[name]
    parameters = make_parameters(structure)
    increments = torch.randn(2, 2, CHANNELS).double()
    for _ in range(60):
        dense = structure.combine(parameters, increments).as_dense()
        largest = torch.linalg.matrix_norm(dense, 2).max()
        if abs(largest / norm - 1) < 1e-6:
            break
        # A joint structure is quadratic in part: Newton's step for either power.
        increments = increments * (norm / largest) ** (0.6 if name == "joint-dplr" else 1)
    generator = structure.combine(parameters, increments)
    return generator.with_tensors(tuple(x.to(dtype) for x in generator.tensors()))


@pytest.mark.parametrize("norm", [1e-6, 1e-3, 0.1, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("name", OPEN)
def test_the_action_is_that_of_the_exponential(name: str, norm: float) -> None:
    generator = generator_of_norm(name, norm, torch.float64)
    dense = torch.matrix_exp(generator.as_dense())
    action = generator.exponential()
    assert isinstance(action, ExponentialAction)
    state = torch.randn(2, 2, generator.dim, 3).double()
    size = torch.linalg.matrix_norm(dense, 2)[..., None, None] * state.norm()
    assert ((action.act(state) - dense @ state).abs() / size).max() < 1e-13 * max(1, norm)
    assert ((action.adjoint().act(state) - dense.mT @ state).abs() / size).max() < 1e-13 * max(
        1, norm
    )


@pytest.mark.parametrize("name", OPEN)
def test_the_action_is_exact_in_single_precision(name: str) -> None:
    generator = generator_of_norm(name, 3.0, torch.float32)
    dense = torch.matrix_exp(generator.as_dense().double())
    state = torch.randn(2, 2, generator.dim, 3)
    error = (generator.exponential().act(state) - dense @ state.double()).abs().max()
    assert error < 1e-6 * (torch.linalg.matrix_norm(dense, 2).max() * state.norm())


def test_more_substeps_change_nothing() -> None:
    generator = generator_of_norm("dplr", 2.0, torch.float64)
    state = torch.randn(2, 2, 6, 1).double()
    exact = torch.matrix_exp(generator.as_dense()) @ state
    for substeps in (2, 5, 20):
        torch.testing.assert_close(exponential_action(generator, substeps).act(state), exact)


def test_generators_too_large_to_exponentiate_are_refused() -> None:
    structure = WalshHadamard(4, bounded=False)
    huge = structure.combine({"values": torch.full((1, 4), 2.0 * MAX_SUBSTEPS)}, torch.ones(1))
    with pytest.raises(ValueError, match=r"norm 2e\+04, too large .*scale the increments down$"):
        huge.exponential()


def test_missing_numbers_come_out_of_the_action_as_such() -> None:
    structure = WalshHadamard(4, bounded=False)
    generator = structure.combine({"values": torch.full((1, 4), torch.nan)}, torch.ones(1))
    assert generator.exponential().act(torch.ones(4, 1)).isnan().all()


def test_pure_decay_keeps_its_digits() -> None:
    decay = -20 * torch.eye(3) + 0.1 * torch.randn(5, 3, 3)
    expected = torch.matrix_exp(decay.double())
    error = torch.linalg.matrix_norm(matrix_exponential(decay).double() - expected)
    assert (error <= 1e-5 * torch.linalg.matrix_norm(expected)).all()
