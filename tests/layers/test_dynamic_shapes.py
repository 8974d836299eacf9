"""A compiled model leaves batch and length open: new sizes do not mean new compilations."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import slicekit as sk

SIZES = [(2, 10), (2, 12), (2, 33), (3, 34), (4, 70), (5, 50), (6, 41)]


@pytest.mark.parametrize(
    "layer",
    [
        sk.SLiCE(5, sk.BlockDiagonal(8, 4)),
        sk.SLiCE(5, sk.DPLR(8, 2), flow=sk.Exponential()),
        sk.SLiCE(5, sk.WalshHadamard(8), projective=True),
    ],
    ids=["block-diagonal", "dplr-exponential", "projective"],
)
def test_a_few_compilations_serve_all_sizes(layer):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, backend=counter, fullgraph=True)
    for batch, length in SIZES:
        x = torch.randn(batch, length, 5)
        h = compiled(x)
        h.sum().backward()
        torch.testing.assert_close(h, layer(x), atol=1e-5, rtol=1e-5)
    assert counter.frame_count <= 3
