"""Recurrences by a table of dense matrices, and sums of sparse ones, against plain loops."""

import ctypes
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import slicekit as sk
from slicekit.native import available, reason
from slicekit.native.recurrences import SPARSE_SUMS, TABLE, Steps
from slicekit.native.recurrences import Table as TableStruct
from slicekit.scans import Scan
from slicekit.scans.native import tokens
from slicekit.structures import Structure
from tests.native.increment_scans import (
    BAD_INDEX,
    BAD_OPTION,
    BAD_POINTER,
    BAD_SIZE,
    assert_equal,
    assert_near,
    poisoned_memory,
    status,
    threads,
)

pytestmark = pytest.mark.skipif(not available(), reason=f"no native library: {reason()}")

SHAPES = [  # vocabulary, dim, batch, length, columns, inputs, rescale
    (1, 1, 1, 1, 1, False, 0),
    (3, 7, 4, 9, 3, True, 0),
    (5, 16, 40, 2, 1, True, 0),
    (61, 33, 50, 6, 1, False, 0),
    (4, 20, 9, 11, 2, False, 4),
]


@dataclass(frozen=True)
class Table:
    """One recurrence by a table."""

    matrices: Tensor
    index: Tensor
    state: Tensor
    inputs: Tensor | None
    rescale: int


def _problem(
    vocabulary: int, dim: int, batch: int, length: int, columns: int, inputs: bool, rescale: int
) -> tuple[Table, Tensor, Tensor]:
    """Random float64, and the gradients of its results."""
    matrices = torch.randn(vocabulary, dim, dim).double() / dim
    index = torch.randint(0, vocabulary, (batch, length))
    state, in_last = torch.randn(2, batch, dim, columns).double()
    dense, in_states = torch.randn(2, batch, length, dim, columns).double()
    table = Table(matrices, index, state, dense if inputs else None, rescale)
    return table, in_states, in_last


def _native(table: Table, in_states: Tensor, in_last: Tensor) -> dict[str, Tensor]:
    plan = (Steps(table.rescale), [table.matrices, table.index, table.state, table.inputs])
    results = TABLE.forward(*plan)
    gradients = TABLE.backward(*plan, results, (in_states, in_last), [])
    names = ("states", "factors", "in matrices", "in index", "in state", "in inputs")
    pairs = zip(names, (*results[:2], *gradients), strict=True)
    return {name: x for name, x in pairs if x is not None}


def _plain(table: Table, in_states: Tensor, in_last: Tensor) -> dict[str, Tensor]:
    matrices, state = (x.clone().requires_grad_() for x in (table.matrices, table.state))
    inputs = None if table.inputs is None else table.inputs.clone().requires_grad_()
    h, states, factors = state, [], []
    for t, row in enumerate(table.index.unbind(1)):
        if table.rescale and t % table.rescale == 0:
            size = h.detach().abs().amax(1) if t else torch.ones_like(h[:, 0])
            factors.append(size.log2().floor().exp2())
            h = h / factors[-1].unsqueeze(1)
        h = h + matrices[row] @ h
        h = h if inputs is None else h + inputs[:, t]
        states.append(h)
    found = {"states": torch.stack(states, 1).detach()}
    found["factors"] = torch.stack(factors, 1) if factors else state.new_empty(0)
    leaves = {"in matrices": matrices, "in state": state}
    leaves |= {} if inputs is None else {"in inputs": inputs}
    results = [torch.stack(states, 1), h]
    gradients = torch.autograd.grad(results, list(leaves.values()), [in_states, in_last])
    return found | dict(zip(leaves, gradients, strict=True))


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_equal_those_of_the_loop(shape: tuple) -> None:
    given = _problem(*shape)
    assert_near(_native(*given), _plain(*given), 1e-11)


def test_windows_of_steps_add_up() -> None:
    """The adjoints of these steps do not fit into one window."""
    given = _problem(3, 16, 300, 150, 1, False, 0)
    assert_near(_native(*given), _plain(*given), 1e-9)


def test_threads_and_what_memory_held_change_nothing_but_rounding() -> None:
    given = _problem(5, 20, 9, 7, 2, True, 0)
    alone = _native(*given)
    with poisoned_memory():
        assert_equal(_native(*given), alone)
    for count in (2, 3, 64):
        with threads(count):
            assert_near(_native(*given), alone, 1e-13)


@pytest.mark.usefixtures("every_isa")
@pytest.mark.parametrize("vocabulary, dim, channels", [(1, 1, 1), (61, 33, 9), (130, 16, 4)])
def test_sums_of_sparse_matrices_are_those_of_the_structure(
    vocabulary: int, dim: int, channels: int
) -> None:
    structure = sk.Sparse(dim, 0.3)
    parameters = structure.init(channels)
    values, places = parameters["values"].double(), parameters["places"]
    table = torch.randn(vocabulary, channels).double()

    def dense(values: Tensor, table: Tensor) -> Tensor:
        return structure.combine({"values": values, "places": places}, table).as_dense()

    gradient = torch.randn(vocabulary, dim, dim).double()
    leaves = [x.clone().requires_grad_() for x in (values, table)]
    matrices = dense(*leaves)
    pulled = torch.autograd.grad(matrices, leaves, gradient, materialize_grads=True)
    expected = {"matrices": matrices.detach(), "in values": pulled[0], "in table": pulled[1]}
    for count in (1, 3):
        with threads(count):
            plan = (dim, [values, places, table])
            (made,) = SPARSE_SUMS.forward(*plan)
            in_values, none, in_table = SPARSE_SUMS.backward(*plan, [made], [gradient], [])
        assert none is None and in_values is not None and in_table is not None
        found = {"matrices": made, "in values": in_values, "in table": in_table}
        assert_near(found, expected, 1e-12)


def test_the_door_names_what_the_kernel_refused() -> None:
    table, _, _ = _problem(3, 4, 2, 5, 1, False, 0)
    index = table.index.clone()
    index[0, 0] = 3
    with pytest.raises(RuntimeError, match="table_forward was given an index outside its table"):
        TABLE.forward(Steps(), [table.matrices, index, table.state, None])
    values, places = torch.ones(2), torch.tensor([4, 3])
    with pytest.raises(RuntimeError, match="sparse_table_forward was given an index"):
        SPARSE_SUMS.forward(3, [values, places, torch.ones(2, 1)])


def test_bad_arguments_are_named_before_anything_is_touched() -> None:
    given = TableStruct(8, 2, 3, 4, 1, 5, 0, 1)
    function = "slicekit_table_forward"
    for name in ("length", "dim", "columns", "vocabulary", "threads"):
        assert status(function, given, **{name: 0}) == BAD_SIZE
    assert status(function, given, batch=2**60) == BAD_SIZE
    assert status(function, given, real=2) == BAD_OPTION
    assert status(function, given, rescale=-1) == BAD_OPTION
    assert status(function, given) == BAD_POINTER
    index = torch.full((2, 3), 7)
    room = torch.empty(10**5, dtype=torch.uint8)
    names = ("matrices", "state", "states", "work")
    held = dict.fromkeys(names, room.data_ptr()) | {"index": index.data_ptr()}
    assert status(function, given, **held, work_bytes=ctypes.sizeof(TableStruct)) == 4
    assert status(function, given, **held, work_bytes=room.numel()) == BAD_INDEX


@pytest.mark.parametrize("batch", [1, 40])
@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("structure", [sk.Sparse(6, 0.5), sk.DPLR(6, 3)])
def test_tokens_are_tabulated_where_that_is_cheaper_and_equal_the_loop(
    structure: Structure, projective: bool, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[bool] = []
    pays = tokens.pays

    def noted(*given: object) -> bool:
        chosen.append(pays(*given))  # type: ignore[arg-type]
        return chosen[-1]

    monkeypatch.setattr(tokens, "pays", noted)
    monkeypatch.setattr(tokens, "CACHED", 9 * 6 * 4)  # four rows of products, and then two
    channels, vocabulary, length = 9, 3, 10 * batch
    parameters = {
        name: x.double() if x.is_floating_point() else x
        for name, x in structure.init(channels).items()
    }
    table = (torch.randn(vocabulary, channels).double() / 10).requires_grad_()
    index = torch.randint(-1, vocabulary, (batch, min(length, 12)))
    state = torch.randn(batch, structure.dim).double()
    leaves = [table]
    for name, x in parameters.items():
        if x.is_floating_point():
            parameters[name] = x.requires_grad_()
            leaves.append(x)

    def run(scan: Scan) -> list[Tensor]:
        start = sk.Projective.of(state) if projective else state
        h, _ = sk.solve(structure, parameters, sk.Tabulated(table, index), start, None, scan)
        loss = (h.direction.sin() if isinstance(h, sk.Projective) else h.sin()).sum()
        return [loss.detach(), *torch.autograd.grad(loss, leaves)]

    for found, expected in zip(run(sk.Native()), run(sk.Recurrent()), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9)
    assert set(chosen) == {batch > 1}
