"""The selective scan's kernel against the plain loop, in values and all gradients."""

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit.native import available, library, reason
from slicekit.native.library import unsuited
from slicekit.native.sequences import CHUNK, SELECTIVE, Selective
from slicekit.scans import Native, Recurrent
from slicekit.scans.selective import selective_scan
from tests.operator_checks import check_operators

pytestmark = [
    pytest.mark.skipif(not available(), reason=f"no native library: {reason()}"),
    pytest.mark.usefixtures("poisoned_memory"),
]

OPERANDS = [*Selective.operands][:-1]
DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 4e-6, torch.float64: 1e-14}
OK, BAD_SIZE, BAD_POINTER, BAD_OPTION, BAD_WORKSPACE, BAD_INDEX = range(6)


def problem(
    batch: int, length: int, channels: int, dim: int, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """Random operands, with steps and rates of Mamba's sizes."""
    shapes = {
        "steps": (batch, length, channels),
        "rates": (channels, dim),
        "inputs": (batch, length, channels),
        "left": (batch, length, dim),
        "readout": (batch, length, dim),
        "state": (batch, channels, dim),
    }
    made = {name: torch.randn(shape, dtype=torch.float64) for name, shape in shapes.items()}
    made["steps"] = made["steps"].abs() * 0.3
    made["rates"] = -made["rates"].abs() * 2
    return [made[name].to(dtype) for name in OPERANDS]


def run(operands: list[Tensor], **options: Any) -> tuple[Tensor, Tensor]:
    """Outputs and last state."""
    steps, rates, inputs, left, readout, state = operands
    return selective_scan(steps, rates, inputs, left, readout, state, **options)


def results(operands: list[Tensor], lengths: Tensor | None, scan: Recurrent | None) -> list[Tensor]:
    """Outputs, last state and the six gradients for random cotangents."""
    leaves = [x.clone().requires_grad_() for x in operands]
    found = run(leaves, lengths=lengths, scan=scan)
    source = torch.Generator().manual_seed(1)
    given = [torch.randn(x.shape, dtype=torch.float64, generator=source) for x in found]
    given = [g.to(x.dtype) for g, x in zip(given, found, strict=True)]
    return [x.detach() for x in (*found, *torch.autograd.grad(found, leaves, given))]


def agrees_with_the_loop(operands: list[Tensor], lengths: Tensor | None = None) -> None:
    """Values and gradients are those of the loop in double precision."""
    found = results(operands, lengths, None)
    expected = results([x.double() for x in operands], lengths, Recurrent())
    for x, true in zip(found, expected, strict=True):
        assert x.shape == true.shape
        bound = TOLERANCE[x.dtype] * true.abs().max().clamp(min=1)
        assert (x - true).abs().max() <= bound


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [1, 2, 3, 5, 16, 17])
@pytest.mark.parametrize("channels", [1, 3, 8, 13, 130])
def test_it_is_the_plain_loop(channels: int, dim: int, dtype: torch.dtype) -> None:
    agrees_with_the_loop(problem(2, 5, channels, dim, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 2])
def test_chunks_have_no_seams(length: int, dtype: torch.dtype) -> None:
    agrees_with_the_loop(problem(1, length, 9, 5, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_lengths_are_those_of_the_loop(dtype: torch.dtype) -> None:
    lengths = torch.tensor([0, 1, CHUNK, CHUNK + 5])
    agrees_with_the_loop(problem(4, CHUNK + 5, 5, 3, dtype), lengths)


def test_what_is_past_the_end_is_not_read() -> None:
    operands, lengths = problem(2, 9, 5, 3), torch.tensor([4, 9])
    expected = results(operands, lengths, None)
    for i in (0, 2, 3, 4):
        operands[i][0, 4:] = torch.nan
    found = results(operands, lengths, None)
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))
    assert not found[0][0, 4:].any()


def test_gradcheck() -> None:
    leaves = [x.requires_grad_() for x in problem(2, 4, 3, 2)]
    torch.autograd.gradcheck(selective_scan, leaves)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_step_of_zero_changes_nothing(dtype: torch.dtype) -> None:
    operands = problem(1, 70, 5, 3, dtype)
    operands[0].zero_()
    operands[1] = operands[1] * 1e4
    assert torch.equal(run(operands)[1], operands[5])
    agrees_with_the_loop(operands)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_decays_at_once_is_zero(dtype: torch.dtype) -> None:
    steps, rates, inputs, left, readout, state = problem(1, 5, 9, 4, dtype)
    steps, rates = torch.full_like(steps, 1e4), torch.full_like(rates, -1e4)
    last = selective_scan(steps, rates, inputs, left, readout, state)[1]
    alone = (steps * inputs)[:, -1, :, None] * left[:, -1, None]
    torch.testing.assert_close(last, alone)
    found = results([steps, rates, inputs, left, readout, state], None, None)
    assert all(x.isfinite().all() for x in found)
    assert not found[3].any() and not found[7].any()  # rates and state


@pytest.mark.parametrize("dtype", DTYPES)
def test_decays_are_exponentials_of_any_size(dtype: torch.dtype) -> None:
    """From underflow to overflow, to a few units in the last place of the exponent."""
    rates = torch.linspace(-120, 80, 1601, dtype=torch.float64).to(dtype).unsqueeze(0)
    ones = torch.ones(1, 1, 1, dtype=dtype)
    zeros, states = torch.zeros(1, 1, 1601, dtype=dtype), torch.ones(1, 1, 1601, dtype=dtype)
    found = selective_scan(ones, rates, ones, zeros, zeros, states)[1].flatten()
    true = rates.double().exp().flatten()
    eps, tiny = torch.finfo(dtype).eps, torch.finfo(dtype).tiny
    assert ((found - true).abs() <= 2 * eps * true + tiny).all()


@pytest.mark.parametrize("exponent", [-torch.inf, torch.inf, torch.nan, 1e30, -1e30])
def test_exponents_beyond_all_bounds_have_their_limits(exponent: float) -> None:
    ones, zeros = torch.ones(1, 1, 1), torch.zeros(1, 1, 1)
    rates = torch.full((1, 1), exponent)
    found = selective_scan(ones, rates, ones, zeros, zeros, ones)[1].flatten()
    torch.testing.assert_close(found, rates.exp().flatten(), equal_nan=True)


@pytest.mark.parametrize("channels", [5, 300])
@pytest.mark.parametrize("batch", [1, 3])
def test_threads_change_no_bit(batch: int, channels: int) -> None:
    operands, before = problem(batch, 70, channels, 5, torch.float32), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(results(operands, None, None))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    operands = problem(2, 20, 3, 4, dtype)
    outputs, last = run(operands)
    true, true_last = run([x.float() for x in operands])
    assert outputs.dtype == dtype and last.dtype == torch.float32
    assert torch.equal(outputs, true.to(dtype)) and torch.equal(last, true_last)


def test_an_empty_batch_has_empty_results() -> None:
    operands = problem(0, 5, 3, 2)
    results = SELECTIVE.forward([*operands, None])
    outputs, last, _ = results
    *gradients, none = SELECTIVE.backward([*operands, None], results, (outputs, last), [])
    assert none is None
    assert outputs.shape == (0, 5, 3) and last.shape == (0, 3, 2)
    for gradient, x in zip(gradients, operands, strict=True):
        assert gradient is not None and gradient.shape == x.shape and not gradient.any()


def test_strides_and_negated_views_make_no_difference() -> None:
    operands = problem(2, 6, 5, 3)
    turned = [x.mT.contiguous().mT for x in operands]
    assert torch.equal(run(turned)[0], run(operands)[0])
    view = torch.complex(operands[2], operands[2]).conj().imag
    assert view.is_neg()
    negated, plain = list(operands), list(operands)
    negated[2], plain[2] = view, -operands[2]
    assert torch.equal(run(negated)[0], run(plain)[0])


def test_the_operators_are_sound() -> None:
    operands = problem(2, 7, 3, 2)
    for lengths in (None, torch.tensor([3, 7])):
        leaves = [x.clone().requires_grad_() for x in operands]
        check_operators(lambda x=leaves, n=lengths: run(x, lengths=n)[0].sum().backward())


def loss_of(scan: Native | Recurrent | None) -> Callable[..., Tensor]:
    """A number that depends on all outputs and states."""

    def loss(*operands: Tensor) -> Tensor:
        outputs, last = run([*operands], scan=scan)
        return outputs.square().sum() + last.sum()

    return loss


def test_a_compiled_graph_holds_it_whole() -> None:
    leaves = [x.requires_grad_() for x in problem(2, 10, 3, 2)]
    loss = loss_of(None)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(*leaves), leaves)
    expected = torch.autograd.grad(loss(*leaves), leaves)
    assert all(torch.allclose(x, y) for x, y in zip(found, expected, strict=True))
    with torch.no_grad():
        assert torch.allclose(compiled(*leaves), loss(*leaves))


def test_vmap_and_grad_go_through() -> None:
    operands, every = problem(2, 4, 3, 2), tuple(range(6))
    gradients = torch.func.grad(loss_of(Native()), every)
    stacked = [torch.stack([x, x / 2]) for x in operands]
    found = torch.vmap(gradients)(*stacked)
    expected = torch.func.grad(loss_of(Recurrent()), every)(*(x / 2 for x in operands))
    assert all(torch.allclose(x[1], y) for x, y in zip(found, expected, strict=True))


def test_second_derivatives_are_refused() -> None:
    leaves = [x.requires_grad_() for x in problem(1, 3, 2, 2)]
    gradients = torch.autograd.grad(loss_of(None)(*leaves), leaves, create_graph=True)
    with pytest.raises(RuntimeError, match=r"use scan=Recurrent\(\)"):
        torch.autograd.grad(gradients[0].sum(), leaves)


def test_it_is_used_where_it_applies() -> None:
    assert not unsuited(torch.zeros(1, 2, 3)) and not unsuited(torch.zeros(1, 2, 3).double())
    assert unsuited(torch.zeros(1, 2, 3, dtype=torch.bfloat16))
    assert unsuited(torch.zeros(1, 2, 3, device="meta"))
    operands = problem(1, 4, 3, 2)
    expected = SELECTIVE.forward([*operands, None])[0]
    for scan in (None, Native()):
        assert torch.equal(run(operands, scan=scan)[0], expected)


def status(direction: str, spare: Any = 0, **changed: Any) -> int:
    """What a pass returns for a small sound problem with some of the task changed."""
    found = library()
    assert found is not None
    operands, lengths = problem(1, 2, 3, 2), torch.tensor([2])
    arrays = dict(zip(OPERANDS, operands, strict=True)) | {"lengths": lengths}
    arrays |= {"outputs": operands[2].clone(), "last": operands[5].clone()}
    arrays |= {"starts": SELECTIVE.shapes([*operands, lengths])[2]}
    arrays |= {"in_outputs": operands[2], "in_last": operands[5]}
    arrays |= {f"in_{name}": x.clone() for name, x in zip(OPERANDS, operands, strict=True)}
    task = Selective(real=8, batch=1, length=2, channels=3, dim=2, threads=1)
    for name, x in arrays.items():
        setattr(task, name, x.data_ptr())
    if "edge" in changed:
        lengths[0] = changed.pop("edge")
    for name, value in changed.items():
        setattr(task, name, value)
    measure = getattr(found.c, f"slicekit_selective_{direction}_work")
    run = getattr(found.c, f"slicekit_selective_{direction}")
    measure.restype = run.restype = ctypes.c_int64
    needed = measure(ctypes.byref(task))
    work = torch.empty(max(needed, 1), dtype=torch.uint8)
    if "work" not in changed:
        task.work = work.data_ptr()
    task.work_bytes = needed + spare
    return run(ctypes.byref(task))


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_faults_are_named(direction: str) -> None:
    assert status(direction) == OK
    assert status(direction, lengths=None) == OK
    assert status(direction, real=2) == BAD_OPTION
    for wrong in ({"batch": -1}, {"length": 0}, {"channels": 0}, {"dim": 0}, {"threads": 0}):
        assert status(direction, **wrong) == BAD_SIZE
    for wrong in ({"threads": 10**6}, {"batch": 2**62}, {"channels": 2**39, "dim": 2**39}):
        assert status(direction, **wrong) == BAD_SIZE
    for name in (*OPERANDS, "starts", "work"):
        assert status(direction, **{name: None}) == BAD_POINTER
    assert status(direction, batch=0, inputs=None) == OK
    assert status(direction, edge=3) == BAD_INDEX
    assert status(direction, edge=-1) == BAD_INDEX
    assert status(direction, spare=-1) == BAD_WORKSPACE


def test_each_pass_needs_its_results() -> None:
    for name in ("outputs", "last"):
        assert status("forward", **{name: None}) == BAD_POINTER
    for name in ("in_outputs", "in_last", *(f"in_{name}" for name in OPERANDS)):
        assert status("backward", **{name: None}) == BAD_POINTER
        assert status("forward", **{name: None}) == OK
