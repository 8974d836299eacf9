"""Pooled filters of the library against the same in torch, in parts and as a whole."""

import pytest
import torch
from torch import Tensor

from slicekit.estimators.pools.filters import add_pools
from slicekit.native.library import available
from slicekit.native.sequences import pool_filters

pytestmark = pytest.mark.skipif(not available(), reason="no native library")

LENGTHS = (600, 1, 7, 513, 256, 0)


def problem(groups: int = 3, filters: int = 8, channels: int = 2) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random)

    return {
        "x": draw(len(LENGTHS), channels, max(LENGTHS)),
        "lengths": torch.tensor(LENGTHS),
        "begun": torch.zeros(len(LENGTHS), dtype=torch.int64),
        "mixes": draw(groups, channels) * torch.tensor([1.0, 0.0, 1.0])[:groups, None],
        "weights": draw(groups, filters, 9),
        "thresholds": draw(groups, filters, 4) + 0.01,
    }


def nothing(operands: dict[str, Tensor], stretched: int = 3) -> dict[str, Tensor]:
    cases, (groups, filters) = len(operands["x"]), operands["weights"].shape[:2]
    sums = {
        "pools": torch.zeros(cases, groups, filters, 7, dtype=torch.float64),
        "leaders": torch.zeros(cases, groups, 2, filters, dtype=torch.float64),
        "stretches": torch.zeros(cases, groups, stretched, 5, dtype=torch.float64),
    }
    for name in ("pools", "stretches"):
        sums[name][..., 4] = -torch.inf
    return sums


def added(operands: dict[str, Tensor], dilation: int, threads: int = 1) -> dict[str, Tensor]:
    sums = nothing(operands)
    pool_filters(operands, sums, dilation=dilation, history=0, threads=threads)
    return sums


@pytest.mark.parametrize("dilation", [1, 2, 8, 40])
@pytest.mark.parametrize("filters", [8, 3, 11])
def test_it_agrees_with_torch(dilation: int, filters: int) -> None:
    operands = problem(filters=filters)
    expected = nothing(operands)
    add_pools(operands, expected, dilation, 0)
    found = added(operands, dilation)
    # Where z has no mixture it is exactly zero, and where it stands still a matter of rounding.
    for name, sums in expected.items():
        torch.testing.assert_close(found[name], sums, rtol=1e-4, atol=1e-3)


def test_threads_and_parts_change_nothing() -> None:
    operands, dilation = problem(), 4
    whole = added(operands, dilation)
    for name, sums in added(operands, dilation, threads=2).items():
        assert torch.equal(sums, whole[name])
    sums, first = nothing(operands), 32
    x, lengths = operands["x"], operands["lengths"]
    begin = {**operands, "x": x[..., :first], "lengths": lengths.clamp(max=first)}
    pool_filters(begin, sums, dilation=dilation, history=0, threads=1)
    begun = lengths.clamp(max=first)
    rest = {**operands, "lengths": (lengths - first).clamp_min(0), "begun": begun}
    pool_filters(rest, sums, dilation=dilation, history=first, threads=1)
    for name, found in sums.items():
        torch.testing.assert_close(found, whole[name], rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("mixes", torch.zeros(3, 5)),
        ("weights", torch.zeros(3, 8, 7)),
        ("thresholds", torch.zeros(2, 8, 4)),
        ("lengths", torch.zeros(2, dtype=torch.int64)),
        ("x", torch.zeros(6, 2, 600, dtype=torch.float64)),
    ],
)
def test_arrays_that_do_not_fit_are_named(name: str, wrong: Tensor) -> None:
    operands = problem()
    with pytest.raises((TypeError, ValueError), match=name):
        pool_filters(operands | {name: wrong}, nothing(operands), dilation=1, history=0, threads=1)


def test_lengths_outside_the_series_are_refused() -> None:
    operands = problem()
    operands["lengths"] = operands["lengths"] + 1
    with pytest.raises(RuntimeError, match="index outside"):
        added(operands, 1)
