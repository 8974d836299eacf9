"""Where the path is data, its gradient is left out; every other gradient stays the same."""

import pytest
import torch
from torch import Tensor

from slicekit import (
    DPLR,
    BlockDiagonal,
    Chunked,
    Dense,
    DirectSum,
    Exponential,
    Native,
    Sparse,
    Tabulated,
    WalshHadamard,
    solve,
)
from slicekit.structures import Diagonal, Structure

STRUCTURES: dict[str, Structure] = {
    "blocks": BlockDiagonal(8, 4),
    "dense": Dense(8),
    "sum": DirectSum(Diagonal(4), Dense(4)),
    "sparse and hadamard": DirectSum(Sparse(4, density=0.5), WalshHadamard(4)),
    "dplr": DPLR(8, 2),
}


def _gradients(name: str, scan, batch: int, table: bool, needed: bool) -> dict[str, Tensor]:
    structure, source = STRUCTURES[name], torch.Generator().manual_seed(0)
    parameters = {
        n: x.double().requires_grad_() if x.is_floating_point() else x
        for n, x in structure.init(3, source).items()
    }
    path = 0.3 * torch.randn(5 if table else batch, 6, 3, generator=source, dtype=torch.float64)
    path = path[:, 0] if table else path
    path.requires_grad_(needed)
    index = torch.randint(5, (batch, 6), generator=source)
    start = torch.ones(batch, 8, dtype=torch.float64, requires_grad=True)
    flow = Exponential() if name in ("blocks", "sum") else None
    increments = Tabulated(path, index) if table else path
    states, _ = solve(structure, parameters, increments, start, flow, scan)
    states.square().sum().backward()
    assert (path.grad is not None) == needed
    found = {n: x.grad for n, x in (parameters | {"start": start}).items() if x.grad is not None}
    return found | ({} if path.grad is None else {"path": path.grad})


@pytest.mark.parametrize("table", [False, True], ids=["series", "tokens"])
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("scan", [Native(), Chunked()], ids=["native", "chunked"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_other_gradients_stay_the_same(name: str, scan, batch: int, table: bool) -> None:
    whole = _gradients(name, scan, batch, table, needed=True)
    part = _gradients(name, scan, batch, table, needed=False)
    assert whole.keys() - part.keys() == {"path"}
    for key, gradient in part.items():
        torch.testing.assert_close(gradient, whole[key])
