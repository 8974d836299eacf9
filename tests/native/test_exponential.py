"""The native matrix exponential against torch.matrix_exp and the identities it should keep."""

import ctypes
import math

import pytest
import torch
from torch import Tensor

from slicekit.native import available, reason
from slicekit.native.exponential import (
    FEW,
    LARGEST,
    LARGEST_OF_FEW,
    Task,
    forward,
    obstacle,
    pullback,
)
from slicekit.native.kernel import function
from slicekit.structures.exponential import matrix_exponential

pytestmark = [
    pytest.mark.skipif(not available(), reason=f"no native library: {reason()}"),
    pytest.mark.usefixtures("poisoned_memory"),
]

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33]
NORMS = [1e-6, 0.03, 0.4, 0.9, 4.0, 50.0]
DTYPES = [torch.float32, torch.float64]
OK, BAD_SIZE, BAD_POINTER, BAD_OPTION, BAD_WORKSPACE = range(5)


def of_norm(norm: float, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Random matrices whose largest row sum is the given one."""
    a = torch.randn(shape, dtype=torch.float64)
    return (a * norm / a.abs().sum(-1).amax(-1)[..., None, None]).to(dtype)


def true_exponential(a: Tensor) -> Tensor:
    """By torch, in double precision."""
    return torch.matrix_exp(a.double())


def true_pullback(a: Tensor, gradient: Tensor) -> Tensor:
    """By torch, in double precision."""
    leaf = a.double().requires_grad_()
    return torch.autograd.grad(torch.matrix_exp(leaf), leaf, gradient.double())[0]


def distance(actual: Tensor, expected: Tensor) -> float:
    """Largest error of a matrix, relative to its own size."""
    error = torch.linalg.matrix_norm(actual.double() - expected)
    return float((error / torch.linalg.matrix_norm(expected)).max())


def tolerance(dtype: torch.dtype, norm: float) -> float:
    """Rounding of the polynomial, and of squarings that double an error each.

    Double precision allows for the rounding of torch too, which has several times the kernels'.
    """
    return torch.finfo(dtype).eps * (8 + 4 * norm) * (2 if dtype == torch.float32 else 16)


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_it_is_the_exponential_and_its_derivative(size: int, dtype: torch.dtype) -> None:
    for norm in NORMS:
        a = of_norm(norm, 17 if size < 16 else 3, size, size, dtype=dtype)
        gradient = torch.randn_like(a)
        assert distance(forward(a), true_exponential(a)) < tolerance(dtype, norm)
        found, expected = pullback(a, gradient), true_pullback(a, gradient)
        assert distance(found, expected) < tolerance(dtype, norm)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 16, 17])
def test_gradcheck(size: int) -> None:
    a = of_norm(3.0, 2, size, size).requires_grad_()
    torch.autograd.gradcheck(matrix_exponential, a, fast_mode=size > 5)


def test_torch_uses_it_where_it_is_the_faster_way() -> None:
    assert not obstacle(torch.zeros(3, 4, 4))
    assert not obstacle(torch.zeros(0, 4, 4))
    assert not obstacle(torch.zeros(FEW, LARGEST, LARGEST))
    assert obstacle(torch.zeros(FEW - 1, LARGEST_OF_FEW + 1, LARGEST_OF_FEW + 1))
    assert obstacle(torch.zeros(FEW, LARGEST + 1, LARGEST + 1))
    assert obstacle(torch.zeros(3, 0, 0))
    assert obstacle(torch.zeros(3, 4, 4, dtype=torch.complex64))
    assert obstacle(torch.zeros(3, 4, 4, device="meta"))
    a = of_norm(2.0, 3, 4, 4, dtype=torch.float32).requires_grad_()
    value = matrix_exponential(a)
    (gradient,) = torch.autograd.grad(value, a, value)
    assert torch.equal(value, forward(a.detach()))
    assert torch.equal(gradient, pullback(a.detach(), value.detach()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_matrices_beside_large_ones_lose_no_digits(dtype: torch.dtype) -> None:
    """The matrices of one lane group share their squarings."""
    a = torch.stack([of_norm(norm, 4, 4, dtype=dtype) for norm in (50.0, *NORMS)])
    gradient = torch.randn_like(a)
    value, found = forward(a), pullback(a, gradient)
    true_value, true_found = true_exponential(a), true_pullback(a, gradient)
    for i, norm in enumerate((50.0, *NORMS)):
        assert distance(value[i], true_value[i]) < tolerance(dtype, 4 + norm)
        assert distance(found[i], true_found[i]) < tolerance(dtype, 4 + norm)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiny_matrices_keep_the_digits_that_the_identity_does_not_hide(dtype: torch.dtype) -> None:
    a = torch.stack([of_norm(50.0, 4, 4, dtype=dtype), of_norm(1e-6, 4, 4, dtype=dtype)])
    a.diagonal(dim1=-2, dim2=-1).zero_()
    tiny = a[1].double()
    series = tiny + tiny @ tiny / 2 + tiny @ tiny @ tiny / 6
    off_diagonal = ~torch.eye(4, dtype=torch.bool)
    error = (forward(a)[1].double() - series)[off_diagonal].abs()
    assert (error / series[off_diagonal].abs()).max() < 16 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 4, 5, 16])
@pytest.mark.parametrize("mean", [-80.0, -20.0, 3.0, 40.0])
def test_growth_and_decay_keep_their_relative_precision(
    mean: float, size: int, dtype: torch.dtype
) -> None:
    a = of_norm(0.7, 5, size, size, dtype=dtype) + mean * torch.eye(size, dtype=dtype)
    rest = a.double() - mean * torch.eye(size)
    gradient, bound = torch.randn_like(a), tolerance(dtype, abs(mean) / 4)
    assert distance(forward(a), math.exp(mean) * true_exponential(rest)) < bound
    expected = math.exp(mean) * true_pullback(rest, gradient)
    assert distance(pullback(a, gradient), expected) < bound


@pytest.mark.parametrize(("dtype", "far"), [(torch.float32, 200.0), (torch.float64, 1500.0)])
def test_decay_of_one_direction_alone_does_not_overflow(dtype: torch.dtype, far: float) -> None:
    a = torch.diag_embed(torch.tensor([[0.0, -far]], dtype=dtype))
    assert torch.allclose(forward(a), torch.diag(torch.tensor([1.0, 0.0], dtype=dtype)), atol=1e-4)
    assert pullback(a, torch.ones_like(a)).isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [2, 3, 8, 9, 16])
def test_exponentials_of_skew_matrices_are_orthogonal(size: int, dtype: torch.dtype) -> None:
    a = of_norm(1.0, 40, size, size, dtype=dtype)
    rotation = forward(a - a.mT)
    error = rotation @ rotation.mT - torch.eye(size, dtype=dtype)
    assert error.abs().max() < 8 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponentials_of_nilpotent_matrices_are_polynomials(dtype: torch.dtype) -> None:
    a = torch.zeros(3, 3, dtype=dtype)
    a[0, 1], a[1, 2] = 3.0, 5.0
    expected = torch.eye(3, dtype=dtype) + a + a @ a / 2
    assert torch.allclose(forward(a), expected, rtol=4 * torch.finfo(dtype).eps, atol=0)


def test_zero_is_sent_to_the_identity_exactly() -> None:
    for size in SIZES:
        assert torch.equal(forward(torch.zeros(2, size, size)), torch.eye(size).expand(2, -1, -1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [2, 5, 8])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("column", [0, -1])
def test_what_is_not_finite_shows_and_stays_in_its_lane(
    column: int, value: float, size: int, dtype: torch.dtype
) -> None:
    sound = of_norm(2.0, 5, size, size, dtype=dtype)
    a = sound.clone()
    a[2, 0, column] = value
    result, found = forward(a), pullback(a, torch.ones_like(a))
    assert not result[2].isfinite().all()
    assert not found[2].isfinite().all()
    others = [0, 1, 3, 4]
    assert torch.equal(result[others], forward(sound)[others])
    assert torch.equal(found[others], pullback(sound, torch.ones_like(a))[others])


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_overflow_and_vanish_as_they_should(dtype: torch.dtype) -> None:
    most = math.log(torch.finfo(dtype).max)
    edges = [-torch.inf, -1e30, -1.1 * most, -0.999 * most, 0.999 * most, 1.1 * most, torch.inf]
    a = torch.tensor([*edges, torch.nan, 1e-30, -0.0], dtype=dtype)
    expected = a.exp()
    assert torch.allclose(forward(a[:, None, None]).flatten(), expected, 1e-4, 0, equal_nan=True)


def test_enormous_matrices_come_to_an_end() -> None:
    for size in (2, 5):
        assert not forward(of_norm(1e37, 3, size, size, dtype=torch.float32)).isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_any_number_of_matrices_in_any_shape(size: int, dtype: torch.dtype) -> None:
    a = of_norm(1.0, 35, size, size, dtype=dtype)
    gradient = torch.randn_like(a)
    values, found = true_exponential(a), true_pullback(a, gradient)
    for count in (1, 7, 8, 9, 15, 16, 17, 33):
        assert distance(forward(a[:count]), values[:count]) < tolerance(dtype, 1)
        part = pullback(a[:count], gradient[:count])
        assert distance(part, found[:count]) < tolerance(dtype, 1)
    assert forward(a[:0]).shape == pullback(a[:0], a[:0]).shape == (0, size, size)
    assert torch.equal(forward(a.view(5, 7, size, size)).view_as(a), forward(a))
    assert torch.equal(forward(a[0]), forward(a[:1])[0])
    assert torch.equal(forward(a.mT), forward(a.mT.contiguous()))
    assert torch.equal(pullback(a, gradient[:1].expand_as(a))[0], pullback(a, gradient)[0])


def test_negated_views_are_seen_as_negative() -> None:
    view = torch.complex(torch.zeros(2, 3, 3), torch.rand(2, 3, 3)).conj().imag
    assert view.is_neg()
    assert torch.equal(forward(view), forward(view.clone()))


@pytest.mark.parametrize("size", [1, 4, 5, 16])
def test_threads_change_no_bit(size: int) -> None:
    a = of_norm(2.0, 150, size, size, dtype=torch.float32)
    gradient = torch.randn_like(a)
    before = torch.get_num_threads()
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append((forward(a), pullback(a, gradient)))
    torch.set_num_threads(before)
    for other in found[1:]:
        assert torch.equal(other[0], found[0][0])
        assert torch.equal(other[1], found[0][1])


def status(
    real: int = 4,
    count: int = 1,
    rows: int = 2,
    threads: int = 1,
    given: bool = True,
    spare: int = 0,
) -> tuple[int, int]:
    """What the two functions return; `spare` bytes more than needed are offered as work space."""
    task = Task(real, count, rows, threads)
    arrays = {name: torch.zeros(64, dtype=torch.float64) for name in ("x", "y", "in_y", "in_x")}
    needed = function("slicekit_exponential_workspace")(ctypes.byref(task))
    arrays["work"] = torch.zeros(max(needed, 1), dtype=torch.uint8)
    for name, x in arrays.items():
        setattr(task, name, x.data_ptr() if given else None)
    task.work_bytes = needed + spare
    return (
        function("slicekit_exponential_forward")(ctypes.byref(task)),
        function("slicekit_exponential_backward")(ctypes.byref(task)),
    )


def test_faults_are_named() -> None:
    assert status() == (OK, OK)
    assert status(real=2) == (BAD_OPTION, BAD_OPTION)
    assert status(count=-1) == (BAD_SIZE, BAD_SIZE)
    assert status(count=2**62) == (BAD_SIZE, BAD_SIZE)
    assert status(rows=0) == (BAD_SIZE, BAD_SIZE)
    assert status(rows=2**20) == (BAD_SIZE, BAD_SIZE)
    assert status(threads=0) == (BAD_SIZE, BAD_SIZE)
    assert status(given=False) == (BAD_POINTER, BAD_POINTER)
    assert status(count=0, given=False) == (OK, OK)
    assert status(spare=-1) == (BAD_WORKSPACE, BAD_WORKSPACE)


def test_matrices_that_are_too_large_are_refused() -> None:
    with pytest.raises(RuntimeError, match="size"):
        forward(torch.zeros(1, 1000, 1000))
