"""Batch norms of sequences: torch's own on full batches, and padding does not count."""

import pytest
import torch
from torch import nn

from slicekit.layers import BatchNorm, LayerNorm, RMSNorm
from slicekit.layers.norms import SequenceBatchNorm

WIDTH = 5


def torch_norm() -> nn.BatchNorm1d:
    return nn.BatchNorm1d(WIDTH, affine=False, dtype=torch.float64)


def test_training_and_evaluation_are_those_of_torch() -> None:
    ours, theirs = BatchNorm().module(WIDTH).double(), torch_norm()
    for seed in range(3):
        x = torch.randn(4, 7, WIDTH, dtype=torch.float64, generator=_source(seed)) + 2
        x.requires_grad_()
        y, expected = ours(x), theirs(x.mT).mT
        torch.testing.assert_close(y, expected)
        cotangent = torch.randn(y.shape, dtype=torch.float64, generator=_source(9))
        gradients = [torch.autograd.grad(z, x, cotangent)[0] for z in (y, expected)]
        torch.testing.assert_close(*gradients)
    ours.eval()
    theirs.eval()
    x = torch.randn(4, 7, WIDTH, dtype=torch.float64, generator=_source(5))
    torch.testing.assert_close(ours(x), theirs(x.mT).mT)
    torch.testing.assert_close(ours(x[:, 3]), ours(x)[:, 3])


def test_padding_does_not_count() -> None:
    lengths = torch.tensor([6, 2, 0])
    x = torch.randn(3, 6, WIDTH, dtype=torch.float64, generator=_source(0))
    padded = x.clone()
    padded[1, 2:], padded[2] = torch.nan, torch.nan
    ours, theirs = BatchNorm().module(WIDTH).double(), torch_norm()
    valid = torch.cat([x[0], x[1, :2]])
    expected = theirs(valid)
    y = ours(padded, lengths)
    torch.testing.assert_close(torch.cat([y[0], y[1, :2]]), expected)
    assert isinstance(ours, SequenceBatchNorm)
    torch.testing.assert_close(ours.mean, theirs.running_mean)
    torch.testing.assert_close(ours.variance, theirs.running_var)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_counts_many_elements(dtype: torch.dtype) -> None:
    x = torch.randn(70, 1000, WIDTH, generator=_source(0)) + 1
    norm, full = (BatchNorm().module(WIDTH) for _ in range(2))
    y, expected = norm(x.to(dtype)), full(x)
    assert y.dtype == dtype
    torch.testing.assert_close(y.float(), expected, rtol=0.05, atol=0.05)
    torch.testing.assert_close(norm.state_dict(), full.state_dict(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("policy", [BatchNorm(), LayerNorm(), RMSNorm()])
def test_policies_make_modules_of_a_width(policy) -> None:
    x = torch.randn(2, 3, WIDTH)
    assert policy.module(WIDTH)(x).shape == x.shape


def _source(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
