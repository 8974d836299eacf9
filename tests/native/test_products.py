"""All transitions of a sequence as one, by the kernel that carries columns of blocks together."""

import pytest
import torch
from torch import Tensor

from slicekit import (
    BlockDiagonal,
    Dense,
    Diagonal,
    DirectSum,
    Exponential,
    JointDPLR,
    Native,
    Orthogonal,
    solve,
)
from slicekit.flows import resolve
from slicekit.native import available, reason
from slicekit.scans.native.passes import MadePasses
from slicekit.scans.sources import FromTable, Made
from slicekit.structures import Structure

pytestmark = pytest.mark.skipif(not available(), reason=f"no native library: {reason()}")

STRUCTURES = [
    Diagonal(19),
    BlockDiagonal(12, 2),
    BlockDiagonal(9, 3),
    BlockDiagonal(20, 4),
    BlockDiagonal(21, 7),
    BlockDiagonal(32, 16),
    BlockDiagonal(blocks=[3, 2, 1, 9]),
    Dense(18),
    DirectSum(Diagonal(7), Dense(5)),
    JointDPLR(7, 2),
    Orthogonal(12, 4),
    Orthogonal(22, 11),
    DirectSum(Diagonal(3), Orthogonal(4, 2), JointDPLR(5, 1)),
]
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-13}


def dense(structure: Structure, rows: Tensor, powers: Tensor) -> Tensor:
    """The product (batch, dim, dim) of what stands side by side for all blocks."""
    numbers = torch.ldexp(rows, powers)
    found = rows.new_zeros(rows.shape[0], structure.dim, structure.dim)
    at = 0
    for size in sizes(structure):
        part = slice(at, at + size)
        found[:, part, part] = numbers[:, part, :size]
        assert not numbers[:, part, size:].any()
        at += size
    return found


def sizes(structure: Structure) -> list[int]:
    """Rows of each block that mixes."""
    if isinstance(structure, DirectSum):
        return [size for part in structure.parts for size in sizes(part)]
    if isinstance(structure, Diagonal):
        return [1] * structure.dim
    if isinstance(structure, BlockDiagonal | Orthogonal):
        return list(
            getattr(structure, "blocks", None)
            or [structure.block] * (structure.dim // structure.block)
        )
    return [structure.dim]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
@pytest.mark.parametrize("tokens", [False, True], ids=["path", "tokens"])
def test_the_product_is_that_of_the_dense_transitions(
    structure: Structure, dtype: torch.dtype, tokens: bool
) -> None:
    source = torch.Generator().manual_seed(3)
    parameters = {name: x.to(dtype) for name, x in structure.init(3, generator=source).items()}
    table = 0.3 * torch.randn(5, 3, generator=source, dtype=dtype)
    index = torch.randint(5, (3, 41), generator=source)
    flow = resolve(structure, None)
    state = torch.randn(3, structure.dim, 2, generator=source, dtype=dtype)
    inputs = torch.randn(3, 41, structure.dim, 2, generator=source, dtype=dtype)
    made = (
        FromTable(structure, flow, parameters, table, index)
        if tokens
        else Made(structure, flow, parameters, table[index])
    )
    passes = MadePasses(made, state, (inputs,), None, 2**20, 8)
    assert passes.multiplies()
    rows, powers, driven, kept = passes.product(True)
    steps = flow.transition(structure, parameters, table[index]).as_dense()
    expected = torch.eye(structure.dim, dtype=dtype).expand(3, -1, -1)
    rest = torch.zeros_like(state)
    for step, u in zip(steps.unbind(1), inputs.unbind(1), strict=True):
        expected, rest = step @ expected, step @ rest + u
    assert driven is not None
    for found, whole in ((dense(structure, rows, powers), expected), (driven, rest)):
        assert (found - whole).abs().max() <= TOLERANCE[dtype] * whole.abs().max()
    plain = MadePasses(made, state, (inputs,), None, 2**20, 0)
    if kept:
        again, once = plain.forward(True, kept), plain.forward(True)
        assert all(torch.equal(x, y) for x, y in zip(again, once, strict=True))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_products_neither_overflow_nor_die(dtype: torch.dtype) -> None:
    """Blocks that grow by 2^4000 and die by as much: powers say so, and numbers are near 1."""
    eye = torch.eye(4, dtype=dtype)
    blocks = torch.stack([3 * eye, -0.75 * eye, -eye, 0 * eye]).unsqueeze(0)
    structure, path = BlockDiagonal(16, 4), torch.ones(1, 2000, 1, dtype=dtype)
    source = Made(structure, resolve(structure, None), {"blocks": blocks}, path)
    rows, powers, _, _ = MadePasses(source, eye.new_zeros(1, 16, 1), (), None, 0, 8).product(False)
    diagonal = torch.arange(4)
    found = rows[0].unflatten(0, (4, 4))[:, diagonal, diagonal]
    exponents = powers[0].unflatten(0, (4, 4))[:, diagonal, diagonal]
    assert found.tolist() == [[1.0] * 4, [1.0] * 4, [0.0] * 4, [1.0] * 4]
    assert exponents[[0, 1, 3]].tolist() == [[4000] * 4, [-4000] * 4, [0] * 4]


def test_gradients_of_the_state_alone_are_those_among_all() -> None:
    """Nothing is written where gradients of transitions would go."""
    torch.manual_seed(0)
    for structure in (BlockDiagonal(20, 4), JointDPLR(7, 2), Dense(18), BlockDiagonal(9, 3)):
        parameters, path = structure.init(3), 0.3 * torch.randn(2, 30, 3)
        state = torch.randn(2, structure.dim, requires_grad=True)
        for flow in (None, Exponential()):
            if flow is not None and isinstance(structure, JointDPLR):
                continue
            scan = Native(keep=0)
            trained = {name: x.clone().requires_grad_() for name, x in parameters.items()}
            states, _ = solve(structure, parameters, path, state, flow, scan)
            alone = torch.autograd.grad(states.square().sum(), state)[0]
            states, _ = solve(structure, trained, path, state, flow, scan)
            among = torch.autograd.grad(states.square().sum(), state)[0]
            assert torch.equal(alone, among)
