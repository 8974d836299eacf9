"""Tokens through the fused recurrence: sizes that fill lane groups take ways of their own."""

from typing import Any

import pytest
import torch
from torch import Tensor

import slicekit as sk
from slicekit.bench.timing import threads
from slicekit.native import available, reason
from slicekit.scans import Scan
from slicekit.structures import Structure

pytestmark = pytest.mark.skipif(not available(), reason=f"no native library: {reason()}")

FILLED: list[Structure] = [
    *(sk.BlockDiagonal(32, block) for block in (1, 2, 4, 8, 16)),
    sk.BlockDiagonal(96, 32),
    sk.DiagonalDense(48, 16),
    sk.Orthogonal(32, 4),
    *(sk.JointDPLR(32, rank) for rank in (1, 2, 3, 8, 16)),
    *(sk.WalshHadamard(dim) for dim in (1, 2, 8, 16, 32, 64, 128, 256, 512, 2048, 4096, 1024)),
]

STRIPS: list[Structure] = [sk.BlockDiagonal(720, 4), sk.Orthogonal(592, 4)]
"""So many lane groups that they are run through in several strips, which are not of one width."""

UNEVEN: list[Structure] = [
    sk.JointDPLR(37, 2),
    sk.DirectSum(sk.Diagonal(5), sk.JointDPLR(21, 7)),
    sk.DirectSum(sk.JointDPLR(18, 1), sk.BlockDiagonal(9, 3)),
]
"""Parts that leave lanes empty, with blocks that fill theirs and with some that do not."""


def _run(
    structure: Structure, dtype: torch.dtype, scan: Scan, trained: bool, length: int
) -> list[Tensor]:
    """Values and gradients of six sequences of four tokens, -1 among them."""
    source = torch.Generator().manual_seed(0)
    channels = 35  # two lane groups of them and a few more
    index = torch.randint(-1, 4, (6, length), generator=source)
    table = (torch.randn(4, channels, generator=source) / 20).to(dtype).requires_grad_(trained)
    state = torch.randn(6, structure.dim, generator=source).to(dtype).requires_grad_()
    parameters = {
        name: x.to(dtype).requires_grad_(trained)
        for name, x in structure.init(channels, source, increment=0.05).items()
    }
    leaves = [state, *([table, *parameters.values()] if trained else [])]
    h, last = sk.solve(structure, parameters, sk.Tabulated(table, index), state, None, scan)
    loss = (h * torch.linspace(-1, 1, length)[:, None]).sum() + last.sin().sum()
    return [h.detach(), last.detach(), *torch.autograd.grad(loss, leaves)]


@pytest.mark.parametrize("structure", FILLED + STRIPS + UNEVEN, ids=str)
@pytest.mark.usefixtures("every_isa", "poisoned_memory")
def test_tokens_are_the_loop_in_values_and_gradients(structure: Structure) -> None:
    expected = _run(structure, torch.float64, sk.Recurrent(), True, 5)
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 2e-4)):
        for found, wanted in zip(
            _run(structure, dtype, sk.Native(), True, 5), expected, strict=True
        ):
            largest = float(wanted.abs().max())
            torch.testing.assert_close(
                found.double(), wanted, rtol=0, atol=tolerance * max(1.0, largest)
            )


@pytest.mark.parametrize("structure", [FILLED[2], FILLED[7], *STRIPS], ids=str)
@pytest.mark.usefixtures("every_isa", "poisoned_memory")
def test_the_same_with_frozen_parameters_and_after_norms_were_restored(
    structure: Structure,
) -> None:
    found = _run(structure, torch.float64, sk.Native(), False, 70)
    expected = _run(structure, torch.float64, sk.Recurrent(), False, 70)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("structure", [FILLED[2], FILLED[-1]], ids=str)
def test_a_table_that_is_kept_and_one_that_is_made_again_are_equal(structure: Structure) -> None:
    kept = _run(structure, torch.float32, sk.Native(), True, 5)
    again = _run(structure, torch.float32, sk.Native(keep=0), True, 5)
    for found, expected in zip(kept, again, strict=True):
        assert torch.equal(found, expected)


def test_states_that_fill_large_pages_are_those_of_small_batches() -> None:
    source = torch.Generator().manual_seed(0)
    layer = sk.SLiCE(3, sk.WalshHadamard(1024), generator=source)
    table = torch.randn(4, 3, generator=source)
    index = torch.randint(-1, 4, (12, 100), generator=source)
    together = layer(sk.Tabulated(table, index))
    apart = [layer(sk.Tabulated(table, part)) for part in index.split(4)]
    assert torch.equal(together, torch.cat(apart))


@pytest.mark.parametrize("structure", [FILLED[2], FILLED[10]], ids=str)
@pytest.mark.usefixtures("poisoned_memory")
def test_threads_change_nothing_but_rounding(structure: Structure) -> None:
    with threads(1):
        alone = _run(structure, torch.float64, sk.Native(), True, 5)
    with threads(2):
        shared = _run(structure, torch.float64, sk.Native(), True, 5)
    torch.testing.assert_close(shared, alone, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("structure", [FILLED[2], FILLED[7], FILLED[10], FILLED[-6]], ids=str)
@pytest.mark.usefixtures("every_isa", "poisoned_memory")
def test_a_first_token_that_drives_nothing_leaves_the_state_as_it_is(structure: Structure) -> None:
    source = torch.Generator().manual_seed(0)
    layer = sk.SLiCE(7, structure, initial=sk.FirstInput(), generator=source).double()
    table = torch.randn(4, 7, dtype=torch.float64, generator=source, requires_grad=True)
    index = torch.randint(-1, 4, (6, 5), generator=source)
    weights = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    answers = []
    for h in (
        layer(sk.Tabulated(table, index)),
        layer.trajectory(sk.Tabulated(table, index), scan=sk.Recurrent())[0],
    ):
        leaves = [table, *layer.parameters()]
        answers.append([h, *torch.autograd.grad((h * weights).sum(), leaves)])  # type: ignore
    torch.testing.assert_close(*answers, rtol=1e-9, atol=1e-9)


MANY: list[Structure] = [
    sk.BlockDiagonal(32, 4),
    sk.BlockDiagonal(33, 3),  # lanes that are padded
    sk.BlockDiagonal(48, 24),  # larger than a lane group
    sk.Orthogonal(36, 6),
    sk.DiagonalDense(48, 16),
    sk.JointDPLR(32, 4),
    sk.JointDPLR(20, 3),
    sk.WalshHadamard(32),
]
"""Whose parameters stand in the order of lanes, or in none."""


@pytest.mark.parametrize("structure", MANY, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.usefixtures("every_isa", "poisoned_memory")
def test_more_tokens_and_channels_than_are_pulled_back_at_a_time(
    structure: Structure, dtype: torch.dtype
) -> None:
    source = torch.Generator().manual_seed(0)
    layer = sk.SLiCE(110, structure, generator=source).to(dtype)
    table = torch.randn(70, 110, generator=source).to(dtype).requires_grad_()
    index = torch.randint(-1, 70, (8, 12), generator=source)
    leaves = [table, *layer.parameters()]

    def gradients(h: Any) -> list[Tensor]:
        weights = torch.linspace(-1, 1, 12, dtype=dtype)[:, None]
        return [h.detach(), *torch.autograd.grad((h * weights).sum(), leaves)]

    tokens = sk.Tabulated(table, index)
    expected = gradients(layer.trajectory(tokens, scan=sk.Recurrent())[0])
    tolerance = 1e-10 if dtype is torch.float64 else 1e-4
    for count in (1, 2, 3):
        with threads(count):
            found = gradients(layer(tokens))
        for x, y in zip(found, expected, strict=True):
            largest = max(1.0, float(y.abs().max()))
            torch.testing.assert_close(x, y, rtol=0, atol=tolerance * largest)
