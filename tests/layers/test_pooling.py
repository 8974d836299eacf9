"""Pooling: one vector for a sequence, also in parts, with padding, and in half precision."""

import pytest
import torch

from slicekit import Last, Mean
from slicekit.layers import Pooling
from tests.layers.reference import every_split
from tests.ownership import shared

POOLS: dict[str, Pooling] = {"mean": Mean(), "last": Last()}
every_pool = pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)


def by_hand(pool: Pooling, x: torch.Tensor) -> torch.Tensor:
    return torch.stack(
        [row.sum(0) / len(row) if pool == Mean() else row[len(row) - 1] for row in x]
    )


@every_pool
def test_pooling_in_any_parts_is_pooling_the_whole(pool: Pooling) -> None:
    x = torch.randn(3, 5, 2, dtype=torch.float64)
    for sizes in every_split(5):
        state, pooled = None, None
        for part in x.split(sizes, 1):
            pooled, state = pool(part, state)
        torch.testing.assert_close(pooled, by_hand(pool, x))


@every_pool
def test_pooling_ignores_padding_in_value_and_gradient(pool: Pooling) -> None:
    x = torch.randn(3, 5, 2, dtype=torch.float64)
    lengths = torch.tensor([2, 5, 1])
    for row, length in zip(x, lengths.tolist(), strict=True):
        row[length:] = torch.nan
    x.requires_grad_()
    pooled, _ = pool(x, lengths=lengths)
    rows = zip(x, lengths.tolist(), strict=True)
    expected = torch.cat([by_hand(pool, row[None, :length]) for row, length in rows])
    torch.testing.assert_close(pooled, expected)
    (found,) = torch.autograd.grad(pooled.square().sum(), x, retain_graph=True)
    (wanted,) = torch.autograd.grad(expected.square().sum(), x)
    assert found.isfinite().all()
    torch.testing.assert_close(found, wanted)


@every_pool
def test_a_part_in_which_nothing_came_changes_nothing(pool: Pooling) -> None:
    early, late = torch.randn(2, 2, 3, 4, dtype=torch.float64)
    _, state = pool(early, lengths=torch.tensor([2, 3]))
    pooled, _ = pool(late, state, torch.tensor([0, 2]))
    torch.testing.assert_close(pooled[0], by_hand(pool, early[:1, :2])[0])
    both = torch.cat([early[1:], late[1:, :2]], 1)
    torch.testing.assert_close(pooled[1], by_hand(pool, both)[0])


def test_the_mean_of_nothing_is_zero() -> None:
    pooled, state = Mean()(torch.full((1, 3, 2), torch.nan), lengths=torch.tensor([0]))
    assert torch.equal(pooled, torch.zeros(1, 2))
    later, _ = Mean()(torch.ones(1, 1, 2), state)
    assert torch.equal(later, torch.ones(1, 2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_mean_over_many_steps_of_half_precision_does_not_lose_count(dtype: torch.dtype) -> None:
    """bfloat16 counts to 256 and float16 sums to 65504."""
    x = torch.full((1, 600, 1), 150.0, dtype=dtype)
    whole, _ = Mean()(x)
    state, pooled = None, None
    for element in x.split(1, 1):
        pooled, state = Mean()(element, state)
    assert pooled is not None and pooled.dtype == whole.dtype == dtype
    assert whole.item() == pooled.item() == 150


@every_pool
def test_states_share_no_memory_with_inputs_and_outputs(pool: Pooling) -> None:
    x = torch.randn(3, 5, 2)
    for lengths in (None, torch.tensor([2, 5, 1])):
        pooled, state = pool(x, lengths=lengths)
        assert not shared(state.tensors, x, pooled)
