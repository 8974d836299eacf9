"""The sLSTM's kernel against the equations as they stand, in values and all gradients."""

import ctypes
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit.choices import explain
from slicekit.mixers.slstm import SLSTM
from slicekit.mixers.slstm_recurrence import slstm_reference
from slicekit.mixers.slstm_sequences import in_torch, slstm_sequences
from slicekit.native import available, library, reason
from slicekit.native.library import unsuited
from slicekit.native.sequences import LAST, STATE, ScalarLSTM
from tests.mixers.agreement import assert_agrees, shared_leaves
from tests.operator_checks import check_operators

pytestmark = [
    pytest.mark.skipif(not available(), reason=f"no native library: {reason()}"),
    pytest.mark.usefixtures("poisoned_memory"),
]

TOLERANCE = {torch.float32: 2e-5, torch.float64: 2e-13}
OK, BAD_SIZE, BAD_POINTER, BAD_OPTION, BAD_WORKSPACE, BAD_INDEX = range(6)
OPERANDS = [*ScalarLSTM.operands][:-1]


def problem(
    batch: int, length: int, heads: int, dim: int, dtype: torch.dtype = torch.float64
) -> dict[str, Tensor]:
    """All operands, in the middle of their life."""
    shapes = {
        **dict.fromkeys(("filtered", "x"), (batch, length, heads, dim)),
        "gates": (heads, 4, dim, dim),
        "recurrent": (heads, dim, 4, dim),
        "bias": (heads, 4, dim),
        **dict.fromkeys(STATE, (batch, heads, dim)),
    }
    found = {name: torch.randn(shape, dtype=dtype) for name, shape in shapes.items()}
    for name in ("gates", "recurrent"):
        found[name] *= dim**-0.5
    found["normaliser"] = found["normaliser"].abs() + 1
    return {name: x.requires_grad_() for name, x in found.items()}


def run(given: dict[str, Tensor], lengths: Tensor | None = None, way: Any = slstm_sequences) -> Any:
    """The hidden states and the last state."""
    *operands, hidden, cell, normaliser, stabiliser = given.values()
    outputs, last = way(*operands, [hidden, cell, normaliser, stabiliser], lengths)
    return outputs, *last


def total(outputs: tuple[Tensor, ...]) -> Tensor:
    """A number that depends on all of them."""
    return torch.stack([x.sum() for x in outputs]).sum()


def by_the_equations(given: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """The obvious loop, on sequences that all count."""
    pairs = (given["filtered"], given["gates"][:, :2]), (given["x"], given["gates"][:, 2:])
    driven = torch.cat([torch.einsum("blhd,hged->lhbge", *pair) for pair in pairs], 3)
    driven = driven + given["bias"].unsqueeze(1)
    state = torch.stack([given[name].transpose(0, 1) for name in STATE])
    hidden, last = slstm_reference(driven, given["recurrent"].flatten(2), state)
    return hidden.permute(2, 0, 1, 3), *(x.transpose(0, 1) for x in last)


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1), (3, 7, 2, 5), (2, 9, 1, 16), (1, 400, 1, 17), (9, 13, 3, 33)]
)
def test_it_is_the_equations(sizes: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    given = problem(*sizes, dtype)
    assert_agrees(
        lambda: run(given),
        lambda: by_the_equations(given),
        shared_leaves(**given),
        TOLERANCE[dtype],
    )


def test_many_sequences_run_in_slabs() -> None:
    torch.manual_seed(1)
    given = problem(130, 3, 2, 3)
    assert_agrees(
        lambda: run(given), lambda: by_the_equations(given), shared_leaves(**given), 1e-12
    )


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_lengths_end_each_sequence_by_itself(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    given, lengths = problem(5, 11, 2, 6, dtype), torch.tensor([11, 0, 4, 1, 10])
    assert_agrees(
        lambda: run(given, lengths),
        lambda: run(given, lengths, in_torch),
        shared_leaves(**given),
        TOLERANCE[dtype],
    )


def test_what_is_past_the_end_has_no_gradient_and_no_output() -> None:
    given, lengths = problem(2, 5, 1, 3), torch.tensor([2, 0])
    filtered, x, gates, recurrent, bias, *state = given.values()
    outputs, _ = slstm_sequences(filtered, x, gates, recurrent, bias, state, lengths)
    assert not outputs[0, 2:].any() and not outputs[1].any()
    of_inputs = torch.autograd.grad(outputs.sum(), [given["filtered"], given["x"]])
    for gradient in of_inputs:
        assert gradient[0, :2].all() and not gradient[0, 2:].any() and not gradient[1].any()


def test_parts_make_the_whole() -> None:
    torch.manual_seed(3)
    given = problem(2, 12, 2, 5)

    def in_parts() -> tuple[Tensor, ...]:
        filtered, x, gates, recurrent, bias, *state = given.values()
        outputs_of_parts: list[Tensor] = []
        for some in zip(filtered.split([1, 1, 7, 3], 1), x.split([1, 1, 7, 3], 1), strict=True):
            outputs, state = slstm_sequences(*some, gates, recurrent, bias, state)
            outputs_of_parts.append(outputs)
        return torch.cat(outputs_of_parts, 1), *state

    assert_agrees(in_parts, lambda: run(given), shared_leaves(**given), 1e-12)


@pytest.mark.parametrize("batch", [1, 60])
def test_threads_change_no_bit(batch: int) -> None:
    given, before = problem(batch, 9, 3, 5, torch.float32), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            outputs = run(given)
            loss = total(outputs)
            found.append([*outputs, *torch.autograd.grad(loss, [*given.values()])])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


def test_shares_and_slopes_keep_their_size_where_they_vanish() -> None:
    """A gate that is all but closed has a gradient to all its digits, however long it was shut."""
    given = {name: x.detach() for name, x in problem(1, 1, 1, 4, torch.float32).items()}
    given["recurrent"], given["gates"] = (
        torch.zeros_like(given[n]) for n in ("recurrent", "gates")
    )
    given["bias"][:, 0], given["bias"][:, 1] = -20.0, 20.0
    wide = {name: x.double().requires_grad_() for name, x in given.items()}
    narrow = {name: x.requires_grad_() for name, x in given.items()}
    slopes = [
        torch.autograd.grad(run(some)[0].sum(), some["bias"])[0].double() for some in (narrow, wide)
    ]
    assert slopes[1][:, :2].abs().max() < 1e-6 and slopes[1][:, :2].all()
    torch.testing.assert_close(*slopes, rtol=1e-4, atol=0)


def test_empty_batches_have_empty_results() -> None:
    given = problem(0, 5, 2, 3)
    outputs = run(given)
    assert outputs[0].shape == (0, 5, 2, 3)
    gradients = torch.autograd.grad(outputs[0].sum(), [*given.values()])
    assert all(not g.any() for g in gradients)


def test_the_operators_are_sound() -> None:
    given, lengths = problem(2, 7, 2, 3), torch.tensor([7, 3])
    for some in (None, lengths):
        check_operators(lambda some=some: total(run(given, some)).backward())


def test_a_compiled_mixer_holds_it_whole() -> None:
    mixer, x = SLSTM(8, heads=2, recurrent_bound=0.3), torch.randn(2, 10, 8, requires_grad=True)
    compiled = torch.compile(mixer, fullgraph=True, backend="aot_eager")
    found, expected = (torch.autograd.grad(m(x).square().sum(), x)[0] for m in (compiled, mixer))
    torch.testing.assert_close(found, expected)


def test_it_is_used_where_it_applies() -> None:
    assert "sLSTM: kernel" in str(explain(SLSTM(8), torch.randn(1, 3, 8)))
    assert unsuited(torch.zeros(1, 2, 3, 4, dtype=torch.bfloat16))
    assert unsuited(torch.zeros(1, 2, 3, 4, device="meta"))


def status(direction: str, spare: Any = 0, **changed: Any) -> int:
    """What a pass returns for a small sound problem with some of the task changed."""
    found = library()
    assert found is not None
    arrays = {name: x.detach() for name, x in problem(1, 5, 2, 3).items()}
    arrays |= {name: torch.zeros(1, 2, 3).double() for name in LAST}
    arrays["outputs"] = arrays["x"].clone()
    arrays |= {f"in_{name}": x.clone() for name, x in arrays.items()}
    task = ScalarLSTM(real=8, batch=1, length=5, heads=2, dim=3, threads=1)
    arrays["kept"] = torch.zeros(task.shapes(task)["kept"], dtype=torch.float64)
    for name, x in arrays.items():
        setattr(task, name, x.data_ptr())
    lengths = torch.tensor([changed.pop("one_length", 5)])
    task.lengths = lengths.data_ptr()
    for name, value in changed.items():
        setattr(task, name, value)
    measure = getattr(found.c, f"slicekit_slstm_{direction}_work")
    pass_ = getattr(found.c, f"slicekit_slstm_{direction}")
    measure.restype = pass_.restype = ctypes.c_int64
    needed = measure(ctypes.byref(task))
    work = torch.empty(max(needed, 1), dtype=torch.uint8)
    if "work" not in changed:
        task.work = work.data_ptr()
    task.work_bytes = needed + spare
    return pass_(ctypes.byref(task))


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_faults_are_named(direction: str) -> None:
    assert status(direction) == OK
    assert status(direction, lengths=None) == OK
    assert status(direction, batch=0, x=None) == OK
    assert status(direction, real=2) == BAD_OPTION
    for wrong in ({"batch": -1}, {"length": 0}, {"heads": 0}, {"dim": 0}, {"threads": 0}):
        assert status(direction, **wrong) == BAD_SIZE
    for wrong in ({"threads": 10**6}, {"batch": 2**62}, {"heads": 2**20, "dim": 2**20}):
        assert status(direction, **wrong) == BAD_SIZE
    for name in (*OPERANDS, "outputs", "last_cell", "last_normaliser", "work"):
        assert status(direction, **{name: None}) == BAD_POINTER
    for length in (-1, 6):
        assert status(direction, one_length=length) == BAD_INDEX
    assert status(direction, spare=-1) == BAD_WORKSPACE


def test_each_pass_needs_its_results() -> None:
    for name in ("last_hidden", "last_stabiliser"):
        assert status("forward", **{name: None}) == BAD_POINTER
    assert status("forward", kept=None) == OK
    for name in ("kept", *ScalarLSTM.cotangents, *(f"in_{name}" for name in OPERANDS)):
        assert status("backward", **{name: None}) == BAD_POINTER
