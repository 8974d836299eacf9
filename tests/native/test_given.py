"""Native recurrences with given transitions against a plain float64 loop and its derivative."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from slicekit.native import available, kernel, library, reason
from slicekit.native.recurrences import GIVEN, Given, chunk_size
from slicekit.scans.native.passes import GivenPasses
from slicekit.scans.sources import FromTransitions
from slicekit.structures import (
    BlockTransition,
    DiagonalTransition,
    LowRankTransition,
    RotationTransition,
    Transition,
)

pytestmark = pytest.mark.skipif(not available(), reason=f"no native library: {reason()}")

TOLERANCE = {
    torch.float32: 2e-5,
    torch.complex64: 2e-5,
    torch.float64: 1e-12,
    torch.complex128: 1e-12,
}
OK, BAD_SIZE, BAD_POINTER, BAD_OPTION, BAD_WORKSPACE = range(5)


@dataclass(frozen=True)
class Kind:
    """A kind of transition and its sizes."""

    name: str
    dim: int
    inner: int = 0

    def make(self, batch: int, length: int, dtype: torch.dtype) -> Transition:
        """Random transitions of about unit norm."""
        dim, n = self.dim, self.inner
        diagonal = torch.rand(batch, length, dim, dtype=dtype) * 0.6 + 0.4
        if self.name == "diagonal":
            return DiagonalTransition(diagonal)
        if self.name == "low rank":
            thin = (batch, length, dim, n)
            left, right = (torch.randn(thin, dtype=dtype) / (dim * n) ** 0.5 for _ in range(2))
            return LowRankTransition(diagonal, left, right)
        blocks = torch.randn(batch, length, dim // n, n, n, dtype=dtype) / n**0.5
        return BlockTransition(blocks)

    def __str__(self) -> str:
        return f"{self.name}-{self.dim}" + (f"-{self.inner}" if self.inner else "")


KINDS = [
    Kind("diagonal", 37),
    *(Kind("blocks", 2 * b, b) for b in (1, 2, 3, 4, 5, 8, 17)),
    *(Kind("low rank", 19, rank) for rank in (1, 2, 3, 4, 5, 9)),
]
INPUTS = ("none", "dense", "outer")


def problem(
    kind: Kind,
    dtype: torch.dtype = torch.float64,
    *,
    batch: int = 2,
    length: int = 7,
    columns: int = 3,
    inputs: str = "none",
    readout: bool = False,
    rescale: int = 0,
) -> GivenPasses:
    """A random recurrence."""
    dim = kind.dim
    shapes = {
        "none": (),
        "dense": ((batch, length, dim, columns),),
        "outer": ((batch, length, dim), (batch, length, columns)),
    }
    return GivenPasses(
        FromTransitions(kind.make(batch, length, dtype)),
        torch.randn(batch, dim, columns, dtype=dtype),
        tuple(torch.randn(shape, dtype=dtype) for shape in shapes[inputs]),
        torch.randn(batch, length, dim, dtype=dtype) if readout else None,
        0,
        rescale,
    )


def plain(passes: GivenPasses) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, last state and factors by the definition."""
    state, outputs, factors = passes.state, [], []
    dense = passes.inputs[0] if passes.inputs else None
    if len(passes.inputs) == 2:
        dense = passes.inputs[0].unsqueeze(-1) * passes.inputs[1].unsqueeze(-2)
    for t in range(passes.source.length):
        if passes.rescale and t % passes.rescale == 0:
            factors.append(divisor(passes.transition, state.detach(), t))
            state = state / factors[-1]
        step = passes.transition.map(lambda x, t=t: x[:, t])
        state = step.act(state)
        state = state if dense is None else state + dense[:, t]
        read = passes.readout
        outputs.append(state if read is None else (read[:, t].unsqueeze(-1) * state).sum(-2))
    divided = torch.stack(factors, 1) if factors else torch.empty(0)
    return torch.stack(outputs, 1), state, divided


def divisor(transition: Transition, state: Tensor, t: int) -> Tensor:
    """The power of two below the largest modulus of the rows that mix; one at the beginning."""
    moduli = state.abs()
    if t == 0:
        return torch.ones_like(moduli)
    group = 1 if isinstance(transition, DiagonalTransition) else state.shape[1]
    if isinstance(transition, BlockTransition):
        group = transition.blocks.shape[-1]
    largest = moduli.unflatten(1, (-1, group)).amax(2, keepdim=True)
    power = torch.where(largest == 0, 1.0, largest.log2().floor().exp2())
    return power.expand(-1, -1, group, -1).flatten(1, 2)


def with_operands(passes: GivenPasses, operands: list[Tensor]) -> GivenPasses:
    """The same recurrence of other tensors."""
    count, driven = len(passes.transition.tensors()), len(passes.inputs)
    state, *rest = operands[count:]
    transition = passes.transition.with_tensors(tuple(operands[:count]))
    readout = None if passes.readout is None else rest[driven]
    given = FromTransitions(transition)
    return GivenPasses(given, state, tuple(rest[:driven]), readout, 0, passes.rescale)


def operands(passes: GivenPasses) -> list[Tensor]:
    """All that is differentiated, in the order of the gradients."""
    read = () if passes.readout is None else (passes.readout,)
    return [*passes.transition.tensors(), passes.state, *passes.inputs, *read]


def cotangents(passes: GivenPasses) -> tuple[Tensor, Tensor]:
    """Random gradients of outputs and last state, the same for every call."""
    source = torch.Generator().manual_seed(1)
    shapes = passes.output_shape(), passes.state.shape
    first, second = (
        torch.randn(shape, dtype=passes.state.dtype, generator=source) for shape in shapes
    )
    return first, second


def run(passes: GivenPasses) -> tuple[list[Tensor], list[Tensor]]:
    """What the kernels make of it: results and gradients."""
    saved = passes.forward(False)
    return saved, passes.backward(saved, *cotangents(passes), [])


def close(found: Tensor, expected: Tensor) -> None:
    """Equal up to a rounding error of the dtype found, relative to the largest number."""
    assert found.shape == expected.shape
    if not found.numel():
        return
    scale = expected.abs().max().clamp(min=1)
    assert ((found - expected).abs().max() <= TOLERANCE[found.dtype] * scale).item()


def agrees_with_plain_loop(passes: GivenPasses) -> None:
    """Results and gradients equal those of the loop in double precision."""
    complex_ = passes.state.is_complex()
    wide = torch.complex128 if complex_ else torch.float64
    leaves = [x.to(wide).requires_grad_() for x in operands(passes)]
    outputs, last, factors = plain(with_operands(passes, leaves))
    given = [x.to(wide) for x in cotangents(passes)]
    expected = torch.autograd.grad([outputs, last], leaves, given)
    saved, gradients = run(passes)
    close(saved[0], outputs)
    close(saved[1], last)
    if passes.rescale:
        close(saved[2], factors)
    assert saved[2].shape == passes.factor_shape()
    assert saved[3].shape == passes.start_shape()
    for found, true in zip(gradients, expected, strict=True):
        close(found, true)


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """torch.empty gives NaN, so that reading what was never written shows."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3).isnan().all()
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize("readout", [False, True], ids=["states", "readout"])
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("columns", [1, 3, 64])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_real_recurrence_is_the_plain_loop(
    kind: Kind, columns: int, inputs: str, readout: bool
) -> None:
    for dtype in (torch.float32, torch.float64):
        with poisoned_memory():
            agrees_with_plain_loop(
                problem(kind, dtype, columns=columns, inputs=inputs, readout=readout)
            )


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("readout", [False, True], ids=["states", "readout"])
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("columns", [1, 3, 64])
def test_complex_diagonal_is_the_plain_loop(columns: int, inputs: str, readout: bool) -> None:
    for dtype in (torch.complex64, torch.complex128):
        with poisoned_memory():
            agrees_with_plain_loop(
                problem(KINDS[0], dtype, columns=columns, inputs=inputs, readout=readout)
            )


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("rescale", [1, 3, 50])
@pytest.mark.parametrize("columns", [1, 3, 64])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_projective_recurrence_is_the_plain_loop(kind: Kind, columns: int, rescale: int) -> None:
    dtypes = [torch.float32, torch.float64]
    dtypes += [torch.complex64, torch.complex128] if kind.name == "diagonal" else []
    for dtype in dtypes:
        with poisoned_memory():
            agrees_with_plain_loop(problem(kind, dtype, columns=columns, rescale=rescale))


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[4], KINDS[8]], ids=str)
@pytest.mark.parametrize("columns", [1, 5])
def test_readout_over_several_chunks_is_the_plain_loop(kind: Kind, columns: int) -> None:
    size = chunk_size(torch.float64, kind.dim, columns)
    for length in (size - 1, size, 2 * size + 1):
        passes = problem(
            kind, batch=1, length=length, columns=columns, inputs="outer", readout=True
        )
        assert passes.start_shape()[0] == -(-length // size)
        agrees_with_plain_loop(passes)


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[3], KINDS[8], Kind("blocks", 1, 1)], ids=str)
@pytest.mark.parametrize("columns", [1, 2, 8, 33])
def test_single_step_of_a_single_sequence(kind: Kind, columns: int) -> None:
    for readout in (False, True):
        agrees_with_plain_loop(
            problem(kind, batch=1, length=1, columns=columns, inputs="dense", readout=readout)
        )


def test_columns_of_zeros_are_divided_by_one() -> None:
    passes = problem(KINDS[0], columns=3, rescale=2)
    passes.state[:, :, 1] = 0
    factors = passes.forward(False)[2]
    assert (factors[..., 1] == 1).all()
    agrees_with_plain_loop(passes)


def test_chunks_grow_shorter_with_the_state() -> None:
    sizes = [chunk_size(torch.float32, dim, dim) for dim in (1, 64, 128, 1024)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] >= 1
    assert chunk_size(torch.complex64, 64, 64) == chunk_size(torch.float64, 64, 64)


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[4], KINDS[8]], ids=str)
@pytest.mark.parametrize("inputs", INPUTS)
def test_empty_batch_has_empty_results(kind: Kind, inputs: str) -> None:
    saved, gradients = run(problem(kind, batch=0, inputs=inputs, readout=True))
    assert all(x.numel() == 0 for x in (*saved, *gradients))


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[4], KINDS[8]], ids=str)
@pytest.mark.parametrize("columns", [1, 64])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("readout", [False, True], ids=["states", "readout"])
def test_threads_change_nothing_but_rounding(
    kind: Kind, columns: int, batch: int, readout: bool
) -> None:
    passes = problem(kind, batch=batch, columns=columns, inputs="outer", readout=readout)
    alone, alone_gradients = run(passes)
    torch.set_num_threads(2)
    try:
        together, gradients = run(passes)
        again, again_gradients = run(passes)
    finally:
        torch.set_num_threads(1)
    for x, y in zip([*together, *gradients], [*again, *again_gradients], strict=True):
        assert torch.equal(x, y)
    for x, y in zip([*together, *gradients], [*alone, *alone_gradients], strict=True):
        close(x, y)


def test_views_and_conjugates_are_understood() -> None:
    passes = problem(KINDS[0], torch.complex128, inputs="outer", readout=True)
    turned = [x.mT.contiguous().mT.conj() for x in operands(passes)]
    first, _ = run(with_operands(passes, turned))
    second, _ = run(with_operands(passes, [x.resolve_conj().contiguous() for x in turned]))
    assert torch.equal(first[0], second[0])


def test_rotations_are_blocks() -> None:
    blocks = torch.linalg.qr(torch.randn(2, 7, 3, 4, 4, dtype=torch.float64))[0]
    state = torch.randn(2, 12, 1, dtype=torch.float64)
    source = FromTransitions(RotationTransition(blocks))
    agrees_with_plain_loop(GivenPasses(source, state, (), None, 0, 0))


@pytest.fixture
def task() -> tuple[Given, list[Tensor]]:
    """A complete task of the low-rank kind, and the memory it points to."""
    passes = problem(Kind("low rank", 5, 2), columns=3, inputs="outer", readout=True)
    saved, gradients = run(passes)
    given = [*operands(passes), *saved, *cotangents(passes), *gradients]
    task, _ = GIVEN.problem(passes.rescale, passes.operands)
    names = ["diagonal", "left", "right", "state", "input_left", "input_right", "readout"]
    names += ["outputs", "last", "factors", "starts", "in_outputs", "in_last"]
    names += [f"in_{name}" for name in names[:7]]
    for name, x in zip(names, given, strict=True):
        setattr(task, name, x.data_ptr())
    work = torch.empty(call("backward_work", task), dtype=torch.uint8)
    task.work, task.work_bytes = work.data_ptr(), work.numel()
    return task, [*given, work]


def call(function: str, task: Given | None) -> int:
    """A C function's answer to a task."""
    found = library()
    assert found is not None
    c = getattr(found.c, f"slicekit_given_{function}")
    c.restype = ctypes.c_int64
    return c(None if task is None else ctypes.byref(task))


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ({}, OK),
        ({"batch": -1}, BAD_SIZE),
        ({"length": 0}, BAD_SIZE),
        ({"dim": 0}, BAD_SIZE),
        ({"columns": 0}, BAD_SIZE),
        ({"columns": 2**62}, BAD_SIZE),
        ({"rank": 0}, BAD_SIZE),
        ({"threads": 0}, BAD_SIZE),
        ({"threads": 10**6}, BAD_SIZE),
        ({"kind": kernel.Kind.BLOCKS, "rank": 0, "block": 2}, BAD_SIZE),
        ({"kind": kernel.Kind.BLOCKS, "rank": 0}, BAD_SIZE),
        ({"kind": 3}, BAD_OPTION),
        ({"kind": -1}, BAD_OPTION),
        ({"real": 2}, BAD_OPTION),
        ({"complex": 1}, BAD_OPTION),
        ({"block": 5}, BAD_OPTION),
        ({"rescale": 2}, BAD_OPTION),
        ({"input": 64}, BAD_OPTION),
        ({"diagonal": None}, BAD_POINTER),
        ({"left": None}, BAD_POINTER),
        ({"right": None}, BAD_POINTER),
        ({"state": None}, BAD_POINTER),
        ({"input_left": None}, BAD_POINTER),
        ({"starts": None}, BAD_POINTER),
        ({"work": None}, BAD_POINTER),
        ({"work_bytes": 64}, BAD_WORKSPACE),
    ],
    ids=str,
)
def test_faults_are_named_by_their_status(
    task: tuple[Given, list[Tensor]], fault: dict[str, int | None], status: int
) -> None:
    for name, value in fault.items():
        setattr(task[0], name, value)
    assert call("forward", task[0]) == status
    assert call("backward", task[0]) == status


@pytest.mark.parametrize("name", ["outputs", "last"])
def test_forward_needs_its_results(task: tuple[Given, list[Tensor]], name: str) -> None:
    setattr(task[0], name, None)
    assert call("forward", task[0]) == BAD_POINTER


@pytest.mark.parametrize(
    "name",
    [
        *("in_outputs", "in_last", "in_diagonal", "in_left", "in_right", "in_state"),
        *("in_input_left", "in_input_right", "in_readout"),
    ],
)
def test_backward_needs_its_gradients(task: tuple[Given, list[Tensor]], name: str) -> None:
    setattr(task[0], name, None)
    assert call("forward", task[0]) == OK
    assert call("backward", task[0]) == BAD_POINTER


def test_missing_task_is_a_fault() -> None:
    assert call("forward", None) == BAD_POINTER
    assert call("backward_work", None) == -1
