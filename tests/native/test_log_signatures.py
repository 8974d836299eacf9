"""The native log-signatures against pure torch, in values and gradients."""

import ctypes
import gc
import weakref

import pytest
import torch
from torch import Tensor

from slicekit.native import available, kernel, reason
from slicekit.native.kernel import function
from slicekit.native.log_signatures import KERNEL, SIZES, Task, _tables, obstacle
from slicekit.paths import LieBasis, hall, log_signatures, lyndon
from slicekit.paths.window_signatures import in_torch, run_windows
from tests.operator_checks import check_operators

pytestmark = [
    pytest.mark.skipif(not available(), reason=f"no native library: {reason()}"),
    pytest.mark.usefixtures("poisoned_memory"),
]

DTYPES = [torch.float32, torch.float64]
BASES = [
    *(hall(channels, 2) for channels in (2, 3, 6, 11)),
    *(lyndon(channels, 3) for channels in (2, 3, 5, 6, 7, 8, 9)),
    *(hall(2, 7), hall(3, 4), lyndon(4, 4), hall(3, 5)),
]
OK, BAD_SIZE, BAD_POINTER, BAD_OPTION, BAD_WORKSPACE, BAD_INDEX = range(6)


def steps_of(batch: int, length: int, channels: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Increments of a random path that goes about as far as one."""
    path = torch.randn(batch, length, channels, dtype=torch.float64) / max(length, 1) ** 0.5
    return path.to(dtype)


def forward(increments: Tensor, basis: LieBasis, window: int, edges: Tensor | None) -> Tensor:
    """Coefficients by the kernel."""
    return KERNEL.forward(basis, window, (increments, edges))[0]


def pullback(
    increments: Tensor, gradient: Tensor, basis: LieBasis, window: int, edges: Tensor | None
) -> Tensor:
    """The gradient of the increments by the kernel."""
    pulled = KERNEL.backward(basis, window, (increments, edges), [None], [gradient], [])[0]
    assert pulled is not None
    return pulled


def check(
    increments: Tensor,
    basis: LieBasis,
    window: int = 1,
    edges: Tensor | None = None,
    scale: float = 1.0,
) -> None:
    """Compare values and gradients with pure torch in double precision.

    Errors are measured against the largest number that comes up, at least `scale`.
    """
    leaf = increments.double().requires_grad_()
    expected = in_torch(leaf, basis, window, edges)
    found = forward(increments, basis, window, edges)
    gradient = torch.randn_like(found)
    (in_leaf,) = torch.autograd.grad(expected, leaf, gradient.double())
    pulled = pullback(increments, gradient, basis, window, edges)
    for one, other in ((found, expected.detach()), (pulled, in_leaf)):
        assert one.dtype == increments.dtype
        bound = 512 * torch.finfo(one.dtype).eps * max(scale, float(other.abs().max()))
        assert (one - other).abs().max() <= bound


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_short_windows_are_those_of_torch(basis: LieBasis, dtype: torch.dtype) -> None:
    for length, window in [(1, 1), (7, 3), (33, 12), (40, 33)]:
        check(steps_of(3, length, basis.channels, dtype), basis, window)


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("basis", [hall(2, 2), hall(6, 2), lyndon(3, 3)], ids=repr)
def test_windows_in_every_lane_are_those_of_torch(basis: LieBasis, dtype: torch.dtype) -> None:
    """Rows of numbers as short as a vector or not, and the last lanes empty or shorter."""
    for length, window in [(4, 2), (24, 12), (26, 13), (30, 12)]:
        check(steps_of(19, length, basis.channels, dtype), basis, window)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("basis", [hall(6, 2), hall(3, 3), lyndon(2, 5)], ids=repr)
def test_long_windows_are_those_of_torch(basis: LieBasis, dtype: torch.dtype) -> None:
    """They are cut into pieces: one round, several, and pieces that are partly empty."""
    for length, window in [(129, 129), (1025, 1025), (2500, 1300)]:
        check(steps_of(2, length, basis.channels, dtype), basis, window)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("basis", [hall(4, 2), lyndon(3, 3), hall(2, 4)], ids=repr)
def test_windows_of_any_length_are_those_of_torch(basis: LieBasis, dtype: torch.dtype) -> None:
    """Also empty ones, long ones beside short ones, and increments that are in no window."""
    edges = torch.tensor([[0, 3, 3, 40, 400], [2, 2, 2, 2, 2], [0, 1, 300, 301, 390]])
    check(steps_of(3, 400, basis.channels, dtype), basis, edges=edges)
    check(steps_of(3, 400, basis.channels, dtype), basis, edges=edges.clamp_max(30))


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_paths_keep_their_digits(dtype: torch.dtype) -> None:
    check(steps_of(1, 18_000, 6, dtype), hall(6, 3), 18_000)


@pytest.mark.parametrize("dtype", DTYPES)
def test_paths_that_go_far_and_come_back_keep_their_digits(dtype: torch.dtype) -> None:
    """The signature on the way is far larger than at the end."""
    out = steps_of(1, 1000, 3) + 0.01
    path = torch.cat([out, -out.flip(1)], 1).to(dtype)
    check(path, hall(3, 3), 2000, scale=10.0**3)


@pytest.mark.parametrize("length", [5, 300])
def test_gradcheck(length: int) -> None:
    basis = hall(2, 3)
    increments = steps_of(1, length, 2).requires_grad_()
    assert not obstacle(increments, basis)
    torch.autograd.gradcheck(lambda x: log_signatures(x, basis, length), increments, fast_mode=True)


def test_second_derivatives_go_through_torch() -> None:
    increments = steps_of(2, 5, 2).requires_grad_()
    torch.autograd.gradgradcheck(lambda x: log_signatures(x, hall(2, 3), 3), increments)


def test_the_operators_are_sound() -> None:
    increments = steps_of(2, 7, 3)
    edges = torch.tensor([[0, 2, 7], [1, 1, 4]])
    for given in (None, edges):
        moved = increments.clone().requires_grad_()
        check_operators(
            lambda x=moved, e=given: run_windows(x, hall(3, 3), 3, e).square().sum().backward()
        )


def test_a_compiled_graph_holds_it_whole() -> None:
    basis = hall(3, 3)

    def loss(x: Tensor) -> Tensor:
        return log_signatures(x, basis, 4).square().sum()

    increments = steps_of(2, 10, 3).requires_grad_()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    (found,) = torch.autograd.grad(compiled(increments), increments)
    (expected,) = torch.autograd.grad(loss(increments), increments)
    assert torch.allclose(found, expected)


def test_vmap_and_grad_go_through() -> None:
    basis, increments = hall(2, 3), steps_of(3, 8, 2).reshape(3, 1, 8, 2)
    found = torch.vmap(lambda x: log_signatures(x, basis, 3))(increments)
    expected = log_signatures(increments.flatten(0, 1), basis, 3)
    assert torch.equal(found.flatten(0, 1), expected)

    def loss(x: Tensor) -> Tensor:
        return log_signatures(x, basis, 3).square().sum()

    gradients = torch.vmap(torch.func.grad(loss))(increments)
    assert torch.allclose(gradients[1], torch.func.grad(loss)(increments[1]))


def test_torch_uses_it_where_it_applies() -> None:
    assert not obstacle(torch.zeros(1, 2, 3), hall(3, 2))
    assert obstacle(torch.zeros(1, 2, 3), hall(3, 1))
    assert obstacle(torch.zeros(1, 2, 1), hall(1, 3))
    assert obstacle(torch.zeros(1, 2, 3, dtype=torch.bfloat16), hall(3, 2))
    assert obstacle(torch.zeros(1, 2, 3, device="meta"), hall(3, 2))
    increments = steps_of(2, 9, 3)
    expected = forward(increments, hall(3, 2), 4, None)
    assert torch.equal(run_windows(increments, hall(3, 2), 4), expected)


def test_strides_and_negated_views_make_no_difference() -> None:
    basis, increments = hall(3, 2), steps_of(4, 6, 3)
    turned = increments.mT.contiguous().mT
    assert torch.equal(forward(turned, basis, 4, None), forward(increments, basis, 4, None))
    view = torch.complex(increments, increments).conj().imag
    assert view.is_neg()
    assert torch.equal(forward(view, basis, 4, None), forward(-increments, basis, 4, None))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_not_finite_shows_and_stays_in_its_window(value: float) -> None:
    basis, increments = hall(3, 3), steps_of(3, 12, 3)
    sound = forward(increments, basis, 4, None)
    increments[1, 5, 2] = value
    found = forward(increments, basis, 4, None)
    others = torch.ones(3, 3, dtype=torch.bool)
    others[1, 1] = False
    assert not found[1, 1].isfinite().all()
    assert torch.equal(found[others], sound[others])


@pytest.mark.parametrize("length", [40, 1500])
def test_threads_change_no_bit(length: int) -> None:
    basis, increments = hall(4, 3), steps_of(9, length, 4, torch.float32)
    before = torch.get_num_threads()
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        value = forward(increments, basis, 700, None)
        found.append((value, pullback(increments, torch.ones_like(value), basis, 700, None)))
    torch.set_num_threads(before)
    for value, gradient in found[1:]:
        assert torch.equal(value, found[0][0]) and torch.equal(gradient, found[0][1])


def test_tables_live_as_long_as_a_call_that_was_given_their_addresses() -> None:
    basis = lyndon(3, 3)
    task, _ = KERNEL.problem(basis, 2, (torch.randn(2, 4, 3), None))
    starts = weakref.ref(_tables(basis).held["change_starts"])
    _tables.cache_clear()
    kernel._known.cache_clear()
    gc.collect()
    assert starts() is not None
    del task
    gc.collect()
    assert starts() is None


def status(given: int = 1, spare: int = 0, edge: int | None = None, **changed: int) -> int:
    """What the forward pass returns for a small sound problem with some sizes changed."""
    basis = hall(2, 2)
    sizes = {
        **{"real": 4, "batch": 1, "length": 4, "channels": 2, "depth": 2, "windows": 2},
        **{"window": 2, "size": 3, "top": 1, "prefixes": 1, "splits": 1, "changes": 3},
        **{"threads": 1},
        **changed,
    }
    task = Task(*(sizes[name] for name in SIZES))
    task.tables = _tables(basis)
    edges = None if edge is None else torch.tensor([[0, edge, 4]])
    task.edges = None if edges is None else edges.data_ptr()
    needed = function("slicekit_log_signatures_workspace")(ctypes.byref(task))
    arrays = {"increments": torch.zeros(8), "coefficients": torch.zeros(6)}
    arrays["work"] = torch.zeros(max(needed, 1), dtype=torch.uint8)
    for name, x in arrays.items():
        setattr(task, name, x.data_ptr() if given else None)
    task.work_bytes = needed + spare
    return function("slicekit_log_signatures_forward")(ctypes.byref(task))


def test_faults_are_named() -> None:
    assert status() == OK
    assert status(edge=3) == OK
    assert status(real=2) == BAD_OPTION
    for wrong in ({"batch": -1}, {"channels": 0}, {"depth": 1}, {"depth": 17}, {"window": 0}):
        assert status(**wrong) == BAD_SIZE
    for wrong in ({"windows": 3}, {"threads": 0}, {"batch": 2**62}, {"top": 4}, {"size": 0}):
        assert status(**wrong) == BAD_SIZE
    assert status(top=0) == BAD_INDEX
    assert status(splits=0) == BAD_INDEX
    assert status(edge=5) == BAD_INDEX
    assert status(edge=-1) == BAD_INDEX
    assert status(given=0) == BAD_POINTER
    assert status(given=0, batch=0) == OK
    assert status(spare=-1) == BAD_WORKSPACE


def test_edges_outside_the_path_are_refused() -> None:
    with pytest.raises(RuntimeError, match="an index outside its table"):
        forward(torch.zeros(1, 4, 2), hall(2, 2), 1, torch.tensor([[0, 5]]))
